"""What is here, how fast it is, what it is doing."""
