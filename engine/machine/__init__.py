"""What a PC is: its processor, memory and accelerators, how fast they are. Facts, in one vocabulary."""
