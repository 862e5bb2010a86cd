"""What the networks of other toolkits share: chunks, padding, precision and frame times."""
