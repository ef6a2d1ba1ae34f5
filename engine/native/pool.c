/* Threads that claim work one piece at a time.
 *
 * A job's pieces are dealt out in stretches, one for each thread, as neighbouring pieces read memory best; who is done
 * with its own helps with others'. A stretch's end and its next piece share one 64-bit word, so a thread that
 * comes late can never claim a piece of a job that is over. Workers spin for a moment between jobs, as the
 * next one of a forward is microseconds away, and sleep otherwise. There is one job at a time: who finds
 * the pool busy computes alone, which waits for nobody.
 */
#include "internal.h"
#include "platform.h"

#include <stdatomic.h>

/* Waiting for microseconds, without the processor's own hint: under a hypervisor a loop of those is
 * taken for an idle processor and costs an exit of tens of microseconds. */
#if defined(__x86_64__) || defined(__aarch64__)
#define DT_WAIT() __asm__ volatile("nop; nop; nop; nop; nop; nop; nop; nop")
#else
#define DT_WAIT() ((void)0)
#endif

enum {
    SPINS = 60000, /* some 0.2 ms */
    FETCHED = 512, /* bytes that a waiting thread asks for at once */
    MOST_FETCHED = 1 << 18, /* and altogether: more would push out of its caches what it fetched first */
};

/* ticket: end << 32 | next */
#define END(t) ((t) >> 32)
#define NEXT(t) ((t)&0xffffffff)

/* A thread of the pool, the first of which is whoever runs a job, and what is left of its stretch of the job. Each has
 * a cache line of its own, as threads claim from their tickets all the time. */
typedef struct {
    _Alignas(64) atomic_uint_fast64_t ticket;
    dt_pool *pool;
    dt_thread thread;
} worker;

struct dt_pool {
    _Alignas(64) atomic_uint job; /* number of the one under way */
    _Alignas(64) atomic_int done;
    _Alignas(64) atomic_int sleepers;
    atomic_int closing;
    atomic_int busy; /* a job is under way, or about to be */
    dt_task *task;
    void *context;
    int32_t threads;
    int64_t owner; /* after a fork there are no workers */
    size_t bytes;
    dt_mutex lock;
    dt_condition wake;
    worker worker[];
};

/* What a thread will read in a job to come. */
typedef struct { const char *from, *to; } expected;
static _Thread_local expected mine;

void dt_expect(const void *data, int64_t bytes)
{
    mine = (expected){data, (const char *)data + (bytes < MOST_FETCHED ? bytes : MOST_FETCHED)};
}

/* Asks for some of it; returns 0 at its end. Addresses that are none any more do no harm. */
static int fetch_some(expected *e)
{
    if (e->from >= e->to) return 0;
    for (int line = 0; line < FETCHED; line += 64) __builtin_prefetch(e->from + line, 0, 2);
    e->from += FETCHED;
    return 1;
}

/* Work of the job under way: a thread's own stretch first, then what is left of others'. */
static void help(dt_pool *pool, int64_t self)
{
    int finished = 0;
    for (int32_t t = 0; t < pool->threads; t++) {
        atomic_uint_fast64_t *ticket = &pool->worker[(self + t) % pool->threads].ticket;
        for (;;) {
            uint64_t seen = atomic_load_explicit(ticket, memory_order_acquire);
            if (NEXT(seen) >= END(seen)) break;
            uint64_t mine = atomic_fetch_add_explicit(ticket, 1, memory_order_acq_rel);
            if (NEXT(mine) >= END(mine)) break;
            /* The claim keeps the job open until it is told, so task and context are this job's. */
            pool->task(pool->context, (int32_t)NEXT(mine));
            finished++;
        }
    }
    if (finished) atomic_fetch_add_explicit(&pool->done, finished, memory_order_acq_rel);
}

static dt_thread_result work(void *argument)
{
    worker *self = argument;
    dt_pool *pool = self->pool;
    unsigned job = 0;
    while (!atomic_load(&pool->closing)) {
        while (atomic_load(&pool->job) == job && fetch_some(&mine)) {}
        for (int spin = 0; spin < SPINS && atomic_load(&pool->job) == job; spin++) DT_WAIT();
        if (atomic_load(&pool->job) == job) {
            dt_lock(&pool->lock);
            atomic_fetch_add(&pool->sleepers, 1);
            while (atomic_load(&pool->job) == job && !atomic_load(&pool->closing))
                dt_wait(&pool->wake, &pool->lock);
            atomic_fetch_sub(&pool->sleepers, 1);
            dt_unlock(&pool->lock);
        }
        job = atomic_load(&pool->job); /* before helping: a job that begins meanwhile is another one */
        help(pool, self - pool->worker);
    }
    return 0;
}

static void wake(dt_pool *pool)
{
    if (!atomic_load(&pool->sleepers)) return;
    dt_lock(&pool->lock);
    dt_wake_all(&pool->wake);
    dt_unlock(&pool->lock);
}

dt_pool *dt_pool_new(int32_t threads)
{
    if (threads < 1 || threads > 1024) return NULL;
    const size_t bytes = sizeof(dt_pool) + (size_t)threads * sizeof(worker);
    dt_pool *pool = dt_pages_new(bytes);
    if (!pool) return NULL;
    pool->bytes = bytes;
    for (int32_t t = 0; t < threads; t++) {
        atomic_init(&pool->worker[t].ticket, 0);
        pool->worker[t].pool = pool;
    }
    atomic_init(&pool->job, 0);
    atomic_init(&pool->done, 0);
    atomic_init(&pool->sleepers, 0);
    atomic_init(&pool->closing, 0);
    atomic_init(&pool->busy, 0);
    pool->owner = dt_process();
    pool->threads = 1;
    dt_mutex_init(&pool->lock);
    dt_condition_init(&pool->wake);
    for (int32_t t = 1; t < threads; t++) {
        if (!dt_thread_start(&pool->worker[t].thread, work, &pool->worker[t])) break; /* fewer threads will do */
        pool->threads++;
    }
    return pool;
}

void dt_pool_free(dt_pool *pool)
{
    if (!pool) return;
    if (pool->owner == dt_process()) {
        dt_lock(&pool->lock);
        atomic_store(&pool->closing, 1);
        dt_wake_all(&pool->wake);
        dt_unlock(&pool->lock);
        for (int32_t t = 1; t < pool->threads; t++) dt_thread_join(pool->worker[t].thread);
        dt_condition_destroy(&pool->wake);
        dt_mutex_destroy(&pool->lock);
    }
    dt_pages_free(pool, pool->bytes);
}

int32_t dt_threads(const dt_pool *pool) { return pool->threads; }

void dt_run(dt_pool *pool, dt_task *task, void *context, int32_t count)
{
    if (pool->threads == 1 || count == 1 || pool->owner != dt_process() ||
        atomic_exchange_explicit(&pool->busy, 1, memory_order_acquire)) {
        for (int32_t index = 0; index < count; index++) task(context, index);
        return;
    }
    pool->task = task;
    pool->context = context;
    atomic_store_explicit(&pool->done, 0, memory_order_relaxed);
    for (int64_t t = 0; t < pool->threads; t++) {
        const uint64_t begin = (uint64_t)(count * t / pool->threads), end = (uint64_t)(count * (t + 1) / pool->threads);
        atomic_store(&pool->worker[t].ticket, end << 32 | begin);
    }
    atomic_fetch_add(&pool->job, 1);
    wake(pool);
    help(pool, 0);
    while (atomic_load_explicit(&pool->done, memory_order_acquire) < count)
        if (!fetch_some(&mine)) DT_WAIT();
    atomic_store_explicit(&pool->busy, 0, memory_order_release);
}
