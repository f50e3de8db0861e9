/* exec/direct_placing.c -- placement by cost for the client of a session: explanations, cost files, slower
 * devices.
 *
 * MILLRACE_COSTS names a file of costs: it is read when the session starts, if it exists, and written when it
 * ends. */
#include <stdlib.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "exec/device_sim.h"
#include "exec/direct_session.h"

/* ---- the file that the environment names ---- */

/* If the file cannot be read the session fails to start, and s->placing stays NULL, so that nothing is saved
 * over the file. */
mr_status *mr_direct_placing_new(mr_direct *s)
{
    const char *path = getenv("MILLRACE_COSTS");
    mr_placing *p = mr_placing_new(s->env.devices, s->env.n_devices, s->env.config.placement_period);
    mr_status *st = path && *path && mr_file_exists(path) ? mr_placing_load(p, path) : NULL;
    if (st)
        mr_placing_free(p);
    else
        s->placing = p;
    return st;
}

/* Saves the costs. Errors go to the log: nobody is left to return them to. */
void mr_direct_placing_free(mr_direct *s)
{
    const char *path = s->placing && s->env.n_devices ? getenv("MILLRACE_COSTS") : NULL;
    mr_status *st = path && *path ? mr_placing_save(s->placing, path) : NULL;
    if (st)
        mr_warn("Cannot save the measured costs: %s", mr_status_message(st));
    mr_status_free(st);
    mr_placing_free(s->placing);
}

/* ---- on request ---- */

/* Locks in the order of make_program: s->making, then the client's graph. */
static mr_status *explain_placement(mr_direct *s, mr_placing *p, const mr_run_args *a, mr_str *out) MR_NO_TSA
{
    mr_run_signature sig = {a->feeds, a->fetches, a->targets, a->n_feeds, a->n_fetches, a->n_targets};
    mr_prepare_options o = mr_env_prepare_options(&s->env);
    mr_lock(&s->making);
    if (s->graph_mu)
        mr_lock(s->graph_mu);
    mr_status *st = mr_placing_explain(p, s->graph, &sig, &o, s->placing != NULL, &s->placements, out);
    if (s->graph_mu)
        mr_unlock(s->graph_mu);
    mr_unlock(&s->making);
    return st;
}

/* A session that does not place by cost is explained with estimates only. */
mr_status *mr_direct_explain(mr_session *base, const mr_run_args *a, mr_str *out)
{
    mr_direct *s = (mr_direct *)base;
    MR_TRY(mr_direct_enter(s));
    mr_placing *own = s->placing ? NULL : mr_placing_new(s->env.devices, s->env.n_devices, 0);
    mr_status *st = explain_placement(s, own ? own : s->placing, a, out);
    mr_direct_leave(s);
    mr_placing_free(own);
    return st;
}

/* Saves the measured costs to a file, or adds those of a file. */
mr_status *mr_direct_costs(mr_session *base, const char *path, bool save)
{
    mr_direct *s = (mr_direct *)base;
    if (!s->placing)
        return mr_error(MR_FAILED_PRECONDITION,
                        "The session does not measure costs: set placement_period in its ConfigProto");
    return save ? mr_placing_save(s->placing, path) : mr_placing_load(s->placing, path);
}

/* Accepts "GPU:0", "/device:GPU:0" or the full name. */
mr_status *mr_direct_slow(mr_session *base, const char *device, double factor)
{
    const mr_direct *s = (mr_direct *)base;
    mr_device_name pattern, name;
    if (!mr_device_name_parse(mr_sv_of(device), &pattern) || !pattern.has_type || pattern.id < 0)
        return mr_invalid("'%s' is not the name of a device: expected TYPE:NUMBER, such as GPU:0", device);
    for (int i = 0; i < s->env.n_devices; i++)
        if (mr_device_name_parse(mr_sv_of(s->env.devices[i]->name), &name) && mr_device_name_matches(&pattern, &name))
            return mr_device_sim_slow(s->env.devices[i], factor);
    return mr_error(MR_NOT_FOUND, "The session has no device %s", device);
}
