"""Models that run elsewhere: the client of OpenAI-compatible servers.

`address` reads what the user types, `catalogue` which models a server has and what program it is,
`payload` writes a request, `client` sends it, `stream` reads what comes, `answer` turns that into
the engine's own events, and `switchboard` sends the window's commands to the engine here or to a
server. What may go wrong is put into words in `trouble`.
"""
