"""Lists of two-line rows with a badge, drawn as they come into sight."""
