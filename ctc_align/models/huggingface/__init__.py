"""`hf:ORG/NAME` and `hf:./FOLDER`: networks of `transformers` with a CTC head."""
