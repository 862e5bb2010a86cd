"""Tokens: words in the vocabulary of a model, each token with the word that it belongs to."""
