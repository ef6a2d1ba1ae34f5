/* A checksum as fast as memory, against damage and not against malice. */
#include "internal.h"
#include "pack.h"

#include <string.h>

enum { PARTS = 256, LINE = 64 };
#define FACTOR 0x9e3779b97f4a7c15u /* odd, and no pattern in its bits */

typedef struct {
    const uint8_t *data;
    int64_t bytes, part; /* of a part, a multiple of LINE */
    uint64_t sums[PARTS];
} checksum_job;

static inline uint64_t mix(uint64_t sum, uint64_t word)
{
    sum ^= word;
    return (sum << 29 | sum >> 35) * FACTOR;
}

/* Eight sums side by side, as each step waits for the one before. */
static inline void add_line(uint64_t lane[8], const uint8_t *line)
{
    for (int l = 0; l < 8; l++) {
        uint64_t word;
        memcpy(&word, line + 8 * l, 8);
        lane[l] = mix(lane[l], word);
    }
}

static void sum_part(void *context, int32_t index)
{
    checksum_job *job = context;
    const int64_t start = index * job->part, left = job->bytes - start;
    const int64_t bytes = left < job->part ? left : job->part;
    uint64_t lane[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    int64_t at = 0;
    for (; at + LINE <= bytes; at += LINE) add_line(lane, job->data + start + at);
    if (at < bytes) {
        uint8_t last[LINE] = {0};
        memcpy(last, job->data + start + at, (size_t)(bytes - at));
        add_line(lane, last);
    }
    uint64_t sum = (uint64_t)(bytes > 0 ? bytes : 0);
    for (int l = 0; l < 8; l++) sum = mix(sum, lane[l]);
    job->sums[index] = sum;
}

uint64_t dt_checksum(dt_pool *pool, const uint8_t *data, int64_t bytes)
{
    checksum_job job = {.data = data, .bytes = bytes};
    job.part = (bytes + PARTS * LINE - 1) / (PARTS * LINE) * LINE;
    dt_run(pool, sum_part, &job, PARTS);
    uint64_t sum = 0;
    for (int i = 0; i < PARTS; i++) sum = mix(sum, job.sums[i]);
    return sum;
}
