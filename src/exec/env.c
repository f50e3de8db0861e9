/* exec/env.c -- what the programs of one session share. */
#include "exec/env.h"

#include "base/memory.h"
#include "exec/threads.h"

#define MAX_CPUS 4096

static mr_status *make_device(mr_env *e, const char *task, int i)
{
    char *name = mr_printf("%s/device:CPU:%d", task, i);
    mr_status *st = mr_device_new_cpu(name, e->intra, &e->devices[i]);
    mr_free(name);
    if (st || e->config.memory_limit <= 0)
        return st;
    e->budgets[i] = mr_budget_new(mr_cpu_allocator(), "cpu", e->config.memory_limit);
    e->devices[i]->alloc = e->budgets[i];
    e->devices[i]->memory_limit = e->config.memory_limit;
    return NULL;
}

static mr_status *make_threads(mr_env *e)
{
    const mr_session_config *c = &e->config;
    bool own = c->per_session_threads;
    int inter = mr_threads_wanted(c->inter_threads, "TF_NUM_INTEROP_THREADS");
    int intra = mr_threads_wanted(c->intra_threads, "TF_NUM_INTRAOP_THREADS");
    if (inter > 0)
        MR_TRY(mr_threads_take(inter, own, &e->inter));
    if (own && inter > 0 && inter == MR_MAX(intra, 1)) /* one pool for both, as when it is shared */
        e->intra = e->inter;
    else
        MR_TRY(mr_threads_take(intra, own, &e->intra));
    return NULL;
}

/* What every session has of its own. */
static mr_status *make_rest(mr_env *e)
{
    e->cancel = mr_cancel_new(NULL);
    e->kernels = mr_kernel_cache_new();
    e->functions = mr_functions_new(e);
    return make_threads(e);
}

mr_status *mr_env_init(mr_env *e, const mr_session_config *c, const char *task)
{
    *e = (mr_env){.config = *c, .n_devices = c->n_cpus ? c->n_cpus : 1};
    if (e->n_devices < 1 || e->n_devices > MAX_CPUS) {
        e->n_devices = 0;
        return mr_invalid("device_count[\"CPU\"] is %d, expected 1 to %d", c->n_cpus, MAX_CPUS);
    }
    e->devices = mr_new_array(mr_device *, e->n_devices);
    e->budgets = mr_new_array(mr_allocator *, e->n_devices);
    MR_TRY(make_rest(e));
    for (int i = 0; i < e->n_devices; i++)
        MR_TRY(make_device(e, task ? task : "/job:localhost/replica:0/task:0", i));
    return NULL;
}

mr_status *mr_env_init_beside(mr_env *e, const mr_session_config *c, const mr_env *owner)
{
    *e = (mr_env){.config = *c, .n_devices = owner->n_devices, .borrowed = true};
    e->devices = mr_new_array(mr_device *, e->n_devices);
    memcpy(e->devices, owner->devices, sizeof *e->devices * (size_t)e->n_devices);
    return make_rest(e);
}

void mr_env_deinit(mr_env *e)
{
    if (e->functions)
        mr_functions_free(e->functions);
    mr_kernel_cache_free(e->kernels);
    for (int i = 0; !e->borrowed && i < e->n_devices; i++) {
        mr_device_free(e->devices[i]);
        if (e->budgets[i])
            mr_budget_free(e->budgets[i]);
    }
    mr_free(e->devices);
    mr_free(e->budgets);
    mr_cancel_free(e->cancel);
    bool own = e->config.per_session_threads;
    if (!own || e->intra != e->inter)
        mr_threads_give(e->intra, own);
    mr_threads_give(e->inter, own);
    *e = (mr_env){0};
}

mr_prepare_options mr_env_prepare_options(const mr_env *e)
{
    const mr_session_config *c = &e->config;
    return (mr_prepare_options){.devices = e->devices,
                                .n_devices = e->n_devices,
                                .soft_placement = c->soft_placement,
                                .no_fold = c->no_fold,
                                .no_cse = c->no_cse,
                                .schedule = (mr_schedule)c->schedule,
                                .lossy = c->lossy_sends,
                                .max_folded_bytes = c->max_folded_bytes};
}
