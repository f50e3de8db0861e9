/* exec/kernel_cache.c -- the kernels that a session keeps.
 *
 * Kernels are made with the lock held: two plans that need the same one at the same time must get the same
 * one, and plans are made rarely. They are freed without the lock. */
#include "exec/kernel_cache.h"

#include "base/map.h"
#include "base/memory.h"

typedef struct kept {
    mr_instance *kernel;
    mr_graph *graph; /* of the node it was made from: its state may point there */
} kept;

struct mr_kernel_cache {
    mr_mutex mu;
    mr_map by_name; /* "device;node" -> kept * MR_GUARDED_BY(mu) */
};

/* One per session. */
mr_kernel_cache *mr_kernel_cache_new(void)
{
    mr_kernel_cache *c = mr_new(mr_kernel_cache);
    mr_mutex_init(&c->mu);
    return c;
}

/* Frees without the lock: freeing a kernel may free an iterator with it. */
void mr_kernel_cache_clear(mr_kernel_cache *c)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    mr_lock(&c->mu);
    mr_map all = c->by_name;
    c->by_name = (mr_map){0};
    mr_unlock(&c->mu);
    while (mr_map_next(&all, &pos, &key, &v)) {
        kept *k = v;
        mr_instance_unref(k->kernel);
        mr_graph_unref(k->graph);
        mr_free(k);
    }
    mr_map_deinit(&all);
}

/* Kernels that plans still use live on until those are freed. */
void mr_kernel_cache_free(mr_kernel_cache *c)
{
    if (!c)
        return;
    mr_kernel_cache_clear(c);
    mr_mutex_deinit(&c->mu);
    mr_free(c);
}

/* True if the node has state that outlives a plan. Ops whose names begin with '_' are added by the runtime,
 * so the names of their nodes do not identify them. A call has no state itself; the nodes of the function
 * have. */
static bool is_kept(const mr_node *n)
{
    return n->def->op && (n->def->flags & MR_STATEFUL) && n->def->name[0] != '_' &&
           !mr_node_is(n, "StatefulPartitionedCall");
}

/* Needs c->mu. A node that has changed its op under the same name is an error. */
static mr_status *find_or_make_locked(mr_kernel_cache *c, const mr_make *m, mr_sv key,
                                      mr_instance **out)
{
    kept *k = mr_map_get(&c->by_name, key);
    if (k && k->kernel->op != m->node->def->op)
        return mr_error(MR_INTERNAL, "Node '%s' has changed its op from %s to %s while the session keeps its state",
                        m->node->name, k->kernel->op->name, m->node->def->name);
    if (!k) {
        mr_instance *made = NULL;
        MR_TRY(mr_instance_new(m, &made));
        k = mr_new(kept);
        *k = (kept){made, mr_graph_ref(m->node->graph)};
        mr_map_put(&c->by_name, key, k);
    }
    mr_refs_take(&k->kernel->refs);
    MR_ASSERT(k->kernel->op == m->node->def->op);
    *out = k->kernel;
    return NULL;
}

/* Kernels without lasting state, and all kernels if c is NULL, are made for this plan alone. */
mr_status *mr_kernel_cache_get(mr_kernel_cache *c, const mr_make *m, mr_instance **out)
{
    if (!c || !is_kept(m->node))
        return mr_instance_new(m, out);
    char *key = mr_printf("%s;%s", m->device->name, m->node->name);
    mr_lock(&c->mu);
    mr_status *st = find_or_make_locked(c, m, mr_sv_of(key), out);
    mr_unlock(&c->mu);
    mr_free(key);
    return st;
}
