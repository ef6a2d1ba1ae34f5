"""A ceiling of graphics memory, and everything that comes of it. `view` is the door."""
