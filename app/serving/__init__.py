"""The window's model for other programs: the server in the window's process, and its requests."""
