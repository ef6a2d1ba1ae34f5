"""What the machine is doing, sampled on a thread of its own."""
