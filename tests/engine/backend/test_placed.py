"""Shares of a model on devices: which are refused, and what the signature says of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from full_models import RandomWeights, full_config
from split_models import cut

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.segment import NativeBackend
from engine.backend.segment import Share
from engine.machine.facts import CPU


@pytest.mark.parametrize(
    "shares",
    [
        [],
        [Share(CPU, range(4), heads=True)],
        [Share(CPU, range(4), embeds=True)],
        [Share(CPU, range(3), embeds=True, heads=True)],
        [Share(CPU, range(2), embeds=True), Share(CPU, range(3, 4), heads=True)],
        [Share(CPU, range(3), embeds=True), Share(CPU, range(2, 4), heads=True)],
        [Share(CPU, range(2, 4), embeds=True), Share(CPU, range(2), heads=True)],
        [Share(CPU, range(2), embeds=True), Share(CPU, range(2, 4), embeds=True, heads=True)],
        [Share(CPU, range(2), embeds=True, heads=True), Share(CPU, range(2, 4), heads=True)],
    ],
)
def test_shares_that_are_not_the_whole_model(shares: list[Share]) -> None:
    config = full_config()
    with pytest.raises(ValueError, match="not the whole model"):
        Decoder.placed(config, RandomWeights(config), shares, {CPU: NativeBackend(Format.Q4)})


class _Elsewhere:
    """A native segment under another device's name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def compile(self, *arguments: object, **parts: bool) -> object:
        segment = NativeBackend(Format.Q4).compile(*arguments, **parts)  # type: ignore[arg-type]
        renamed = type("_Renamed", (type(segment),), {"signature": f"{self.name}:q4/kv-f16"})
        segment.__class__ = renamed
        return segment


@pytest.mark.release(keep=4, reason="every placement")
@pytest.mark.parametrize(
    ("borders", "devices", "expected"),
    [
        ((), "a", "a:q4/kv-f16"),
        ((0,), "ab", "b:q4/kv-f16"),
        ((2,), "aa", "a:q4/kv-f16"),
        ((3,), "ab", "a:q4/kv-f16[0:3]+b:q4/kv-f16[3:4]"),
        ((0, 3), "bab", "a:q4/kv-f16[0:3]+b:q4/kv-f16[3:4]"),
        ((1, 2, 3), "abba", "a:q4/kv-f16[0:1]+b:q4/kv-f16[1:3]+a:q4/kv-f16[3:4]"),
        ((4,), "ab", "a:q4/kv-f16[0:4]+b:q4/kv-f16[head]"),
        ((0, 4), "aba", "b:q4/kv-f16[0:4]+a:q4/kv-f16[head]"),
    ],
)
def test_the_signature_names_the_device_of_every_block(
    borders: Sequence[int], devices: str, expected: str
) -> None:
    config = full_config()
    shares = cut(config.num_layers, borders, devices)
    backends = {name: _Elsewhere(name) for name in devices}
    decoder = Decoder.placed(config, RandomWeights(config), shares, backends)  # type: ignore[arg-type]
    assert decoder.signature == expected
