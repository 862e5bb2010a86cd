"""The outputs of a corpus run: files, shards, manifests, cut audio."""
