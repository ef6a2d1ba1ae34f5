"""Known defects, planted one at a time. The suite has to fail for each of them.

Each comes from a published system, from a review or from a mistake of our own. This module is a
pytest plugin: with DUOTAIL_PLANTED_BUG=name it plants that bug before any test runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import count
from typing import Any

import pytest
from download_bugs import (
    a_head_beside_a_model_opened_in_its_place,
    notes_of_a_file_that_was_changed,
    room_for_the_largest_download_only,
    sizes_taken_for_hashes,
)
from drafting_bugs import (
    budgets_priced_by_the_level,
    disturbed_rounds_never_forgotten,
    draft_keeps_rejected_keys,
    drafted_keys_below_the_wrong_node,
    drafts_deaf_to_a_stop,
    drafts_without_ways_back,
    features_left_among_rejected_nodes,
    features_of_cut_tokens,
    head_keeps_keys_of_guessed_features,
    head_pairs_shifted,
    node_without_its_parent,
    orphan_parent,
    pairs_of_another_beginning,
    target_deaf_to_a_stop,
)
from folder_bugs import (
    borrowed_matrices_kept_with_the_head,
    borrowed_matrices_packed_again,
    offsets_taken_for_tokens,
    taps_one_block_late,
)
from hardware_bugs import (
    calibration_deaf_to_a_stop,
    limits_of_outer_groups_ignored,
    speeds_of_other_cards_kept,
    values_beyond_halves_kept,
)
from hypothesis import Phase, settings
from memory_bugs import (
    a_long_context_takes_all_the_room,
    failed_loads_keep_what_they_had,
    ledger_omission,
    mapped_memory_counted_twice,
)
from model_bugs import (
    cut_off_files_taken_for_whole,
    damaged_scales_accepted,
    end_of_text_taken_for_html,
    experts_weighed_among_all,
    factors_of_short_texts_for_long_ones,
    message_end_ends_the_answer,
    neighbours_taken_for_halves,
    norms_without_their_one,
    rates_taken_as_stored,
    spaces_behind_control_tokens_doubled,
    window_without_the_row_itself,
)
from native_bugs import rows_between_stretches_nobodys, what_a_wider_head_has_left
from parallel_bugs import (
    drafted_tail_shown,
    failures_of_the_draft_swallowed,
    grafts_computed_twice,
    guesses_kept_for_the_next_answer,
    lane_outlives_its_answer,
    merit_counted_twice,
    noise_counted_from_where_reading_began,
    own_features_kept_behind_a_commit,
    own_token_kept_from_the_draft,
    rejected_pairs_of_a_head_stay,
    settled_keys_left_where_they_were,
    ties_by_the_order_of_calls,
    tokens_behind_a_stop_string_counted,
)
from planning_bugs import (
    borrowed_matrices_counted_twice,
    disturbed_answers_move_the_model,
    drafts_leave_their_embedding_behind,
    drafts_take_no_memory,
    draws_on_every_core,
    features_take_no_memory,
    states_left_out_of_an_offered_context,
)
from recurrent_bugs import (
    a_devices_convolution_over_neighbours,
    a_devices_states_do_not_go_back,
    a_lead_followed_after_a_rejection,
    a_lead_taken_for_ones_own,
    accepted_rows_left_among_the_rejected,
    accepted_rows_of_a_device_left_where_they_were,
    an_mtp_head_goes_on_from_what_is_not_normed,
    convolution_over_neighbours,
    norms_of_an_mtp_head_taken_as_they_are,
    paths_begin_where_others_end,
    rejected_rows_in_a_devices_state,
    rejected_rows_in_the_state,
    siblings_begin_with_each_others_state,
    states_that_do_not_go_back,
    the_heads_block_counted,
    value_heads_taken_for_neighbours,
)
from server_bugs import (
    answers_begun_anew_after_making_room,
    answers_of_others_stopped_from_the_window,
    biases_that_the_draws_leave_out,
    connections_without_a_request_stay,
    hosts_known_by_their_beginning,
    prompts_of_others_in_ones_own_cache,
    turns_kept_until_all_is_read,
)
from tool_bugs import (
    calls_run_without_being_asked_for,
    cards_without_a_height,
    changed_tools_run_all_the_same,
    imports_that_bring_their_tools,
    loops_of_calls_without_a_bound,
    permissions_that_outlive_their_tool,
    redirects_to_anywhere,
    results_with_control_characters,
    the_whole_environment_given_to_servers,
)
from window_bugs import (
    everything_at_once_at_a_start,
    messages_sent_before_they_are_counted,
    messages_sent_to_a_model_that_is_not_there_yet,
    notices_that_outlive_their_files,
    numbers_of_the_last_go_alone,
    room_shared_alike_among_files,
    waiting_messages_sent_before_they_are_counted,
)

ENVIRONMENT = "DUOTAIL_PLANTED_BUG"


@dataclass(frozen=True, slots=True)
class Bug:
    """A defect, and the tests that have to notice it."""

    plant: Callable[[], None]
    noticed_by: tuple[str, ...]


def raw_logits_at_the_last_node() -> None:
    """The official Dovetail code draws the last token without temperature and filters."""
    from engine.backend.native.sampling import NativeDraws
    from engine.request import SamplingParams
    from engine.speculative.sampler import Sampler

    def verify(self: Any, request: Any, logits: Any) -> Any:
        done = honest(self, request, logits)
        if logits.ndim == 1 or done.path[-1] in request.parents:
            return done
        params = SamplingParams(temperature=1.0, seed=self.struct.seed)
        raw = Sampler(params, native=False)
        last = raw.draw(logits[done.path[-1]], request.tokens, done.tokens[:-1])
        return replace(done, tokens=(*done.tokens[:-1], last))

    honest = NativeDraws.verify
    NativeDraws.verify = verify  # type: ignore[method-assign]


def unverified_tail_kept() -> None:
    """The official DuoDecoding code returns and counts what the target has not verified."""
    from engine.backend.native.sampling import NativeDraws

    def verify(self: Any, request: Any, logits: Any) -> Any:
        done = honest(self, request, logits)
        node, tail, parents = done.path[-1], [], request.parents
        while node in parents and len(done.tokens) + len(tail) < request.limit:
            node = list(parents).index(node)
            tail.append(node)
        drafted = tuple(request.nodes[kept] for kept in tail)
        return replace(
            done, path=(*done.path, *tail), tokens=(*done.tokens[:-1], *drafted, done.tokens[-1])
        )

    honest = NativeDraws.verify
    NativeDraws.verify = verify  # type: ignore[method-assign]


def stale_keys_after_rejection() -> None:
    """Accepted nodes keep the slots in which they were staged."""
    from engine.backend.torch_cpu.attention import TorchCache

    TorchCache.move = lambda _self, _sources, _target: None  # type: ignore[method-assign]


def grammars_ignore_the_path() -> None:
    """What is allowed at the root is taken to be allowed below it."""
    from engine.speculative.constraint import Constraint

    honest = Constraint.allowed
    Constraint.allowed = lambda self, tokens, _path=(): honest(self, tokens)  # type: ignore[method-assign]


def penalties_ignore_the_path() -> None:
    """Penalties look at committed tokens only, not at the tree above the node."""
    from engine.speculative.sampler import Sampler

    _draw_by_numpy()
    honest = Sampler._penalise

    def penalise(self: Any, scores: Any, tokens: Any, _path: Any) -> Any:
        return honest(self, scores, tokens, ())

    Sampler._penalise = penalise  # type: ignore[method-assign]


def double_bos() -> None:
    """The template writes the first token, and the tokenizer writes it again."""
    from engine.model.text.chat_template import ChatTemplate

    honest = ChatTemplate.prompt

    def prompt(self: Any, messages: Any, tokenizer: Any, **options: Any) -> Any:
        right = honest(self, messages, tokenizer, **options)
        if tokenizer.bos_id is None:
            return right
        return replace(right, ids=[tokenizer.bos_id, *right.ids])

    ChatTemplate.prompt = prompt  # type: ignore[method-assign]


def stop_string_across_rounds_missed() -> None:
    """Each piece of text is searched on its own."""
    from engine.model.text.text_stream import TextStream

    TextStream._possible_stop = lambda _self, _text: 0  # type: ignore[method-assign]


def noise_keyed_by_round() -> None:
    """The noise depends on how many draws there were, not on the position."""
    from engine.backend.noise import noise as honest
    from engine.speculative import sampler

    _draw_by_numpy()
    draws = count()

    def noise(seed: int, _position: int, vocab: int, ids: Any = None) -> Any:
        return honest(seed, next(draws), vocab, ids)

    sampler.noise = noise  # type: ignore[attr-defined]


def products_of_any_shape() -> None:
    """Rows are multiplied as many at a time as there are, so BLAS sums in another order."""
    from engine.backend.torch_cpu.linear import FloatLinear

    def product(self: Any, x: Any, **_precision: bool) -> Any:
        import torch

        matrix, bias = self._matrix, self._bias
        rows = max(int((x.abs().sum(1) > 0).sum()), 1)
        y = torch.zeros(x.shape[0], matrix.shape[1])
        y[:rows] = (x[:rows].double() @ matrix.double()).float() if rows == 1 else x[:rows] @ matrix
        return y if bias is None else y.add_(bias)

    FloatLinear.__call__ = product  # type: ignore[method-assign]


def positions_off_by_one() -> None:
    """The last node of a tree is rotated one position too low (stand-alone drafts in Dovetail)."""
    from engine.backend.step import Step

    honest = Step.positions.func

    def positions(self: Any) -> Any:
        found = honest(self)
        if self.tree is not None:
            found[-1] = max(found[-1] - 1, self.committed)
        return found

    Step.positions = property(positions)  # type: ignore[assignment]


def length_counts_the_first_token() -> None:
    """The prefill's own token is counted as a decode round (acceptance length overstated)."""
    from engine.session.tally import Tally

    honest = Tally.add

    def add(self: Any, done: Any, counted: int, *, first: bool) -> None:
        del first
        honest(self, done, counted, first=False)

    Tally.add = add  # type: ignore[method-assign]


def damaged_cache_trusted() -> None:
    """Packed weights are taken from the disk as they are, whatever became of them there."""
    from engine.backend.native.library import library

    library().dt_checksum = lambda *_: 0


def cache_by_path_and_size() -> None:
    """Weights that were replaced by others of the same size are not noticed."""
    from engine.backend.native import cached_weights

    def source_of(files: Sequence[Any], fmt: Any) -> str:
        stands = f"{[(str(file), file.stat().st_size) for file in files]} {fmt}"
        return blake2b(stands.encode(), digest_size=16).hexdigest()

    cached_weights.source_of = source_of


def a_part_taken_for_the_whole() -> None:
    """Packed matrices of a model's beginning are filed as if they were all of it."""
    from engine.backend.native.cached_weights import CachedWeights

    CachedWeights._content = lambda self: str(self._source)  # type: ignore[method-assign]


def keys_moved_in_one_segment_only() -> None:
    """After a rejection the other devices keep the keys of rejected tokens."""
    from engine.backend.sequence import SequenceState

    def commit(state: SequenceState, path: Sequence[int]) -> None:
        everywhere, state.caches = state.caches, state.caches[:1]
        honest(state, path)
        state.caches = everywhere

    honest = SequenceState.commit
    SequenceState.commit = commit  # type: ignore[method-assign]


def half_a_character_shown_twice() -> None:
    """A stopped answer shows what is undecided, and shows it again when it goes on."""
    from engine.model.text.text_stream import TextStream

    TextStream.suspend = TextStream.finish  # type: ignore[method-assign]


def opened_thought_twice() -> None:
    """Going on with an answer, the template opens the think block that the answer begins with."""
    from engine.model.text.chat_template import ChatTemplate, Prompt

    honest = ChatTemplate.prompt

    def prompt(self: Any, messages: Any, tokenizer: Any, **options: Any) -> Any:
        right = honest(self, messages, tokenizer, **options)
        if not options["continue_answer"]:
            return right
        begun, opening = right.begun, right.begun[: right.opening]
        before = right.ids[: len(right.ids) - len(begun)]
        return Prompt([*before, *opening, *begun], begun, right.opening)

    ChatTemplate.prompt = prompt  # type: ignore[method-assign]


def cards_matched_by_their_order() -> None:
    """Torch counts the fastest first, drivers go by the bus: one's memory, the other's speed."""
    from engine.devices.accelerators import facts as accelerators

    def next_one(left: Any, _gpu: Any) -> Any:
        return next(iter(left), None)

    accelerators._by_identity = next_one


_DECODE = "tests/engine/speculative/"
_SERVER = "tests/engine/server/test_"
_TOOLS = "tests/app/tools/test_"
_MODEL = "tests/engine/model/"
_STREAM = _MODEL + "text/test_text_stream.py::"
_PARITY = ("tests/engine/backend/test_parity.py",)
_PLAN = ("tests/engine/plan/test_against_ledgers.py",)
_CACHE = ("tests/engine/backend/test_packed_cache.py",)
_DEVICE_STATES = "tests/engine/backend/webgpu/test_webgpu_delta.py::test_"
_DEVICE_ROUNDS = (f"{_DEVICE_STATES}rejected_and_moved_rows_leave_nothing",)
_DEVICE_SNAPSHOTS = (f"{_DEVICE_STATES}snapshots_are_few_and_have_their_memory_from_the_first",)


def siblings_seen_on_an_accelerator() -> None:
    """Rows of a tree see all keys before their position by slot, beside those of their own path."""
    from engine.backend.accelerator.attention import MetadataMaker

    honest = MetadataMaker._mask

    def mask(self: Any, keys: Any, own: Any, window: int, behind: Any) -> Any:
        return honest(self, keys, own, window, None if behind is None else behind & False)

    MetadataMaker._mask = mask  # type: ignore[method-assign]


def context_not_entered_on_an_accelerator() -> None:
    """Keys and values are taken from torch without a word to the ledger."""
    from engine.backend.accelerator.memory import DeviceAllocator
    from engine.backend.ledger import Purpose

    honest = DeviceAllocator.enter

    def enter(self: Any, purpose: Purpose, nbytes: int) -> Any:
        return honest(self, purpose, 0 if purpose is Purpose.KV else nbytes)

    DeviceAllocator.enter = enter  # type: ignore[method-assign]


_ACCELERATOR = "tests/engine/backend/accelerator/test_accelerator_"
_EXACT = (_DECODE + "test_exactness.py",)
_HEAD = ("tests/engine/speculative/test_feature_head.py",)
_PARALLEL = (_DECODE + "test_parallel_exactness.py",)
_PARALLEL_HEADS = (_DECODE + "test_parallel_heads.py",)
_WORKER = _DECODE + "test_draft_worker.py"
_SPECULATION = ("tests/engine/speculative/test_draft_tree.py",)
_DUO = "tests/engine/session/test_duo_answers.py"
_FOLDERS = ("tests/engine/hub/test_head_folders.py",)

BUGS: dict[str, Bug] = {
    bug.plant.__name__: bug
    for bug in (
        Bug(raw_logits_at_the_last_node, _EXACT),
        Bug(unverified_tail_kept, _EXACT),
        Bug(stale_keys_after_rejection, _EXACT),
        Bug(orphan_parent, (_DECODE + "test_tree.py",)),
        Bug(penalties_ignore_the_path, _EXACT),
        Bug(noise_keyed_by_round, _EXACT),
        Bug(grammars_ignore_the_path, (_DECODE + "test_constrained.py",)),
        Bug(products_of_any_shape, ("tests/engine/backend/test_one_arithmetic.py",)),
        Bug(positions_off_by_one, _EXACT),
        Bug(double_bos, (_MODEL + "text/test_chat_template.py",)),
        Bug(
            half_a_character_shown_twice,
            (_STREAM + "test_cut_anywhere_and_resumed_it_is_the_uninterrupted_text",),
        ),
        Bug(opened_thought_twice, (_MODEL + "text/test_thinking.py",)),
        Bug(end_of_text_taken_for_html, (_MODEL + "text/test_tokenizer.py",)),
        Bug(message_end_ends_the_answer, (_MODEL + "text/test_channels.py",)),
        Bug(spaces_behind_control_tokens_doubled, (_MODEL + "text/test_tokenizer.py",)),
        Bug(
            stop_string_across_rounds_missed,
            (_STREAM + "test_nothing_is_shown_before_it_is_decided",),
        ),
        Bug(drafted_keys_below_the_wrong_node, ("tests/engine/speculative/test_one_call.py",)),
        Bug(draft_keeps_rejected_keys, ("tests/engine/speculative/test_standalone.py",)),
        Bug(head_keeps_keys_of_guessed_features, _HEAD),
        Bug(head_pairs_shifted, _HEAD),
        Bug(pairs_of_another_beginning, _HEAD),
        Bug(features_left_among_rejected_nodes, ("tests/engine/backend/test_features.py",)),
        Bug(features_of_cut_tokens, ("tests/engine/backend/test_features.py",)),
        Bug(drafts_deaf_to_a_stop, (_DECODE + "test_one_call.py",)),
        Bug(target_deaf_to_a_stop, (_DECODE + "test_stopping.py",)),
        Bug(taps_one_block_late, _FOLDERS),
        Bug(offsets_taken_for_tokens, _FOLDERS),
        Bug(borrowed_matrices_packed_again, ("tests/engine/backend/test_loans.py",)),
        Bug(
            borrowed_matrices_kept_with_the_head,
            ("tests/engine/loading/test_loading_heads_anywhere.py",),
        ),
        Bug(drafts_without_ways_back, (_DECODE + "test_recurrent_exactness.py",)),
        Bug(budgets_priced_by_the_level, (_DECODE + "test_controller.py",)),
        Bug(disturbed_rounds_never_forgotten, (_DECODE + "test_controller_answers.py",)),
        Bug(node_without_its_parent, (_DECODE + "test_tree.py",)),
        Bug(damaged_cache_trusted, _CACHE),
        Bug(cache_by_path_and_size, _CACHE),
        Bug(a_part_taken_for_the_whole, ("tests/engine/backend/test_packed_placements.py",)),
        Bug(keys_moved_in_one_segment_only, (_DECODE + "test_split_exactness.py",)),
        Bug(mapped_memory_counted_twice, ("tests/engine/loading/test_loading.py",)),
        Bug(drafts_take_no_memory, ("tests/engine/plan/test_machines.py",)),
        Bug(drafts_leave_their_embedding_behind, _PLAN),
        Bug(borrowed_matrices_counted_twice, _PLAN),
        Bug(
            disturbed_answers_move_the_model,
            ("tests/engine/service/test_placement_watch.py",),
        ),
        Bug(draws_on_every_core, ("tests/engine/loading/test_loading.py",)),
        Bug(features_take_no_memory, _PLAN),
        Bug(states_left_out_of_an_offered_context, ("tests/engine/plan/test_planner.py",)),
        Bug(failed_loads_keep_what_they_had, ("tests/engine/session/test_accelerated.py",)),
        Bug(ledger_omission, ("tests/engine/backend/test_held_memory.py",)),
        Bug(siblings_seen_on_an_accelerator, (_ACCELERATOR + "one_arithmetic.py",)),
        Bug(context_not_entered_on_an_accelerator, (_ACCELERATOR + "device.py",)),
        Bug(neighbours_taken_for_halves, (_MODEL + "gguf/test_gguf_weights.py",)),
        Bug(norms_without_their_one, _PARITY),
        Bug(window_without_the_row_itself, _PARITY),
        Bug(experts_weighed_among_all, _PARITY),
        Bug(factors_of_short_texts_for_long_ones, _PARITY),
        Bug(cut_off_files_taken_for_whole, (_MODEL + "gguf/test_gguf_file.py",)),
        Bug(rows_between_stretches_nobodys, ("tests/engine/backend/test_native_pool.py",)),
        Bug(what_a_wider_head_has_left, ("tests/engine/backend/test_uneven_blocks.py",)),
        Bug(rejected_rows_in_the_state, ("tests/engine/backend/test_delta.py",)),
        Bug(accepted_rows_left_among_the_rejected, ("tests/engine/backend/test_delta.py",)),
        Bug(convolution_over_neighbours, ("tests/engine/backend/test_delta.py",)),
        Bug(a_lead_taken_for_ones_own, ("tests/engine/backend/test_delta.py",)),
        Bug(a_lead_followed_after_a_rejection, ("tests/engine/backend/test_delta.py",)),
        Bug(siblings_begin_with_each_others_state, ("tests/engine/backend/test_delta.py",)),
        Bug(states_that_do_not_go_back, ("tests/engine/backend/test_delta.py",)),
        Bug(a_long_context_takes_all_the_room, ("tests/engine/loading/test_cache_budgets.py",)),
        Bug(rejected_rows_in_a_devices_state, _DEVICE_ROUNDS),
        Bug(accepted_rows_of_a_device_left_where_they_were, _DEVICE_ROUNDS),
        Bug(paths_begin_where_others_end, _DEVICE_ROUNDS),
        Bug(a_devices_convolution_over_neighbours, _DEVICE_ROUNDS),
        Bug(a_devices_states_do_not_go_back, _DEVICE_SNAPSHOTS),
        Bug(rates_taken_as_stored, ("tests/engine/loading/test_hybrid.py",)),
        Bug(value_heads_taken_for_neighbours, ("tests/engine/loading/test_hybrid.py",)),
        Bug(the_heads_block_counted, ("tests/engine/loading/test_hybrid.py",)),
        Bug(an_mtp_head_goes_on_from_what_is_not_normed, ("tests/engine/loading/test_mtp.py",)),
        Bug(norms_of_an_mtp_head_taken_as_they_are, ("tests/engine/loading/test_mtp.py",)),
        Bug(damaged_scales_accepted, ("tests/engine/backend/test_native_formats.py",)),
        Bug(drafted_tail_shown, _PARALLEL),
        Bug(own_token_kept_from_the_draft, _PARALLEL),
        Bug(tokens_behind_a_stop_string_counted, (_DUO,)),
        Bug(settled_keys_left_where_they_were, (_WORKER,)),
        Bug(guesses_kept_for_the_next_answer, _PARALLEL),
        Bug(lane_outlives_its_answer, _PARALLEL),
        Bug(
            failures_of_the_draft_swallowed,
            (_DUO + "::test_a_draft_that_fails_ends_the_answer_in_words",),
        ),
        Bug(own_features_kept_behind_a_commit, _PARALLEL_HEADS),
        Bug(rejected_pairs_of_a_head_stay, _PARALLEL_HEADS),
        Bug(noise_counted_from_where_reading_began, (_WORKER,)),
        Bug(merit_counted_twice, _SPECULATION),
        Bug(ties_by_the_order_of_calls, _SPECULATION),
        Bug(grafts_computed_twice, _SPECULATION),
        Bug(length_counts_the_first_token, ("tests/engine/session/test_tally.py",)),
        Bug(
            cards_matched_by_their_order,
            ("tests/engine/devices/accelerators/test_accelerators.py",),
        ),
        Bug(limits_of_outer_groups_ignored, ("tests/engine/devices/test_host.py",)),
        Bug(speeds_of_other_cards_kept, ("tests/engine/devices/test_kept_speeds.py",)),
        Bug(
            values_beyond_halves_kept,
            ("tests/engine/backend/accelerator/test_accelerator_infinite_values.py",),
        ),
        Bug(calibration_deaf_to_a_stop, ("tests/engine/devices/test_calibration.py",)),
        Bug(sizes_taken_for_hashes, ("tests/engine/hub/test_download_parts.py",)),
        Bug(
            a_head_beside_a_model_opened_in_its_place,
            ("tests/engine/hub/test_download_worker.py",),
        ),
        Bug(notes_of_a_file_that_was_changed, ("tests/engine/hub/test_download_parts.py",)),
        Bug(room_for_the_largest_download_only, ("tests/engine/hub/test_download_parts.py",)),
        Bug(hosts_known_by_their_beginning, (_SERVER + "access.py",)),
        Bug(biases_that_the_draws_leave_out, ("tests/engine/speculative/test_biased.py",)),
        Bug(connections_without_a_request_stay, (_SERVER + "server.py",)),
        Bug(answers_begun_anew_after_making_room, (_SERVER + "household.py",)),
        Bug(turns_kept_until_all_is_read, (_SERVER + "queue.py",)),
        Bug(prompts_of_others_in_ones_own_cache, (_SERVER + "server_advisories.py",)),
        Bug(
            answers_of_others_stopped_from_the_window,
            ("tests/engine/service/test_giving_way.py",),
        ),
        Bug(calls_run_without_being_asked_for, (_TOOLS + "loop.py",)),
        Bug(loops_of_calls_without_a_bound, (_TOOLS + "loop.py",)),
        Bug(imports_that_bring_their_tools, (_TOOLS + "loop.py",)),
        Bug(cards_without_a_height, (_TOOLS + "loop.py",)),
        Bug(permissions_that_outlive_their_tool, (_TOOLS + "server_list.py",)),
        Bug(changed_tools_run_all_the_same, (_TOOLS + "stdio_servers.py",)),
        Bug(results_with_control_characters, (_TOOLS + "results.py",)),
        Bug(the_whole_environment_given_to_servers, (_TOOLS + "stdio_servers.py",)),
        Bug(redirects_to_anywhere, (_TOOLS + "http_servers.py",)),
        Bug(numbers_of_the_last_go_alone, ("tests/app/session/test_session.py",)),
        Bug(notices_that_outlive_their_files, ("tests/app/chat/composer/test_attached_files.py",)),
        Bug(everything_at_once_at_a_start, ("tests/app/shell/test_window_states.py",)),
        Bug(
            messages_sent_before_they_are_counted,
            ("tests/app/chat/composer/test_full_context.py",),
        ),
        Bug(
            messages_sent_to_a_model_that_is_not_there_yet,
            ("tests/app/chat/composer/test_full_context.py",),
        ),
        Bug(
            waiting_messages_sent_before_they_are_counted,
            ("tests/app/chat/composer/test_queued_length.py",),
        ),
        Bug(room_shared_alike_among_files, ("tests/app/session/test_passages.py",)),
    )
}


def _draw_by_numpy() -> None:
    """Bugs of the sampler are planted in the numpy code; other tests hold the native one to it."""
    from engine.speculative.sampler import Sampler

    Sampler.native = lambda _self, _vocab: None  # type: ignore[method-assign]


def pytest_configure(config: pytest.Config) -> None:
    """Plant the bug that the environment names; the first example that shows it will do."""
    del config
    if name := os.environ.get(ENVIRONMENT):
        searching = [phase for phase in Phase if phase not in (Phase.shrink, Phase.explain)]
        settings.register_profile("planted", settings.default, phases=searching)
        settings.load_profile("planted")
        BUGS[name].plant()
