"""Batches of utterances through worker processes or Ray actors."""
