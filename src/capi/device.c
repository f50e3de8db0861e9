/* capi/device.c -- simulated devices of a session, and placement by cost as its client sees it. */
#include "millrace/device.h"

#include "capi/internal.h"
#include "exec/device_sim.h"

static bool copy_name(char *out, size_t room, const char *name)
{
    size_t n = name ? strlen(name) : 0;
    if (!n || n >= room)
        return false;
    memcpy(out, name, n + 1);
    return true;
}

static mr_status *sims_of(TF_SessionOptions *o, mr_device_sims **out)
{
    if (!o)
        return mr_invalid("options is NULL");
    if (!o->simulated)
        o->simulated = mr_new(mr_device_sims);
    *out = o->simulated;
    return NULL;
}

void mr_capi_simulated_free(mr_device_sims *s)
{
    if (s)
        mr_device_sims_deinit(s);
    mr_free(s);
}

/* ---- simulated devices ---- */

static mr_status *add_device(TF_SessionOptions *o, const mr_simulated_device *device)
{
    mr_device_sims *sims = NULL;
    mr_simulated_device d;
    mr_device_sim is = {0};
    MR_TRY(mr_capi_take_struct(&d, sizeof d, device, offsetof(mr_simulated_device, flops_per_s), "simulated device"));
    if (!copy_name(is.type, sizeof is.type, d.type))
        return mr_invalid("A simulated device needs a type of up to %zu characters", sizeof is.type - 1);
    is.id = d.id;
    is.priority = d.priority;
    is.speed = (mr_speed){d.flops_per_s, d.bytes_per_s, d.op_s};
    is.memory = d.memory_bytes;
    is.latency_s = d.latency_s;
    is.link_bytes_per_s = d.link_bytes_per_s;
    MR_TRY(sims_of(o, &sims));
    return mr_device_sims_add(sims, &is);
}

void mr_session_add_simulated_device(TF_SessionOptions *options, const mr_simulated_device *device, TF_Status *status)
{
    mr_capi_set_status(status, add_device(options, device));
}

static mr_status *add_link(TF_SessionOptions *o, const mr_simulated_link *link)
{
    mr_device_sims *sims = NULL;
    mr_simulated_link l;
    mr_device_sim_link is = {.from = ""};
    MR_TRY(mr_capi_take_struct(&l, sizeof l, link, offsetof(mr_simulated_link, latency_s), "simulated link"));
    if (!copy_name(is.from, sizeof is.from, l.from) || !copy_name(is.to, sizeof is.to, l.to))
        return mr_invalid("A link needs two devices: from and to");
    is.latency_s = l.latency_s;
    is.bytes_per_s = l.bytes_per_s;
    MR_TRY(sims_of(o, &sims));
    return mr_device_sims_link(sims, &is);
}

void mr_session_add_simulated_link(TF_SessionOptions *options, const mr_simulated_link *link, TF_Status *status)
{
    mr_capi_set_status(status, add_link(options, link));
}

void mr_session_simulate(TF_SessionOptions *options, const char *text, TF_Status *status)
{
    mr_device_sims *sims = NULL;
    mr_status *st = text ? sims_of(options, &sims) : mr_invalid("text is NULL");
    if (!st)
        st = mr_device_sims_parse(sims, mr_sv_of(text));
    mr_capi_set_status(status, st);
}

/* ---- sessions ---- */

static mr_status *only_here(const char *what)
{
    return mr_error(MR_UNIMPLEMENTED, "%s only in sessions of this process, not in remote ones", what);
}

static mr_status *slow_device(TF_Session *s, const char *device, double factor)
{
    if (!s || !device)
        return mr_invalid("session or device is NULL");
    if (!s->session->ops->slow)
        return only_here("Devices can be slowed down");
    return s->session->ops->slow(s->session, device, factor);
}

void mr_session_slow_device(TF_Session *session, const char *device, double factor, TF_Status *status)
{
    mr_capi_set_status(status, slow_device(session, device, factor));
}

static mr_status *load_or_save_costs(TF_Session *s, const char *path, bool save)
{
    if (!s || !path)
        return mr_invalid("session or path is NULL");
    if (!s->session->ops->costs)
        return only_here("Costs are measured");
    return s->session->ops->costs(s->session, path, save);
}

void mr_session_save_costs(TF_Session *session, const char *path, TF_Status *status)
{
    mr_capi_set_status(status, load_or_save_costs(session, path, true));
}

void mr_session_load_costs(TF_Session *session, const char *path, TF_Status *status)
{
    mr_capi_set_status(status, load_or_save_costs(session, path, false));
}

TF_Buffer *mr_session_explain(TF_Session *session, const TF_Output *inputs, int ninputs, const TF_Output *outputs, int noutputs,
                              const TF_Operation *const *target_opers, int ntargets, TF_Status *status)
{
    mr_str text = {0};
    mr_run_args a = {.feeds = mr_capi_outs(inputs),
                     .n_feeds = ninputs,
                     .fetches = mr_capi_outs(outputs),
                     .n_fetches = noutputs,
                     .targets = (mr_node *const *)(uintptr_t)target_opers,
                     .n_targets = ntargets};
    mr_status *st = mr_capi_check_operations(session, &a);
    if (!st)
        st = session->session->ops->explain ? session->session->ops->explain(session->session, &a, &text)
                                            : only_here("Placement is explained");
    mr_capi_set_status(status, st);
    TF_Buffer *b = st ? NULL : mr_capi_buffer_new(&text);
    mr_str_deinit(&text);
    return b;
}
