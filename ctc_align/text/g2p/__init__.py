"""Letter-to-phone: pronunciations of English words that are in no lexicon."""
