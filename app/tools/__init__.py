"""Tools that answers may call: built in, and of MCP servers."""
