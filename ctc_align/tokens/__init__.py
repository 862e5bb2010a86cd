"""Tokens: the words of a transcript in the vocabulary of a model; each token knows its word."""
