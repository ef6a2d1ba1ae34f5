"""What a PC is: processor, memory, accelerators, and how fast they are. Facts only."""
