"""Token tree, sampler, verifier, the loops and the online controller."""
