/* Small models of each kind of block and head: forwards of a text, rounds of speculative decoding, drafts.
 *
 * Whatever a model's text is computed in has to give the numbers of the whole text: chunks, trees of which a part
 * is rejected, states of delta layers that take rows in later or are come back to. */
#ifndef FORWARDS_H
#define FORWARDS_H

#include "draft.h"
#include "seeded.h"
#include "tree.h"

enum { HIDDEN = 72, INNER = 160, DIM = 20, KV_HEADS = 2, PROMPT = 150, VOCAB = 300, WIDTH = 96, EXPERTS = 4 };

enum { DGF = 1, MTP, EAGLE3 }; /* feature heads, which begin as these do */

typedef struct {
    const char *name;
    int32_t format, kv_type, activation, heads, experts, head, delta;
    float cap;
} model;

static const model models[] = {
    {"Q4_0", DT_Q4, DT_KV_F16, DT_SILU, 4, 0, 0, 0, 0},
    {"Q8_0", DT_Q8, DT_KV_Q8, DT_GELU_TANH, 2, 0, 0, 0, 20},
    {"Q4_0.q8", DT_Q4, DT_KV_Q8, DT_SILU, 6, 0, 0, 0, 0},
    {"BF16", DT_BF16, DT_KV_F16, DT_GELU_TANH, 2, 0, 0, 0, 30},
    {"experts", DT_Q4, DT_KV_F16, DT_SWIGLU_OAI, 8, EXPERTS, 0, 0, 0},
    {"head.dgf", DT_Q8, DT_KV_F16, DT_SILU, 4, 0, DGF, 0, 0},
    {"head.mtp", DT_Q4, DT_KV_F16, DT_SILU, 4, 0, MTP, 0, 0},
    {"head.eagle3", DT_Q8, DT_KV_F16, DT_SILU, 4, 0, EAGLE3, 0, 0},
    {"delta.Q4_0", DT_Q4, DT_KV_F16, DT_SILU, 4, 0, 0, 1, 0},
    {"delta.experts", DT_Q8, DT_KV_Q8, DT_SILU, 2, EXPERTS, 0, 1, 0},
};

/* ---- weights ------------------------------------------------------------------------------- */

static dt_mlp make_mlp(dt_pool *pool, int32_t format)
{
    dt_mlp mlp = {.down = make_matrix(pool, format, HIDDEN, INNER)};
    for (int i = 0; i < 2; i++) mlp.gate_up[i] = make_matrix(pool, format, INNER, HIDDEN);
    return mlp;
}

/* Among as many as there are with one that all rows share, which hybrid models have. */
static dt_experts make_experts(dt_pool *pool, const model *m)
{
    dt_mlp *expert = room((EXPERTS + 1) * (int64_t)sizeof *expert);
    for (int e = 0; e < EXPERTS + m->delta; e++) expert[e] = make_mlp(pool, m->format);
    dt_experts experts = {.router = {make_matrix(pool, DT_F32, EXPERTS, HIDDEN)}, .expert = expert, .count = EXPERTS,
                          .used = 2, .intermediate = INNER, .normalise = 1, .shared = m->delta};
    if (m->delta) experts.router[1] = make_matrix(pool, DT_F32, 1, HIDDEN);
    return experts;
}

static const dt_fusion *make_fusion(dt_pool *pool, const model *m)
{
    dt_fusion *fusion = room(sizeof *fusion);
    *fusion = (dt_fusion){.token_norm = numbers(HIDDEN, 1), .width = m->head == MTP ? HIDDEN : WIDTH,
                          .gated = m->head == DGF, .returns_normed = m->head == MTP,
                          .residual_normed = m->head == EAGLE3};
    if (m->head != EAGLE3) fusion->join = make_matrix(pool, m->format, HIDDEN, 2 * HIDDEN);
    if (m->head != MTP) fusion->feature = make_matrix(pool, m->format, HIDDEN, WIDTH);
    if (m->head == DGF) fusion->token = make_matrix(pool, m->format, HIDDEN, HIDDEN);
    else fusion->feature_norm = numbers(HIDDEN, 1);
    return fusion;
}

/* `wide`: what it sees is token and feature side by side. */
static void make_attention(dt_pool *pool, const model *m, int32_t layer, int wide, dt_block *block)
{
    const int32_t seen = wide ? 2 * HIDDEN : HIDDEN;
    block->heads = m->heads, block->kv_heads = KV_HEADS, block->head_dim = DIM, block->gated = m->delta;
    block->rope = layer ? -1 : 0, block->window = layer * 70, block->attention_scale = 0.25f;
    block->in[0] = make_matrix(pool, m->format, m->heads * DIM * (block->gated ? 2 : 1), seen);
    for (int i = 1; i < 3; i++) block->in[i] = make_matrix(pool, m->format, KV_HEADS * DIM, seen);
    block->out = make_matrix(pool, m->format, HIDDEN, m->heads * DIM);
    block->query_norm = numbers(DIM, 1), block->key_norm = numbers(DIM, 1);
}

static void make_delta(dt_pool *pool, const model *m, int32_t layer, dt_block *block)
{
    static const dt_delta shapes[2] = {
        {.key_heads = 2, .value_heads = 4, .key_dim = 20, .value_dim = 40, .width = 4},
        {.key_heads = 3, .value_heads = 18, .key_dim = 16, .value_dim = 24, .width = 2, .tiled = 1},
    };
    dt_delta d = shapes[layer];
    const int32_t mixed = d.value_heads * d.value_dim, channels = 2 * d.key_heads * d.key_dim + mixed;
    block->in[0] = make_matrix(pool, m->format, channels, HIDDEN);
    for (int i = 1; i < 3; i++) block->in[i] = make_matrix(pool, DT_F32, d.value_heads, HIDDEN);
    block->in[3] = make_matrix(pool, m->format, mixed, HIDDEN);
    block->out = make_matrix(pool, m->format, HIDDEN, mixed);
    float *rate = numbers(d.value_heads, 1);
    for (int32_t i = 0; i < d.value_heads; i++) rate[i] = -fabsf(rate[i]);
    d.convolution = numbers((int64_t)d.width * channels, 1), d.norm = numbers(d.value_dim, 1);
    d.rate = rate, d.dt_bias = numbers(d.value_heads, 3);
    block->rope = -1, block->delta = d;
}

static dt_segment make_segment(dt_pool *pool, const model *m)
{
    const int32_t count = m->delta ? 4 : 2;
    dt_block *blocks = room(count * (int64_t)sizeof *blocks);
    for (int32_t b = 0; b < count; b++) {
        const int wide = m->head == EAGLE3 && b == 0;
        blocks[b] = (dt_block){.inner = INNER};
        if (m->delta && b % 2 == 0) make_delta(pool, m, b / 2, &blocks[b]);
        else make_attention(pool, m, m->delta ? b / 2 : b, wide, &blocks[b]);
        if (!wide) blocks[b].input_norm = numbers(HIDDEN, 1);
        blocks[b].post_norm = numbers(HIDDEN, 1);
        if (m->experts) blocks[b].experts = make_experts(pool, m);
        else blocks[b].mlp = make_mlp(pool, m->format);
    }
    dt_rope *rope = room(sizeof *rope);
    *rope = (dt_rope){numbers(PROMPT * DIM / 2, 1), numbers(PROMPT * DIM / 2, 1), DIM};
    dt_segment segment = {.blocks = count, .hidden = HIDDEN, .activation = m->activation, .kv_type = m->kv_type,
                          .norm_eps = 1e-5f, .attention_softcap = m->cap, .logit_softcap = m->cap,
                          .embedding_scale = 1, .block = blocks,
                          .embedding = make_matrix(pool, DT_BF16, VOCAB, HIDDEN),
                          .head = make_matrix(pool, DT_F16, VOCAB, HIDDEN), .final_norm = numbers(HIDDEN, 1),
                          .rope = rope, .fusion = m->head ? make_fusion(pool, m) : NULL};
    segment.scratch_bytes = dt_scratch_bytes(&segment, PROMPT);
    segment.scratch = room(segment.scratch_bytes);
    return segment;
}

/* ---- the text ------------------------------------------------------------------------------ */

static int32_t token_at(int32_t position) { return position * 17 % VOCAB; }

/* What a feature head gets at a position. */
static const float *feature_at(const dt_segment *segment, int32_t position)
{
    static float *features;
    if (!features) begin(7000), features = numbers(PROMPT * WIDTH, 2);
    return segment->fusion ? features + position * segment->fusion->width : NULL;
}

/* From one position to another in chunks of so many tokens. */
static void read_text(dt_pool *pool, const dt_segment *segment, dt_cache *cache, int32_t from, int32_t to,
                      int32_t chunk, float *hidden, float *logits)
{
    for (; from < to; from += chunk) {
        int32_t tokens[PROMPT], positions[PROMPT], rows[PROMPT];
        const int32_t count = to - from < chunk ? to - from : chunk;
        for (int32_t i = 0; i < count; i++) tokens[i] = token_at(from + i), positions[i] = from + i, rows[i] = i;
        const dt_step step = {.rows = count, .first_slot = from, .committed = from, .logit_count = count,
                              .tokens = tokens, .positions = positions, .logit_rows = rows,
                              .hidden_out = hidden + from * HIDDEN, .hidden_in = feature_at(segment, from),
                              .logits = logits + from * VOCAB};
        check(dt_forward(pool, segment, cache, &step) == DT_OK, "a forward succeeds");
    }
}

/* What comes of all of it. */
static uint64_t logits_of(dt_pool *pool, const dt_segment *segment, int32_t chunk, float *logits)
{
    static float hidden[PROMPT * HIDDEN];
    dt_cache *cache = dt_cache_new(segment, PROMPT);
    read_text(pool, segment, cache, 0, PROMPT, chunk, hidden, logits);
    dt_cache_free(cache);
    begin(0);
    add_floats(hidden, PROMPT * HIDDEN), add_floats(logits, PROMPT * VOCAB);
    return hash;
}

/* ---- rounds -------------------------------------------------------------------------------- */

enum { BEFORE = 66, NODES = 8, PATH = 4 };

static const int32_t node_parents[NODES] = {-1, -1, 1, 1, 3, 2, 4, 0}, path[PATH] = {1, 3, 4, 6};

/* A sequence of which the logits of the whole text are known. */
typedef struct {
    dt_pool *pool;
    const dt_segment *segment;
    dt_cache *cache;
    const float *expected;
} sequence;

/* Reads on, and compares. */
static void go_on(const sequence *s, int32_t from, int32_t to, int32_t chunk)
{
    static float hidden[PROMPT * HIDDEN], logits[PROMPT * VOCAB];
    read_text(s->pool, s->segment, s->cache, from, to, chunk, hidden, logits);
    check(!memcmp(logits + from * VOCAB, s->expected + from * VOCAB, sizeof(float) * (size_t)(to - from) * VOCAB),
          "a text is read on as it is read in one piece");
    add_floats(hidden + from * HIDDEN, (to - from) * HIDDEN);
}

/* The tree's nodes from `first` to `last` behind so many committed tokens. Its path is the text, unless it is wrong. */
static void stage(const sequence *s, int32_t committed, int32_t first, int32_t last, int wrong)
{
    float hidden[NODES * HIDDEN], logits[NODES * VOCAB], features[NODES * WIDTH];
    int32_t tokens[NODES], depth[NODES], rows[NODES];
    const int32_t width = s->segment->fusion ? s->segment->fusion->width : 0, count = last - first;
    for (int32_t i = 0, place = 0; i < NODES; i++) {
        depth[i] = node_parents[i] < 0 ? 0 : depth[node_parents[i]] + 1, rows[i] = i;
        const int right = place < PATH && path[place] == i && !wrong;
        tokens[i] = (token_at(committed + depth[i]) + (right ? 0 : 1 + i)) % VOCAB, place += right;
        if (!width) continue;
        memcpy(features + i * width, feature_at(s->segment, committed + depth[i]), sizeof(float) * (size_t)width);
    }
    const dt_step step = {.rows = count, .logit_count = count, .tokens = tokens + first, .logit_rows = rows,
                          .hidden_out = hidden, .hidden_in = width ? features + first * width : NULL, .logits = logits};
    check(dt_forward_tree(s->pool, s->segment, s->cache, &step, committed, first, node_parents) == DT_OK,
          "nodes can be computed");
    add_floats(hidden, count * HIDDEN), add_floats(logits, count * VOCAB);
    for (int32_t i = 0; i < PATH && !wrong; i++)
        if (path[i] >= first && path[i] < last)
            check(!memcmp(logits + (path[i] - first) * VOCAB, s->expected + (committed + i) * VOCAB,
                          sizeof(float) * VOCAB), "a tree's path has the logits of the text");
}

/* The path is committed: rows of delta layers wait for the next forward. Returns how many tokens there are. */
static int32_t keep_path(const sequence *s, int32_t committed)
{
    int32_t slots[PATH];
    for (int32_t i = 0; i < PATH; i++) slots[i] = committed + path[i];
    dt_cache_move(s->cache, slots, PATH, committed);
    return committed + PATH;
}

/* The states of delta layers, as they are in a sequence that has read its text in any way. */
static uint8_t *snapshot(const sequence *s, int32_t committed)
{
    const int64_t bytes = dt_snapshot_bytes(s->segment);
    uint8_t *to = room(bytes);
    check(dt_snapshot(s->pool, s->segment, s->cache, committed, to) == DT_OK, "there is a snapshot");
    add_floats((const float *)(const void *)to, bytes / 4);
    return to;
}

static uint64_t rounds_of(dt_pool *pool, const dt_segment *segment, const float *expected)
{
    sequence s = {pool, segment, dt_cache_new(segment, PROMPT), expected}, copy = s;
    const size_t bytes = (size_t)dt_snapshot_bytes(segment);
    begin(0);
    go_on(&s, 0, BEFORE, 37);
    uint8_t *saved = snapshot(&s, BEFORE);
    stage(&s, BEFORE, 0, NODES, 1);
    stage(&s, BEFORE, 0, 3, 0), stage(&s, BEFORE, 3, NODES, 0);
    int32_t committed = keep_path(&s, BEFORE);
    stage(&s, committed, 0, NODES, 1), stage(&s, committed, 0, NODES, 0);
    copy.cache = dt_cache_new(segment, PROMPT);
    dt_cache_copy(copy.cache, s.cache, committed + NODES);
    for (int i = 0; i < 2; i++) {
        const sequence *each = i ? &copy : &s;
        const int32_t kept = keep_path(each, committed);
        go_on(each, kept, kept + 18, i ? 18 : 5);
    }
    committed += PATH + 18;
    check(!memcmp(snapshot(&s, committed), snapshot(&copy, committed), bytes), "a copy goes on as its origin");
    dt_restore(s.cache, BEFORE, saved);
    stage(&s, BEFORE, 0, NODES, 0);
    committed = keep_path(&s, BEFORE);
    go_on(&s, committed, committed + 7, 7);
    dt_restore(s.cache, 0, NULL);
    go_on(&s, 0, BEFORE, 64);
    check(!memcmp(snapshot(&s, BEFORE), saved, bytes), "a state is the same again");
    dt_cache_free(s.cache), dt_cache_free(copy.cache);
    return hash;
}

/* A tree drafted behind a part of the text that is read for it, then one behind a few tokens more. */
static uint64_t drafts_of(dt_pool *pool, const dt_segment *segment)
{
    enum { DEPTH = 4, BEAMS = 3, MOST = 12 };
    static const dt_sampling sampling = {.temperature = 0.8, .top_p = 1, .repetition = 1, .seed = 3, .share_noise = 1};
    int32_t text[PROMPT], tokens[MOST + 1], parents[MOST + 1], staged[2][DEPTH * BEAMS];
    double scores[MOST + 1];
    dt_cache *cache = dt_cache_new(segment, PROMPT);
    for (int32_t i = 0; i < PROMPT; i++) text[i] = token_at(i);
    begin(0);
    for (int32_t from = 0, to = BEFORE; to < BEFORE + 15; from = to, to += 5) {
        dt_drafting drafting = {.committed = from, .pending = to - from, .tokens = text + from,
                                .features = feature_at(segment, from), .slots = PROMPT, .nodes = MOST, .depth = DEPTH,
                                .width = BEAMS, .tree_tokens = tokens, .tree_parents = parents, .tree_scores = scores,
                                .staged_tokens = staged[0], .staged_parents = staged[1]};
        uint8_t *scratch = room(dt_draft_bytes(segment, &drafting));
        check(dt_draft(pool, segment, cache, &sampling, scratch, &drafting) == DT_OK, "a tree is drafted");
        check(drafting.tree_nodes > DEPTH && drafting.staged > BEAMS, "it has branches");
        add_bytes(tokens, drafting.tree_nodes * 4), add_bytes(parents, drafting.tree_nodes * 4);
        add_bytes(scores, drafting.tree_nodes * 8), add_bytes(staged[0], drafting.staged * 4);
    }
    dt_cache_free(cache);
    return hash;
}

/* ---- all of it ----------------------------------------------------------------------------- */

static void forwards(dt_pool *pool, dt_pool *more)
{
    static float expected[PROMPT * VOCAB], logits[PROMPT * VOCAB];
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        begin(6000 + i);
        const dt_segment segment = make_segment(pool, &models[i]);
        const uint64_t whole = logits_of(pool, &segment, PROMPT, expected);
        for (int32_t chunk = 1; chunk <= 17; chunk += 2)
            check(logits_of(chunk % 4 == 3 ? more : pool, &segment, chunk, logits) == whole,
                  "a prompt in chunks, on one thread or three, gives the same logits");
        const uint64_t rounds = rounds_of(pool, &segment, expected), drafts = drafts_of(pool, &segment);
        check(rounds_of(more, &segment, expected) == rounds, "rounds on three threads are those on one");
        check(drafts_of(more, &segment) == drafts, "drafts on three threads are those on one");
        hash = whole, tell("forwards", models[i].name);
        hash = rounds, tell("rounds", models[i].name);
        hash = drafts, tell("drafts", models[i].name);
    }
}

#endif
