"""Panel and page on how the loaded model runs: mode, draft, and use of a GPU's memory.

The full page with its curves comes here too.
"""
