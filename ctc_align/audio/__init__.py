"""Audio input: any media file, or samples in memory, to mono float32 at the rate of the model."""
