"""The processor and its memory, as far as this process may use them."""
