"""Sampling of a conversation's answers: presets, settings, the system prompt."""
