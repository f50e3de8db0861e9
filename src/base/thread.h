/* base/thread.h -- mutexes, condition variables, threads, reference counts, and the lock order.
 *
 * Lock order, outermost first: graph (capi) > session > kernel cache > resource manager > resource
 * (queue, variable, barrier) > rendezvous shard > cancellation > step > allocator > pool > log.
 * Callbacks (rendezvous, cancellation, queue attempts) run with none of ours held, because a callback
 * may start the next op. */
#ifndef MR_BASE_THREAD_H
#define MR_BASE_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __clang__
#define MR_TSA(x) __attribute__((x))
#else
#define MR_TSA(x)
#endif
#define MR_CAPABILITY MR_TSA(capability("mutex"))
#define MR_GUARDED_BY(mu) /* for readers: clang 14 cannot check members of C structs */
#define MR_REQUIRES(...) MR_TSA(requires_capability(__VA_ARGS__))
#define MR_ACQUIRE(...) MR_TSA(acquire_capability(__VA_ARGS__))
#define MR_RELEASE(...) MR_TSA(release_capability(__VA_ARGS__))
#define MR_NO_TSA MR_TSA(no_thread_safety_analysis)

typedef struct MR_CAPABILITY mr_mutex {
    pthread_mutex_t m;
} mr_mutex;

typedef struct mr_cond {
    pthread_cond_t c; /* on the monotonic clock */
} mr_cond;

void mr_mutex_init(mr_mutex *mu);
void mr_mutex_deinit(mr_mutex *mu);
static inline void mr_lock(mr_mutex *mu) MR_ACQUIRE(mu) MR_NO_TSA { pthread_mutex_lock(&mu->m); }
static inline void mr_unlock(mr_mutex *mu) MR_RELEASE(mu) MR_NO_TSA { pthread_mutex_unlock(&mu->m); }

void mr_cond_init(mr_cond *c);
void mr_cond_deinit(mr_cond *c);
void mr_cond_wait(mr_cond *c, mr_mutex *mu) MR_REQUIRES(mu);
/* false when the deadline (mr_now_ns clock) passed. */
bool mr_cond_wait_until(mr_cond *c, mr_mutex *mu, int64_t deadline_ns) MR_REQUIRES(mu);
void mr_cond_signal(mr_cond *c);
void mr_cond_broadcast(mr_cond *c);

/* Runs fn(arg) in a new thread; name (up to 15 bytes) shows in debuggers.  0 or an errno. */
typedef struct mr_thread {
    pthread_t t;
} mr_thread;
int mr_thread_start(mr_thread *t, const char *name, void (*fn)(void *), void *arg);
void mr_thread_join(mr_thread *t);

/* Cores this process may use: the affinity mask, cut by the cgroup's CPU quota. */
int mr_cpu_count(void);
/* Only the quota, read from these paths (tests use others); INT32_MAX if there is none. */
int mr_cpu_quota(const char *cgroup_root, const char *self_cgroup);

/* Shared ownership. */
typedef struct mr_refs {
    _Atomic int32_t n;
} mr_refs;
static inline void mr_refs_init(mr_refs *r) { atomic_init(&r->n, 1); }
static inline void mr_refs_take(mr_refs *r) { atomic_fetch_add_explicit(&r->n, 1, memory_order_relaxed); }
/* true for the one that dropped the last reference. */
static inline bool mr_refs_drop(mr_refs *r)
{
    if (atomic_load_explicit(&r->n, memory_order_acquire) == 1) /* sole owner: no bus lock */
        return true;
    return atomic_fetch_sub_explicit(&r->n, 1, memory_order_acq_rel) == 1;
}
static inline bool mr_refs_sole(const mr_refs *r)
{
    return atomic_load_explicit(&((mr_refs *)(uintptr_t)r)->n, memory_order_acquire) == 1;
}

#endif
