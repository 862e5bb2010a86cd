"""What a run leaves behind and resumes from: journal, lock, fingerprints, summary."""
