"""Files of Duotail: paths, one window per folder, moving it, and files that the user saves."""
