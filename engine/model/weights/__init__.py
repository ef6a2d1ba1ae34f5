"""A model's tensors: where files store them, and as backends read them."""
