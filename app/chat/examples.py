"""Questions to begin with.

They are in English whatever the window speaks: they are sent to the bundled model, which knows no
other language.
"""

from __future__ import annotations

EXAMPLES = (
    "What can you do?",
    "Tell me a story about a brave mouse.",
    "What is speculative decoding?",
    "Write a short poem about the moon.",
)
