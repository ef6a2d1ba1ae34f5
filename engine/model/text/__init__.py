"""Text to token ids and back: vocabularies, templates, streams."""
