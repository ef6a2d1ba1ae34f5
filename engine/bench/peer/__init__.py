"""llama.cpp as the peer of the benchmarks: the same weights, the same machine, the same run."""
