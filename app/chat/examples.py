"""Questions to begin with: those that the starter model answers well, chosen by trying.

They are in English whatever the window speaks: the starter model knows no other language.
"""

from __future__ import annotations

BEGINNINGS = (
    "Once upon a time there was a brave mouse who",
    "The three most important inventions are",
    "def add(a, b):",
    "Photosynthesis is the process by which",
    "The moon rose over the sea, and",
    "Dear neighbours,",
)
"""For models that only continue text."""
EXAMPLES = (
    "What can you do?",
    "Tell me a short story about a brave mouse.",
    "What is speculative decoding?",
    "Explain photosynthesis in simple words.",
    "Write a short poem about the moon.",
    "Write a Python function that adds two numbers.",
)
