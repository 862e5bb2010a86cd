"""`ctc-align serve`: a local app and an HTTP API, with a loaded model, a queue, and a folder of alignments."""
