"""The state of a run, from which it is resumed: journal, lock, fingerprints, summary."""
