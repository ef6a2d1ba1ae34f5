"""Training of drafts and the recipe of the bundled models: to come."""
