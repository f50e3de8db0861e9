/* base/deterministic.c -- the switch. */
#include "base/deterministic.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static _Atomic bool on;

static void look_around(void)
{
    const char *v = getenv("MILLRACE_DETERMINISTIC");
    if (v && v[0] && strcmp(v, "0") != 0)
        atomic_store(&on, true);
}

static void look_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, look_around);
}

bool mr_deterministic(void)
{
    look_once();
    return atomic_load_explicit(&on, memory_order_relaxed);
}

void mr_deterministic_set(bool is)
{
    look_once(); /* otherwise the environment would override it */
    atomic_store(&on, is);
}

int mr_pool_shares(const mr_pool *p) { return mr_deterministic() ? MR_SHARES : mr_pool_threads(p); }
