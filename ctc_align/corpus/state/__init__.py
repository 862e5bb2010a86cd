"""The state of a run, from which the next one resumes: journal, lock, fingerprints, summary."""
