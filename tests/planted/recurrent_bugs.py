"""Planted bugs of recurrent states and of the families that have them; see `bugs`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from native_bugs import plant


def rejected_rows_in_the_state() -> None:
    """A round writes its rows into the state, as if all of them were accepted."""
    plant("delta.c", "w->eager || node == 0 ? -1 : 0, w->eager ? -1 : 0", "-1, -1")


def accepted_rows_left_among_the_rejected() -> None:
    """Rows of an accepted path stay where they were staged, and others are taken in."""
    honest = "memmove(dt_delta_row(s, target + i), dt_delta_row(s, sources[i]),"
    plant("delta_state.c", honest, f"if (0) {honest}")


def convolution_over_neighbours() -> None:
    """The convolution sees the rows staged before a node, not those of its path."""
    plant("delta.c", "return parent < 0 ? w->taken - 1 : w->taken + parent;", "return node - 1;")


def siblings_begin_with_each_others_state() -> None:
    """A node's first child overwrites the state that the others begin with."""
    plant("delta.c", "alone = node == last && from >= 0", "alone = from >= 0")


def a_lead_taken_for_ones_own() -> None:
    """Where another sequence's prompt leads its states to is taken for where one's own does."""
    plant("delta.c", "s->lead == *number && s->lead_past == w->committed",
          "s->lead_past == w->committed")  # fmt: skip


def a_lead_followed_after_a_rejection() -> None:
    """A state is taken to be behind all rows of a long chain, although not all were committed."""
    plant("delta.c", "s->lead == *number && s->lead_past == w->committed", "s->lead == *number")


def states_that_do_not_go_back() -> None:
    """A conversation that is cropped keeps the state of what is gone."""
    from engine.backend.native.cache import NativeCache

    NativeCache.reusable = lambda _self, slots: slots  # type: ignore[method-assign]
    plant("delta.c", "if (state->past > w->committed || w->taken > DT_MOST_ROWS)",
          "if (w->taken < 0) w->taken = 0;\n    if (0)")  # fmt: skip
    NativeCache.crop = lambda _self, _slots: None  # type: ignore[method-assign]


def rejected_rows_in_a_devices_state() -> None:
    """A round on a WebGPU device writes its rows into the state, as if all were accepted."""
    from engine.backend.webgpu.states import StateRows

    honest = StateRows._walk

    def walk(self: Any, *arguments: Any, **wishes: Any) -> Any:
        words, nodes = honest(self, *arguments, **wishes)
        words[2] = words[1]
        return words, nodes

    StateRows._walk = walk  # type: ignore[method-assign]


def accepted_rows_of_a_device_left_where_they_were() -> None:
    """Rows of an accepted path are not told of, and others are taken in."""
    from engine.backend.webgpu.states import StateRows

    StateRows.move = lambda _self, _sources, _target: None  # type: ignore[method-assign]


def paths_begin_where_others_end() -> None:
    """The paths of a tree on a WebGPU device go on with the state of the path before."""
    from engine.backend.webgpu import states

    states.WALK_ANEW = 0


def a_devices_convolution_over_neighbours() -> None:
    """The convolution on a WebGPU device sees the rows staged before a node."""
    from engine.backend.webgpu import states

    honest = states.StateRows._walk

    def walk(self: Any, *arguments: Any, **wishes: Any) -> Any:
        words, nodes = honest(self, *arguments, **wishes)
        begin, count = states.WALK_ENTRIES, self.window + nodes
        words[begin + 1 : begin + 2 * count : 2] = range(-1, count - 1)
        return words, nodes

    states.StateRows._walk = walk  # type: ignore[method-assign]


def a_devices_states_do_not_go_back() -> None:
    """A conversation that is cropped to a snapshot keeps the state of what is gone."""
    from engine.backend.webgpu.memory import GpuCache

    GpuCache._copy = lambda *_arguments, **_wishes: None  # type: ignore[method-assign]


def value_heads_taken_for_neighbours() -> None:
    """Value heads of a GGUF file are taken to lie beside those of the same key head."""
    from engine.model.families import qwen3_5

    honest = qwen3_5._delta
    qwen3_5._delta = lambda source: replace(honest(source), tiled=False)


def the_heads_block_counted() -> None:
    """The block of an MTP head is taken for one of the model's."""
    from engine.model.gguf import config

    honest = config._Model.optional_whole

    def optional_whole(self: Any, name: str, *limits: int) -> Any:
        return None if name == "nextn_predict_layers" else honest(self, name, *limits)

    config._Model.optional_whole = optional_whole  # type: ignore[method-assign]


def an_mtp_head_goes_on_from_what_is_not_normed() -> None:
    """An MTP head's next feature is what comes before its final norm."""
    plant("forward.c", "const int returned = !s->fusion || s->fusion->returns_normed;",
          "const int returned = !s->fusion;")  # fmt: skip


def norms_of_an_mtp_head_taken_as_they_are() -> None:
    """The norms before an MTP head's first matrix are taken for whole factors in safetensors."""
    from engine.model.weights import parts

    honest = parts._qwen3_5

    def places(config: Any, name: str, shape: Any) -> Any:
        for part in honest(config, name, shape):
            yield replace(part, plus_one=part.plus_one and not name.startswith("fusion."))

    parts._qwen3_5 = places
