"""Widgets, layouts and painting that several parts of the window use."""
