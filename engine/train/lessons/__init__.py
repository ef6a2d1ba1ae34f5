"""Our own conversations to learn from: written ones, with choices and slots, and computed ones."""
