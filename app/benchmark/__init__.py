"""Which mode is best here: measured with one click."""
