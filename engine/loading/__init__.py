"""From the wish to load a model to one that is ready to answer."""
