"""Tokenizer descriptions (as in tokenizer.json) built from what other kinds of files store."""
