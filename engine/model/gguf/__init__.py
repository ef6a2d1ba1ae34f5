"""GGUF files: llama.cpp's format, one or several files with weights, config and vocabulary."""
