"""Look of the window: tokens, palette, style sheet, icons, fonts."""
