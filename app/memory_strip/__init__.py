"""The line at the bottom of the window: what memory is full of, and how well it was foreseen."""
