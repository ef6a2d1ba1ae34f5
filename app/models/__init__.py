"""Choosing among the models on this computer. Finding and downloading them comes here too."""
