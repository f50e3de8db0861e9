/* exec/env.c -- what the programs of one session share.
 *
 * mr_env_deinit also cleans up after an init that failed halfway, so every member is valid or zero at any
 * time. It frees functions and kernels before the devices, because their state may be in device memory and in
 * device resources. */
#include "exec/env.h"

#include <stdlib.h>

#include "base/memory.h"
#include "exec/device_plugin.h"
#include "exec/device_sim.h"
#include "exec/opencl/opencl.h"
#include "exec/threads.h"

#define MAX_CPUS 4096

/* Makes a CPU device, with its own budget if the session has a memory limit. */
static mr_status *make_cpu(mr_env *e, const char *task, int i, mr_device_vec *out)
{
    char *name = mr_printf("%s/device:CPU:%d", task, i);
    mr_device *d = NULL;
    mr_status *st = mr_device_new_cpu(name, e->intra, &d);
    mr_free(name);
    if (st)
        return st;
    if (e->config.memory_limit > 0) {
        e->budgets[i] = mr_budget_new(mr_cpu_allocator(), "cpu", e->config.memory_limit);
        d->alloc = e->budgets[i];
        d->memory_limit = e->config.memory_limit;
    }
    mr_vec_push(out, d);
    return NULL;
}

typedef struct wanted { /* beside CPUs */
    const mr_session_config *config;
    const mr_device_sims *simulated;
} wanted;

/* The number of devices of a type that device_count allows; -1: no limit. */
static int most_by_config(const mr_session_config *c, const char *type)
{
    for (int i = 0; i < c->n_counts; i++)
        if (strcmp(c->counts[i].type, type) == 0)
            return MR_MAX(c->counts[i].most, 0);
    return -1;
}

/* Real devices of a type are not used if devices of that type are simulated: their names would clash. */
static int most_of(void *ctx, const char *type)
{
    const wanted *w = ctx;
    return mr_device_sims_has(w->simulated, type) ? 0 : most_by_config(w->config, type);
}

/* Makes the simulated devices, of each type at most as many as device_count allows. */
static mr_status *make_simulated(const mr_session_config *c, const mr_device_sims *all, const char *task, mr_pool *pool,
                                 mr_device_vec *out)
{
    mr_device_sims some = {.links = all->links}; /* borrowed */
    for (int i = 0; i < all->devices.n; i++) {
        const char *type = all->devices.p[i].type;
        int n = 0, most = most_by_config(c, type);
        for (int k = 0; k < some.devices.n; k++)
            n += strcmp(some.devices.p[k].type, type) == 0;
        if (most < 0 || n < most)
            mr_vec_push(&some.devices, all->devices.p[i]);
    }
    mr_status *st = mr_device_sims_make(&some, task, pool, out);
    mr_vec_deinit(&some.devices);
    return st;
}

/* Makes the CPUs first, since the first device is the client's, then the simulated, plugged-in and OpenCL
 * devices. config.simulated is borrowed only until here. */
static mr_status *make_devices(mr_env *e, const char *task, int n_cpus, mr_device_vec *out)
{
    mr_device_sims from_environment = {0};
    wanted w = {&e->config, e->config.simulated ? e->config.simulated : &from_environment};
    const char *text = e->config.simulated ? NULL : getenv("MILLRACE_SIMULATE");
    mr_status *st = NULL;
    for (int i = 0; i < n_cpus; i++)
        MR_GO(make_cpu(e, task, i, out));
    if (text)
        MR_GO(mr_device_sims_parse(&from_environment, mr_sv_of(text)));
    MR_GO(make_simulated(&e->config, w.simulated, task, e->intra, out));
    MR_GO(mr_plugin_libraries());
    mr_opencl_register();
    MR_GO(mr_device_make_all(task, e->intra, most_of, &w, out));
out:
    mr_device_sims_deinit(&from_environment);
    e->config.simulated = NULL;
    return st;
}

/* inter runs nodes, intra runs the loops inside kernels; one pool serves both if their sizes are equal. The
 * thread that opens a loop takes part in it, so only a pool that runs nodes as well needs one worker more on
 * a server. */
static mr_status *make_threads(mr_env *e)
{
    const mr_session_config *c = &e->config;
    bool own = c->per_session_threads;
    int inter = mr_threads_wanted(c->inter_threads, "TF_NUM_INTEROP_THREADS");
    int intra = mr_threads_wanted(c->intra_threads, "TF_NUM_INTRAOP_THREADS");
    if (inter > 0)
        MR_TRY(mr_threads_take(inter, own, c->served, &e->inter));
    if (own && inter > 0 && inter == MR_MAX(intra, 1))
        e->intra = e->inter;
    else
        MR_TRY(mr_threads_take(intra, own, c->served && inter == MR_MAX(intra, 1), &e->intra));
    return NULL;
}

/* The members that every session owns, whether its devices are its own or borrowed. */
static mr_status *make_rest(mr_env *e)
{
    e->cancel = mr_cancel_new(NULL);
    e->kernels = mr_kernel_cache_new();
    e->functions = mr_functions_new(e);
    return make_threads(e);
}

/* On failure the caller still calls mr_env_deinit: devices made so far are in e. */
mr_status *mr_env_init(mr_env *e, const mr_session_config *c, const char *task)
{
    int n_cpus = c->n_cpus ? c->n_cpus : 1;
    mr_device_vec made = {0};
    *e = (mr_env){.config = *c};
    if (n_cpus < 1 || n_cpus > MAX_CPUS)
        return mr_invalid("device_count[\"CPU\"] is %d, expected 1 to %d", c->n_cpus, MAX_CPUS);
    e->budgets = mr_new_array(mr_allocator *, n_cpus);
    e->n_budgets = n_cpus;
    MR_TRY(make_rest(e));
    mr_status *st = make_devices(e, task ? task : "/job:localhost/replica:0/task:0", n_cpus, &made);
    e->devices = made.p;
    e->n_devices = made.n;
    return st;
}

/* Copies only the array of devices; the devices belong to owner. The session has its own kernels, functions and
 * threads. */
mr_status *mr_env_init_beside(mr_env *e, const mr_session_config *c, const mr_env *owner)
{
    *e = (mr_env){.config = *c, .n_devices = owner->n_devices, .borrowed = true};
    e->devices = mr_new_array(mr_device *, e->n_devices);
    memcpy(e->devices, owner->devices, sizeof *e->devices * (size_t)e->n_devices);
    return make_rest(e);
}

/* Frees in the reverse order of use: functions and kernels hold tensors of the devices, and the devices allocate
 * from the budgets. A pool that serves as both inter and intra is given back once. */
void mr_env_deinit(mr_env *e)
{
    MR_ASSERT(!e->borrowed || e->n_budgets == 0);
    if (e->functions)
        mr_functions_free(e->functions);
    mr_kernel_cache_free(e->kernels);
    for (int i = 0; !e->borrowed && i < e->n_devices; i++)
        mr_device_free(e->devices[i]);
    for (int i = 0; i < e->n_budgets; i++)
        mr_budget_free(e->budgets[i]);
    mr_free(e->devices);
    mr_free(e->budgets);
    mr_cancel_free(e->cancel);
    bool own = e->config.per_session_threads;
    if (!own || e->intra != e->inter)
        mr_threads_give(e->intra, own);
    mr_threads_give(e->inter, own);
    *e = (mr_env){0};
}

/* Costs, placements and rendezvous are left to the caller: they differ from run to run. */
mr_prepare_options mr_env_prepare_options(const mr_env *e)
{
    const mr_session_config *c = &e->config;
    return (mr_prepare_options){.devices = e->devices,
                                .n_devices = e->n_devices,
                                .soft_placement = c->soft_placement,
                                .place_all = !c->place_pruned,
                                .no_fold = c->no_fold,
                                .no_simplify = c->no_simplify,
                                .no_cse = c->no_cse,
                                .no_fuse = c->no_fuse,
                                .schedule = (mr_schedule)c->schedule,
                                .lossy = c->lossy_sends,
                                .order_collectives = c->order_collectives,
                                .max_folded_bytes = c->max_folded_bytes};
}
