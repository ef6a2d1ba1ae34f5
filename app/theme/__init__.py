"""How everything looks: tokens, palette, style sheet, icons, fonts."""
