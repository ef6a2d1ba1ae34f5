/* The two systems behind platform.h. */
#include "platform.h"

#if defined(_WIN32)

int dt_thread_start(dt_thread *thread, dt_thread_main *run, void *context)
{
    *thread = CreateThread(NULL, 0, run, context, 0, NULL);
    return *thread != NULL;
}

void dt_thread_join(dt_thread thread)
{
    WaitForSingleObject(thread, INFINITE);
    CloseHandle(thread);
}

void dt_mutex_init(dt_mutex *mutex) { InitializeSRWLock(mutex); }
void dt_mutex_destroy(dt_mutex *mutex) { (void)mutex; }
void dt_lock(dt_mutex *mutex) { AcquireSRWLockExclusive(mutex); }
void dt_unlock(dt_mutex *mutex) { ReleaseSRWLockExclusive(mutex); }

void dt_condition_init(dt_condition *condition) { InitializeConditionVariable(condition); }
void dt_condition_destroy(dt_condition *condition) { (void)condition; }
void dt_wait(dt_condition *condition, dt_mutex *mutex) { SleepConditionVariableSRW(condition, mutex, INFINITE, 0); }
void dt_wake_all(dt_condition *condition) { WakeAllConditionVariable(condition); }

int64_t dt_process(void) { return GetCurrentProcessId(); }

void *dt_pages_new(size_t bytes) { return VirtualAlloc(NULL, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE); }

void dt_pages_free(void *pages, size_t bytes)
{
    (void)bytes;
    VirtualFree(pages, 0, MEM_RELEASE);
}

#else

#include <sys/mman.h>
#include <unistd.h>

int dt_thread_start(dt_thread *thread, dt_thread_main *run, void *context)
{
    return !pthread_create(thread, NULL, run, context);
}

void dt_thread_join(dt_thread thread) { pthread_join(thread, NULL); }

void dt_mutex_init(dt_mutex *mutex) { pthread_mutex_init(mutex, NULL); }
void dt_mutex_destroy(dt_mutex *mutex) { pthread_mutex_destroy(mutex); }
void dt_lock(dt_mutex *mutex) { pthread_mutex_lock(mutex); }
void dt_unlock(dt_mutex *mutex) { pthread_mutex_unlock(mutex); }

void dt_condition_init(dt_condition *condition) { pthread_cond_init(condition, NULL); }
void dt_condition_destroy(dt_condition *condition) { pthread_cond_destroy(condition); }
void dt_wait(dt_condition *condition, dt_mutex *mutex) { pthread_cond_wait(condition, mutex); }
void dt_wake_all(dt_condition *condition) { pthread_cond_broadcast(condition); }

int64_t dt_process(void) { return getpid(); }

void *dt_pages_new(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return NULL;
#ifdef MADV_HUGEPAGE
    madvise(pages, bytes, MADV_HUGEPAGE);
#endif
    return pages;
}

void dt_pages_free(void *pages, size_t bytes) { munmap(pages, bytes); }

#endif
