/* Files that lose their end while they are mapped.
 *
 * Reading a page that the file no longer has is a fault that ends the process. Here such a page of a
 * watched mapping becomes zeros, is counted, and makes forwards fail until nobody watches it any more.
 * On Windows a mapped file cannot become shorter.
 */
#include "mapped.h"

#include <stddef.h>

#if defined(_WIN32)

int32_t dt_watch(const void *start, int64_t bytes) { return (void)start, (void)bytes, DT_OK; }
void dt_unwatch(const void *start) { (void)start; }
int32_t dt_lost_pages(void) { return 0; }

#else

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_WATCHED = 64 };

/* The handler reads them at any moment: `end` is written last, and 0 means that the place is free. */
typedef struct {
    _Atomic uintptr_t start, end;
    _Atomic int32_t lost;
} watched;

static watched mappings[MOST_WATCHED];
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction before;
static uintptr_t page_bytes;

static int replace_page(uintptr_t at)
{
    for (int i = 0; i < MOST_WATCHED; i++) {
        if (at < mappings[i].start || at >= mappings[i].end) continue;
        const int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
        void *page = (void *)(at & ~(page_bytes - 1));
        if (mmap(page, page_bytes, PROT_READ, how, -1, 0) == MAP_FAILED) return 0;
        mappings[i].lost++;
        return 1;
    }
    return 0;
}

/* A fault elsewhere is for whoever handled faults before; without one, it comes again and ends the process. */
static void on_fault(int number, siginfo_t *info, void *context)
{
    const int error = errno;
    if (replace_page((uintptr_t)info->si_addr)) errno = error;
    else if (before.sa_flags & SA_SIGINFO) before.sa_sigaction(number, info, context);
    else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) before.sa_handler(number);
    else signal(number, SIG_DFL);
}

static void install(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &before);
}

int32_t dt_watch(const void *start, int64_t bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
    pthread_mutex_lock(&guard);
    watched *place = NULL;
    for (int i = 0; i < MOST_WATCHED && !place; i++)
        if (!mappings[i].end) place = &mappings[i];
    if (place) {
        place->lost = 0;
        place->start = (uintptr_t)start;
        place->end = (uintptr_t)start + (uintptr_t)bytes;
    }
    pthread_mutex_unlock(&guard);
    return place ? DT_OK : DT_NO_MEMORY;
}

void dt_unwatch(const void *start)
{
    pthread_mutex_lock(&guard);
    for (int i = 0; i < MOST_WATCHED; i++)
        if (mappings[i].end && mappings[i].start == (uintptr_t)start) mappings[i].end = 0;
    pthread_mutex_unlock(&guard);
}

int32_t dt_lost_pages(void)
{
    int32_t lost = 0;
    for (int i = 0; i < MOST_WATCHED; i++)
        if (mappings[i].end) lost += mappings[i].lost;
    return lost;
}

#endif
