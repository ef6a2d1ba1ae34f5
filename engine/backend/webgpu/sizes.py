"""Rows that a WebGPU device computes at once, and the bytes of its buffers: for planning too.

Plain arithmetic, without wgpu. Weights take what they take in their files.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.backend.drafted_levels import DRAFT_LEVELS
from engine.backend.step import CHUNK
from engine.model.config import BlockConfig, Delta, Experts, ModelConfig, RopeConfig

PASS_ROWS = 256
"""Most rows of a chain that are computed together."""
TREE_ROWS = 64
"""Most rows of a tree that are computed together."""
STATE_ROWS = 64
"""Most rows that are kept behind a state; a forward over more of them goes into it in parts."""
STATE_COLUMNS = 16
"""Columns of a state that are computed together."""
SNAPSHOTS = 2
"""States of a sequence that are kept beside the present ones, to come back to."""
LOGIT_ROWS = 64
"""Most rows whose logits are computed together."""
SPAN = 4 * CHUNK
"""Keys of a part of a row's attention; parts are computed side by side."""
PATH_SLOTS = 6 * CHUNK
"""Positions in which a row of a tree may have a path of its own."""
PARTS_BYTES = 32 << 20
"""Bytes of a pass's parts of attention; over long sequences fewer rows are computed at a time."""
DRAW_SETTINGS = 10
"""Numbers that the device is told of all draws of a forward, or of a draft."""
DRAFT_WIDTH = 16
"""Most nodes across a tree that is drafted on the device."""
RANKED_SLICE = 2048
"""Logits whose likeliest tokens are found together."""
DRAWN = 4
"""Numbers that come back of a token that the device has drawn."""
LARGEST_TILE = 16
"""Rows of a product that share one reading of the weights, but for prompts."""
LARGEST_WIDE = 64
"""Rows of a prompt that share one; a pass is a multiple of them."""
TICKS_BYTES = 16
"""Size of the two clock readings that a device with a clock returns with a forward."""
ALIGNED = 256

_NUMBER = 4


def up(count: int, step: int) -> int:
    """Return the next multiple of `step`."""
    return count + -count % step


def padded_head(block: BlockConfig) -> int:
    """Return the numbers of a head in the cache, in whole words of 16 bytes."""
    return up(block.head_dim, 8)


def parts_of(slots: int) -> int:
    """Return the parts of attention over so many keys."""
    return -(-slots // SPAN)


def row_parts_bytes(config: ModelConfig, slots: int) -> int:
    """Return the bytes of the parts of one row's attention, in the block where they are most."""
    numbers = (block.heads * (padded_head(block) + 2) for block in attending_of(config))
    return max(numbers, default=1) * parts_of(slots) * _NUMBER


def pass_rows(config: ModelConfig, slots: int) -> int:
    """Return how many rows are computed together over sequences with so many slots."""
    fitting = PARTS_BYTES // row_parts_bytes(config, slots) // LARGEST_WIDE * LARGEST_WIDE
    most = STATE_ROWS if config.recurrent else PASS_ROWS
    return min(max(fitting, LARGEST_WIDE), most)


def cache_bytes(config: ModelConfig, blocks: range, slots: int) -> int:
    """Return the bytes of one sequence in some blocks.

    Keys and values are fp16, with the list of slots to copy. States are fp32, with the rows kept
    behind them and the snapshots.
    """
    own = [config.blocks[index] for index in blocks]
    each = [chunk_bytes(block) for block in own if block.stores_kv]
    nbytes = 2 * -(-slots // CHUNK) * sum(each) + (moved_bytes(slots) if each else 0)
    for delta in (block.delta for block in own if block.delta is not None):
        numbers = state_numbers(delta) + kept_rows(delta) * kept_numbers(delta)
        nbytes += (numbers + SNAPSHOTS * snapshot_numbers(delta)) * _NUMBER
    return nbytes


def chunk_bytes(block: BlockConfig) -> int:
    """Return the bytes of a block's keys, or values, of a chunk of slots: fp16."""
    return CHUNK * block.kv_heads * padded_head(block) * 2


def state_numbers(delta: Delta) -> int:
    """Return the numbers of a state: [value heads, columns / 16, key dim, 16]."""
    return delta.value_heads * up(delta.value_dim, STATE_COLUMNS) * delta.key_dim


def kept_numbers(delta: Delta) -> int:
    """Return the numbers of a row that is kept: its channels, and each head's beta and alpha."""
    return delta.channels + 2 * delta.value_heads


def kept_rows(delta: Delta) -> int:
    """Return the places for rows: those before the next one, and those behind the state."""
    return delta.width - 1 + STATE_ROWS


def snapshot_numbers(delta: Delta) -> int:
    """Return the numbers of a state and the rows that the convolution sees before the next."""
    return state_numbers(delta) + (delta.width - 1) * kept_numbers(delta)


def moved_bytes(slots: int) -> int:
    """Return the bytes of the list of slots to copy."""
    return up((slots + 2) * _NUMBER, 16)


def slices_of(config: ModelConfig) -> int:
    """Return how many slices of its logits a draft ranks."""
    return -(-config.head_rows // RANKED_SLICE)


def level_numbers(width: int) -> int:
    """Return how many numbers tell of a level of a drafted tree."""
    return width + 2 * width * width


def input_offsets(rows: int) -> tuple[int, int, int]:
    """Return where, in the buffer of a pass's inputs, wanted rows and paths begin, and its end.

    Behind the wanted rows, from LOGIT_ROWS on, is what `drawing.DeviceDraws` has of them.
    """
    wanted = up(rows * 4 * _NUMBER, ALIGNED)
    paths = wanted + up((2 * LOGIT_ROWS + DRAW_SETTINGS) * _NUMBER, ALIGNED)
    return wanted, paths, paths + up((1 + min(rows, TREE_ROWS) * PATH_SLOTS) * _NUMBER, ALIGNED)


def most_inner(config: ModelConfig) -> int:
    """Return the most numbers of a row that a product reads."""
    hidden = config.hidden_size
    mixed = max((delta.mixed for delta in deltas_of(config)), default=0)
    queries = max((block.heads * block.head_dim for block in attending_of(config)), default=0)
    inner = max(hidden, most_dense(config), queries, mixed)
    if config.fusion is None:
        return inner
    return max(inner, 2 * hidden, hidden + config.fusion.width)


def attending_of(config: ModelConfig) -> Iterator[BlockConfig]:
    """Yield the blocks that attend."""
    return (block for block in config.blocks if block.delta is None)


def most_dense(config: ModelConfig) -> int:
    """Return the most numbers within a dense feed-forward."""
    return max((block.inner for block in config.blocks if block.experts is None), default=0)


def given_numbers(block: BlockConfig) -> int:
    """Return the numbers that attention begins with: queries, gates, its own keys and values."""
    kept = 2 * block.kv_heads if block.stores_kv else 0
    return (block.heads * (1 + block.gated) + kept) * block.head_dim


def deltas_of(config: ModelConfig) -> Iterator[Delta]:
    """Yield the gated delta layers of all blocks."""
    return (block.delta for block in config.blocks if block.delta is not None)


def mixtures_of(config: ModelConfig) -> Iterator[Experts]:
    """Yield the mixtures of experts of all blocks."""
    return (block.experts for block in config.blocks if block.experts is not None)


WALK_PLACES, WALK_ENTRIES, WALK_STEPS = 4, 68, 338
"""Words at which the parts of a walk begin; see walk.wgsl."""
WALK_ANEW = 256
"""Added to a step that begins again with the written state."""
MOST_STEPS = STATE_ROWS + (STATE_ROWS // 2 + 1) ** 2
"""Steps of a walk: tokens to take in, and the paths of the worst tree."""
WALK_WORDS = WALK_STEPS + MOST_STEPS


def most_tiles(experts: Experts, rows: int) -> int:
    """Return how many tiles of an expert's rows there may be."""
    return rows * experts.used + experts.count


def route_words(experts: Experts, rows: int) -> int:
    """Return the numbers that tell who goes where; see route.wgsl."""
    return 3 * (most_tiles(experts, rows) + rows * experts.used)


def buffers(config: ModelConfig, blocks: int, slots: int, *, head: bool) -> dict[str, int]:
    """Return the bytes of a segment's buffers beside weights, for sequences with so many slots.

    hidden: residual stream; added: results of products that are added to it; floats, codes,
    factors: activations as products take them; qkv, queries, gates: results of other products;
    mixed: parts of attention; inputs: see `input_offsets`; results: for the host; heard: what
    penalties count. Of a mixture of experts: router's logits, routes (who goes where), and parts,
    what the experts give; shared, gates of the one that all rows go through. Of states: walk, what
    a pass asks of them (see `states`), and ready, what nodes bring to them. Of a feature head:
    features, embedded tokens, first and second of what its fusion joins, and their gate. Of a
    draft: ranked, the likeliest tokens of slices of its logits, and its tree.
    """
    rows = pass_rows(config, slots)
    hidden, inner = config.hidden_size, most_inner(config)
    numbers = {
        "hidden": rows * hidden,
        "added": rows * hidden,
        "floats": rows * up(inner, 8),
        "codes": rows * up(inner, 32) // 4,
        "factors": rows * up(inner, 32) // 32 * 4,
        "results": rows * up(hidden, 8),
    }
    if blocks:
        numbers |= {
            "gates": rows * 2 * most_dense(config),
            "mixed": rows * row_parts_bytes(config, slots) // _NUMBER,
        }
    more = [_of_attention(block, rows) for block in attending_of(config) if blocks]
    more += [_of_mixture(config, experts, rows) for experts in mixtures_of(config)]
    more += [_of_states(delta, rows) for delta in deltas_of(config)]
    for each in more:
        numbers |= {name: max(numbers.get(name, 0), count) for name, count in each.items()}
    if config.fusion is not None:
        numbers |= {
            "features": rows * config.fusion.width,
            "embedded": rows * hidden,
            "first": rows * up(hidden, 8),
            "second": rows * up(hidden, 8),
            "gate": rows * hidden,
        }
    if head:
        numbers["normed"] = rows * up(hidden, 8)
        numbers["logits"] = LOGIT_ROWS * config.head_rows
        numbers["drawn"] = LOGIT_ROWS * DRAWN
        numbers["heard"] = 3 * LOGIT_ROWS + config.head_rows
        numbers["results"] += LOGIT_ROWS * config.head_rows
    if head and blocks == config.num_layers:  # it may be a draft
        numbers["ranked"] = DRAFT_WIDTH * slices_of(config) * (DRAFT_WIDTH + 1) * 2
        numbers["tree"] = DRAFT_LEVELS * level_numbers(DRAFT_WIDTH)
    sizes = {name: count * _NUMBER for name, count in numbers.items()}
    sizes["results"] += TICKS_BYTES
    return sizes | {"inputs": input_offsets(rows)[2]}


def _of_attention(block: BlockConfig, rows: int) -> dict[str, int]:
    """Return the numbers in buffers that attention needs, without its parts."""
    return {
        "qkv": rows * given_numbers(block),
        "queries": rows * block.heads * padded_head(block),
    }


def _of_mixture(config: ModelConfig, experts: Experts, rows: int) -> dict[str, int]:
    """Return the numbers in buffers that a mixture of experts needs."""
    places, own = rows * experts.used, experts.intermediate_size
    shared = {"shared": rows * 2 * own} if experts.shared else {}
    return shared | {
        "floats": places * up(own, 8),
        "codes": places * up(own, 32) // 4,
        "factors": places * up(own, 32) // 32 * 4,
        "gates": places * 2 * own,
        "router": rows * (experts.count + experts.shared),
        "routes": route_words(experts, rows),
        "parts": places * config.hidden_size,
    }


def _of_states(delta: Delta, rows: int) -> dict[str, int]:
    """Return the numbers in buffers that a gated delta layer needs."""
    return {
        "qkv": rows * (kept_numbers(delta) + delta.mixed),
        "mixed": rows * delta.mixed,
        "walk": WALK_WORDS,
        "ready": 2 * STATE_ROWS * kept_numbers(delta),
    }


def ropes_of(config: ModelConfig, blocks: range) -> tuple[RopeConfig, ...]:
    """Return the ways in which some blocks rotate, each once."""
    every = dict.fromkeys(config.blocks[index].rope for index in blocks)
    return tuple(rope for rope in every if rope is not None)


def table_bytes(config: ModelConfig, blocks: range, slots: int) -> int:
    """Return the bytes of rotations for so many positions."""
    return sum(slots * rope.dim * _NUMBER for rope in ropes_of(config, blocks))


# ---- as plans ask ------------------------------------------------------------------------------

UNIFORMS = 64 << 10
"""Shapes that kernels read, at most."""

RUNTIME = 64 << 20
"""Bytes that a driver usually takes for itself: nobody tells."""


def segment_bytes(config: ModelConfig, blocks: range, slots: int, *, head: bool = True) -> int:
    """Bytes that a segment keeps beside its weights; some more for uniforms."""
    slots = up(slots, CHUNK)
    own = sum(buffers(config, len(blocks), slots, head=head).values())
    return own + table_bytes(config, blocks, slots) + UNIFORMS
