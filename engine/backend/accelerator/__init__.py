"""Accelerators through torch: CUDA, ROCm, XPU and MPS; torch's "cpu" device serves in tests."""
