"""Triton kernels of an accelerator's products. Only `shapes` may be imported without Triton."""
