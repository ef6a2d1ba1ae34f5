"""The check of a real card: what it runs, what it brings along, and what it says in the end."""
