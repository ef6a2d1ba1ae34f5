"""Questions to begin with.

They are in English whatever the window speaks: they are sent to the bundled model, which knows no
other language.
"""

from __future__ import annotations

EXAMPLES = (
    "Hello! What can you do?",
    "Tell me a short story about a dog.",
    "How does speculative decoding work?",
    "What does the word brave mean?",
)
