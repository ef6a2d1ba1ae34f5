"""The conversation: list, transcript, composer, and the session that joins them to the engine."""
