"""Where the results of a corpus go: files, shards, manifests, cut audio."""
