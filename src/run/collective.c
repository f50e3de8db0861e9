/* run/collective.c -- which mr_collective the ops of a session use.
 *
 * A session is identified by the address of its mr_caller. Few ops ask, so a table costs less than a pointer
 * in every step. */
#include "run/collective.h"

#include "base/map.h"
#include "base/thread.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static mr_mutex mu;
static mr_imap bound MR_GUARDED_BY(mu); /* address of a session's mr_caller -> mr_collective */

static void init_bindings(void) { mr_mutex_init(&mu); }

/* The session must unbind before c is freed: an op gets c without a reference. */
void mr_collective_bind(const mr_caller *session, mr_collective *c)
{
    uint64_t key = (uint64_t)(uintptr_t)session;
    pthread_once(&once, init_bindings);
    mr_lock(&mu);
    if (c)
        mr_imap_put(&bound, key, c);
    else
        mr_imap_remove(&bound, key);
    if (bound.n == 0) /* leak checkers find nothing at the end of the process */
        mr_imap_deinit(&bound);
    mr_unlock(&mu);
}

/* An op outside of a session, as in mr_eval_node, has no caller and uses the members of this process. */
mr_collective *mr_collective_of(const mr_run *r)
{
    pthread_once(&once, init_bindings);
    mr_lock(&mu);
    mr_collective *c = r->step->caller ? mr_imap_get(&bound, (uint64_t)(uintptr_t)r->step->caller) : NULL;
    mr_unlock(&mu);
    return c ? c : mr_collective_local();
}
