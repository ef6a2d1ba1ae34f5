"""The decoder-only model: configuration, weights, tokenizer, Decoder and its sequence state."""
