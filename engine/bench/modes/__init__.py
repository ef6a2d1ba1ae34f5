"""The comparison of modes for the model in memory, on fixed questions, in turns."""
