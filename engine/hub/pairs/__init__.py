"""Which drafts fit which targets, and why the others do not."""
