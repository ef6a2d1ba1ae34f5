/* Threads that claim work one piece at a time.
 *
 * The number of pieces and the next one to claim share one 64-bit word, so a thread that comes late
 * can never claim a piece of a job that is over. Workers spin for a
 * moment between jobs, as the next one of a forward is microseconds away, and sleep otherwise.
 * There is one job at a time: who finds the pool busy computes alone, which waits for nobody.
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

enum { SPINS = 60000 }; /* some 0.2 ms */

/* ticket: count << 32 | next */
#define COUNT(t) ((t) >> 32)
#define NEXT(t) ((t)&0xffffffff)

struct dt_pool {
    _Alignas(64) atomic_uint_fast64_t ticket;
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
    dt_thread worker[];
};

static void help(dt_pool *pool)
{
    int finished = 0;
    for (;;) {
        uint64_t seen = atomic_load_explicit(&pool->ticket, memory_order_acquire);
        if (NEXT(seen) >= COUNT(seen)) break;
        uint64_t mine = atomic_fetch_add_explicit(&pool->ticket, 1, memory_order_acq_rel);
        if (NEXT(mine) >= COUNT(mine)) break;
        /* The claim keeps the job open until it is told, so task and context are this job's. */
        pool->task(pool->context, (int32_t)NEXT(mine));
        finished++;
    }
    if (finished) atomic_fetch_add_explicit(&pool->done, finished, memory_order_acq_rel);
}

static int idle(dt_pool *pool)
{
    uint64_t ticket = atomic_load(&pool->ticket);
    return NEXT(ticket) >= COUNT(ticket);
}

static dt_thread_result work(void *argument)
{
    dt_pool *pool = argument;
    while (!atomic_load(&pool->closing)) {
        for (int spin = 0; spin < SPINS && idle(pool); spin++) DT_WAIT();
        if (idle(pool)) {
            dt_lock(&pool->lock);
            atomic_fetch_add(&pool->sleepers, 1);
            while (idle(pool) && !atomic_load(&pool->closing))
                dt_wait(&pool->wake, &pool->lock);
            atomic_fetch_sub(&pool->sleepers, 1);
            dt_unlock(&pool->lock);
        }
        help(pool);
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
    const size_t bytes = sizeof(dt_pool) + (size_t)threads * sizeof(dt_thread);
    dt_pool *pool = dt_pages_new(bytes);
    if (!pool) return NULL;
    pool->bytes = bytes;
    atomic_init(&pool->ticket, 0);
    atomic_init(&pool->done, 0);
    atomic_init(&pool->sleepers, 0);
    atomic_init(&pool->closing, 0);
    atomic_init(&pool->busy, 0);
    pool->owner = dt_process();
    pool->threads = 1;
    dt_mutex_init(&pool->lock);
    dt_condition_init(&pool->wake);
    for (int32_t t = 0; t < threads - 1; t++) {
        if (!dt_thread_start(&pool->worker[t], work, pool)) break; /* fewer threads will do */
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
        for (int32_t t = 0; t < pool->threads - 1; t++) dt_thread_join(pool->worker[t]);
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
    atomic_store(&pool->ticket, (uint64_t)count << 32);
    wake(pool);
    help(pool);
    while (atomic_load_explicit(&pool->done, memory_order_acquire) < count) DT_WAIT();
    atomic_store_explicit(&pool->busy, 0, memory_order_release);
}
