"""The native CPU path: quantised segments in plain C (engine/native), called through ctypes."""
