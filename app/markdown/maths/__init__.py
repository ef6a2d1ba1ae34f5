"""Formulas in LaTeX as readable text."""
