"""Where Duotail keeps its files: paths, one window per folder, moving, files the user saves."""
