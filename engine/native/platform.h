/* What the system gives: threads, memory, the time. Windows' own functions, or POSIX's. */
#ifndef DUOTAIL_PLATFORM_H
#define DUOTAIL_PLATFORM_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
typedef HANDLE dt_thread;
typedef DWORD dt_thread_result;
typedef SRWLOCK dt_mutex;
typedef CONDITION_VARIABLE dt_condition;
#else
#include <pthread.h>
typedef pthread_t dt_thread;
typedef void *dt_thread_result;
typedef pthread_mutex_t dt_mutex;
typedef pthread_cond_t dt_condition;
#endif

/* Threads run a function that returns 0. Starting one gives 0 where the system refuses. */
typedef dt_thread_result dt_thread_main(void *context);
int dt_thread_start(dt_thread *thread, dt_thread_main *run, void *context);
void dt_thread_join(dt_thread thread);

void dt_mutex_init(dt_mutex *mutex);
void dt_mutex_destroy(dt_mutex *mutex);
void dt_lock(dt_mutex *mutex);
void dt_unlock(dt_mutex *mutex);

/* Waiting gives the mutex up meanwhile, and may end without a cause. */
void dt_condition_init(dt_condition *condition);
void dt_condition_destroy(dt_condition *condition);
void dt_wait(dt_condition *condition, dt_mutex *mutex);
void dt_wake_all(dt_condition *condition);

/* Which process this is: another one after a fork. */
int64_t dt_process(void);

/* Zeroed memory straight from the system, which takes a page when it is first touched; NULL: no memory. */
void *dt_pages_new(size_t bytes);
void dt_pages_free(void *pages, size_t bytes);

#endif
