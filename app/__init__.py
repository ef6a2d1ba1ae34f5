"""Duotail's window: the only place that imports Qt."""
