"""Finding and checking models."""
