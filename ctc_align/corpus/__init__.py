"""Corpora: read them, align them in batches, keep a journal for resuming, and report failures."""
