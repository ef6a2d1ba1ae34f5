"""A simulated accelerator: a CPU core that acts as a GPU with declared speeds and memory."""
