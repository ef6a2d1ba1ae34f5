"""The one crossing between the engine's threads and Qt, and how the loaded model runs."""
