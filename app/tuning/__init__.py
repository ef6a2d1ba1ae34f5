"""Panel and page on how the loaded model runs: mode, draft, and use of a GPU's memory."""
