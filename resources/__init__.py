"""Files that ship with the app: the bundled models and their card."""
