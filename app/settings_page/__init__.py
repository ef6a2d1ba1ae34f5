"""The settings page and its dialogs: presets, data and privacy, crash reports."""
