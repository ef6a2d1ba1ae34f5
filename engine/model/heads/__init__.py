"""Feature heads in folders: what their config.json says, and what that comes to with a target."""
