"""The main window and what belongs to no page: actions, pages, the memory line, first opening."""
