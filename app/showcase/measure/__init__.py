"""`duotail bench ui`: what the window costs, measured in a real one on the real engine."""
