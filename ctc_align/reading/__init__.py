"""The door for everything that is read: regular files that fit into memory, and values that may be wrong."""
