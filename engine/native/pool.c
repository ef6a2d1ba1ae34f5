/* Threads that claim work one piece at a time.
 *
 * The number of pieces and the next one to claim share one 64-bit word, so a thread that comes late
 * can never claim a piece of a job that is over. Workers spin for a
 * moment between jobs, as the next one of a forward is microseconds away, and sleep otherwise.
 * There is one job at a time: who finds the pool busy computes alone, which waits for nobody.
 */
#include "internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

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
    pid_t owner; /* after a fork there are no workers */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t worker[];
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

static void *work(void *argument)
{
    dt_pool *pool = argument;
    while (!atomic_load(&pool->closing)) {
        for (int spin = 0; spin < SPINS && idle(pool); spin++) DT_WAIT();
        if (idle(pool)) {
            pthread_mutex_lock(&pool->lock);
            atomic_fetch_add(&pool->sleepers, 1);
            while (idle(pool) && !atomic_load(&pool->closing))
                pthread_cond_wait(&pool->wake, &pool->lock);
            atomic_fetch_sub(&pool->sleepers, 1);
            pthread_mutex_unlock(&pool->lock);
        }
        help(pool);
    }
    return NULL;
}

static void wake(dt_pool *pool)
{
    if (!atomic_load(&pool->sleepers)) return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}

dt_pool *dt_pool_new(int32_t threads)
{
    if (threads < 1 || threads > 1024) return NULL;
    size_t bytes = sizeof(dt_pool) + (size_t)threads * sizeof(pthread_t);
    dt_pool *pool = NULL;
    if (posix_memalign((void **)&pool, 64, dt_round_up((int32_t)bytes, 64))) return NULL;
    atomic_init(&pool->ticket, 0);
    atomic_init(&pool->done, 0);
    atomic_init(&pool->sleepers, 0);
    atomic_init(&pool->closing, 0);
    atomic_init(&pool->busy, 0);
    pool->owner = getpid();
    pool->threads = 1;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    for (int32_t t = 0; t < threads - 1; t++) {
        if (pthread_create(&pool->worker[t], NULL, work, pool)) break; /* fewer threads will do */
        pool->threads++;
    }
    return pool;
}

void dt_pool_free(dt_pool *pool)
{
    if (!pool) return;
    if (pool->owner == getpid()) {
        pthread_mutex_lock(&pool->lock);
        atomic_store(&pool->closing, 1);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->lock);
        for (int32_t t = 0; t < pool->threads - 1; t++) pthread_join(pool->worker[t], NULL);
        pthread_cond_destroy(&pool->wake);
        pthread_mutex_destroy(&pool->lock);
    }
    free(pool);
}

int32_t dt_threads(const dt_pool *pool) { return pool->threads; }

void dt_run(dt_pool *pool, dt_task *task, void *context, int32_t count)
{
    if (pool->threads == 1 || count == 1 || pool->owner != getpid() ||
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
