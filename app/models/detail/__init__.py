"""All that there is to say of one model, and what can be done with it."""
