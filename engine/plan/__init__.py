"""Pure planning: facts in, a plan out."""
