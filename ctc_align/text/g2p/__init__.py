"""Pronunciations of English spellings that no lexicon has: a small letter-to-phone network."""
