"""Words and a vocabulary to token ids, each with the word that it belongs to."""
