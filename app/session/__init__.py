"""The open conversation and the answer being written. No widgets."""
