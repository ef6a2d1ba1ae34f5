"""The OpenAI-compatible server: other programs ask the model that is loaded here.

A request's way: `guard` lets it in, a dialect in `dialects/` reads it, `queue` gives it its turn,
`reception` hands it to the engine as an ordinary command, `generation` follows its events, and the
dialect writes the answer. The web server runs on a thread and an event loop of its own (`server`).
"""
