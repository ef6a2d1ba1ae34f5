"""Segments: runs of decoder blocks compiled for one device."""
