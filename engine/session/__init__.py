"""An answer being written: prompt, prefill, rounds, text, statistics."""
