"""How many cores this process has, by operating system."""
