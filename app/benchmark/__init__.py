"""Benchmark of the modes, with one click: the best one here."""
