"""Triton kernels of an accelerator's products. Only `choice` may be imported without Triton."""
