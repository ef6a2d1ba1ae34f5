"""Drafts that are no models by themselves: their config.json, and what it is with a target."""
