"""A budget of GPU memory, and everything that comes of it. `view` is the door."""
