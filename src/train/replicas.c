/* train/replicas.c -- places variables on parameter servers, like TensorFlow's replica_device_setter. */
#include "train/replicas.h"

#include "graph/graph.h"

enum { MAX_PS = 65536 };

/* The limits keep a wrong count from allocating a list of devices that no cluster has. */
static mr_status *check_options(const char *ps_job, int n_ps, const char *worker)
{
    if (!ps_job || !ps_job[0] || !worker)
        return mr_invalid("replicas: the job of the parameter servers and the device of the worker must be given");
    if (n_ps < 1 || n_ps > MAX_PS)
        return mr_invalid("replicas: the number of parameter servers must be 1 to %d, not %d", (int)MAX_PS, n_ps);
    return NULL;
}

/* Replaces an earlier setting. Device names are in the graph's arena, because nodes keep them. */
void mr_nn_replicate(mr_nn *n, const char *ps_job, int n_ps, const char *worker, mr_replicas_strategy strategy)
{
    mr_status *st = check_options(ps_job, n_ps, worker);
    if (st || !mr_scope_ok(&n->s)) {
        mr_scope_fail(&n->s, st);
        return;
    }
    mr_arena *a = &n->s.graph->arena;
    mr_replicas *r = mr_new(mr_replicas);
    r->strategy = strategy;
    r->n_ps = n_ps;
    r->bytes = mr_new_array(int64_t, n_ps);
    r->devices = mr_new_array(const char *, n_ps);
    for (int i = 0; i < n_ps; i++)
        r->devices[i] = mr_arena_printf(a, "/job:%s/task:%d", ps_job, i);
    mr_replicas_free(n->replicas);
    n->replicas = r;
    n->s.device = mr_arena_strdup(a, worker);
}

void mr_replicas_free(mr_replicas *r)
{
    if (!r)
        return;
    mr_free(r->bytes);
    mr_free(r->devices);
    mr_free(r);
}

/* The device of the next variable. The choice depends only on earlier calls, so all workers choose
 * alike. */
const char *mr_replicas_place(mr_replicas *r, int64_t bytes)
{
    MR_ASSERT(bytes >= 0 && r->n_ps > 0);
    int at = r->next;
    if (r->strategy == MR_REPLICAS_BY_SIZE) { /* the first of those with equal size */
        at = 0;
        for (int i = 1; i < r->n_ps; i++)
            if (r->bytes[i] < r->bytes[at])
                at = i;
    }
    MR_ASSERT(at >= 0 && at < r->n_ps);
    r->next = (r->next + 1) % r->n_ps;
    if (__builtin_add_overflow(r->bytes[at], bytes, &r->bytes[at]))
        r->bytes[at] = INT64_MAX;
    return r->devices[at];
}
