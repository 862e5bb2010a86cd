"""The spoken form of written English: numbers, abbreviations, addresses, quantities."""
