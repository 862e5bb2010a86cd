"""`ctc-align serve`: the page as a local app, and an HTTP API; a warm model, a queue, and a folder of alignments."""
