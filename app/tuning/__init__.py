"""How the loaded model runs: its mode, what drafts for it, how much of a graphics card it may use.

The full page with its curves comes here too.
"""
