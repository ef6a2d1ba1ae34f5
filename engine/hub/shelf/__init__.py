"""The models kept on this computer: found, imported, moved, checked, deleted."""
