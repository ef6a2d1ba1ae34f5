"""Layers in torch operators that the CPU's fp32 path and accelerators share."""
