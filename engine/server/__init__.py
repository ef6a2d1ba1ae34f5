"""The OpenAI-compatible server: other programs use the model that is loaded here.

A request's way: `access` lets it in, a dialect in `dialects/` parses it, `queue` gives it its turn,
`models` finds its model, `dispatcher` hands it to the engine as an ordinary command, `generation`
follows its events, and the dialect writes the response. The web server runs on a thread and an
event loop of its own (`server`).
"""
