"""The draft lane of the parallel loop: a thread that drafts while the target verifies."""
