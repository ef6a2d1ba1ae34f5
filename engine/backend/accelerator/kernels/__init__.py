"""Triton kernels of an accelerator's products and attention.

Only `shapes` may be imported without Triton.
"""
