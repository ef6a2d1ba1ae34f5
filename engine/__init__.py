"""Duotail's engine: heterogeneous speculative decoding, usable without a window.

The arrows point one way: `service` -> `decode` -> (`draft`, `model`) -> `backend`.
Nothing in here imports Qt or `app`.
"""
