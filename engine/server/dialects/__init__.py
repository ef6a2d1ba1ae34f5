"""The shapes in which clients ask and are answered, a module for each."""
