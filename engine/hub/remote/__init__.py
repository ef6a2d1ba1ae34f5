"""The hub: what it has, and what went wrong in words; only the worker process imports this."""
