"""The engine without a window: `duotail chat`, `duotail bench`."""
