"""The pages in the middle of the window besides the chat, and the ways to them."""
