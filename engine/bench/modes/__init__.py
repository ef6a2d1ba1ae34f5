"""Which mode is best for the model in memory: measured on fixed questions, in turns."""
