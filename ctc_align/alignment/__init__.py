"""Emissions and tokens to words with times: the stages of an alignment."""
