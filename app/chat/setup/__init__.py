"""How the answers of a conversation are drawn: presets, sampling, the system prompt."""
