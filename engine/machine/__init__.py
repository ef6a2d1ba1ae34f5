"""The PC: processor, memory, accelerators, how fast they are; and processes within limits."""
