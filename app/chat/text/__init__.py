"""The text of a message: markdown in blocks, their place in the source, what is painted over."""
