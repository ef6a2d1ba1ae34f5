"""The markdown of answers: its dialect, and the formulas in it."""
