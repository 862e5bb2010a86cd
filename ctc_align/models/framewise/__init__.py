"""The common part of other toolkits' networks: chunks, padding, precision and frame times."""
