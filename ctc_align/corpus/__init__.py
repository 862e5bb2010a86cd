"""Corpora: read them, align them in batches, keep a journal that makes resuming possible, say what failed."""
