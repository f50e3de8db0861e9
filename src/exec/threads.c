/* exec/threads.c -- the pools that sessions compute with.
 *
 * There is one process-wide pool for each number of threads. Sessions that want the same number share it.
 * Nodes and the loops inside kernels (inter and intra) share it too if both numbers are equal, as they are by
 * default: more threads than cores would only take time from each other. The sessions of servers share other
 * pools, which have one worker more, because no caller of a step computes in them.
 *
 * A pool ends with the last session that uses it: n_users is the number of mr_threads_take without
 * mr_threads_give, and a pool in the list has at least one user. */
#include "exec/threads.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/str.h"
#include "base/thread.h"

typedef struct shared {
    mr_pool *pool;
    bool served;
    int n_users;
    struct shared *next;
} shared;

static mr_mutex mu = {PTHREAD_MUTEX_INITIALIZER};
static shared *all MR_GUARDED_BY(mu);

/* A value in the environment that is not a number, or is 0, is ignored. Any negative value becomes -1. */
int mr_threads_wanted(int n, const char *variable)
{
    int64_t v;
    const char *text = n ? NULL : getenv(variable);
    if (text && mr_sv_to_i64(mr_sv_of(text), &v) && v)
        n = (int)MR_MAX(MR_MIN(v, MR_POOL_MAX_THREADS), -1);
    return n ? n : mr_cpu_count();
}

static mr_status *new_pool(const char *name, int n, bool served, mr_pool **out)
{
    return served ? mr_pool_new_served(name, n, out) : mr_pool_new(name, n, out);
}

/* Finds or makes the shared pool of this size and kind. Needs mu. */
static mr_status *take_shared_locked(int n, bool served, mr_pool **out)
{
    for (shared *s = all; s; s = s->next)
        if (mr_pool_threads(s->pool) == n && s->served == served) {
            MR_ASSERT(s->n_users > 0);
            s->n_users++;
            *out = s->pool;
            return NULL;
        }
    MR_TRY(new_pool("compute", n, served, out));
    shared *s = mr_new(shared);
    *s = (shared){*out, served, 1, all};
    all = s;
    return NULL;
}

/* An own pool is always new and belongs to the session. */
mr_status *mr_threads_take(int n, bool own, bool served, mr_pool **out)
{
    *out = NULL;
    n = MR_MIN(MR_MAX(n, 1), MR_POOL_MAX_THREADS);
    if (own)
        return new_pool("session", n, served, out);
    mr_lock(&mu);
    mr_status *st = take_shared_locked(n, served, out);
    mr_unlock(&mu);
    return st;
}

/* The pool is freed without the lock, because that waits for its threads. */
void mr_threads_give(mr_pool *p, bool own)
{
    shared *last = NULL;
    mr_lock(&mu);
    for (shared **at = &all; p && !own && *at; at = &(*at)->next)
        if ((*at)->pool == p) {
            if (--(*at)->n_users == 0) {
                last = *at;
                *at = last->next;
            }
            break;
        }
    mr_unlock(&mu);
    if (own || last)
        mr_pool_free(p);
    mr_free(last);
}
