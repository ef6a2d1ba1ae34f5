"""Screenshots of every page and state, and what the window costs. Nobody else imports it."""
