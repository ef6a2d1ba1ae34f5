"""Speculative decoding: the loops, sampler and verification, costs and controllers, drafters."""
