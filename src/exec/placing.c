/* exec/placing.c -- placement by cost in a session.
 *
 * The schedule: before step `anew_at` nodes are placed again. The MEASURED steps before it are measured. Each
 * period is SLOWER times as long as the last. After TIMES placements nothing changes any more: the programs of
 * former placements are kept until the session ends, so their number must be limited.
 *
 * Costs are learnt from our own traces, or from the serialized StepStats of other tasks, of which malformed
 * parts are skipped. `mu` guards the costs and the schedule; links and memory never change. */
#include "exec/placing.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/memory.h"
#include "exec/device_plugin.h"
#include "wire/pb.h"

enum {
    MEASURED = 3, /* steps before each new placement; fewer if the period is shorter */
    SLOWER = 4,   /* each period is this many times as long as the last */
    TIMES = 8,    /* placements in all */
};

struct mr_placing {
    _Atomic int64_t n_steps;
    mr_mutex mu;
    int64_t period MR_GUARDED_BY(mu);
    int64_t anew_at MR_GUARDED_BY(mu); /* the step before which nodes are placed again; -1: never */
    int n_times MR_GUARDED_BY(mu);
    mr_costs *measured MR_GUARDED_BY(mu);
    mr_workload_link *links;
    int64_t *memory; /* by device */
};

/* Devices of one process pass tensors on without a copy, but another thread has to wake up. Between tasks there is a
 * network. */
static const mr_workload_link within = {.latency_s = 5e-6, .bytes_per_s = 1e11}, between = {.latency_s = 1e-4, .bytes_per_s = 1e9};

/* The usual link, unless one of the two device types knows better; the sender's answer comes first. */
static mr_workload_link link_between(const mr_device *from, const mr_device *to)
{
    mr_device_name a, b;
    bool near = mr_device_name_parse(mr_sv_of(from->name), &a) && mr_device_name_parse(mr_sv_of(to->name), &b) &&
                mr_device_name_same_task(&a, &b);
    mr_workload_link l = near ? within : between;
    if (!from->type->link || !from->type->link(from, from, to, &l.latency_s, &l.bytes_per_s))
        if (to->type->link)
            to->type->link(to, from, to, &l.latency_s, &l.bytes_per_s);
    return l;
}

/* The bytes a device may use. Host memory counts as unlimited, unless there is a budget. */
static int64_t memory_of(const mr_device *d)
{
    mr_allocator_stats s;
    mr_allocator_get_stats(d->alloc, &s);
    if (s.limit > 0)
        return s.limit;
    return (d->alloc->host && !mr_plugin_memory(d)) || d->memory_limit <= 0 ? INT64_MAX : d->memory_limit;
}

/* Links and memory are asked for once: they do not change while the devices exist. */
mr_placing *mr_placing_new(mr_device *const *devices, int n_devices, int period)
{
    mr_placing *p = mr_new(mr_placing);
    mr_mutex_init(&p->mu);
    p->period = period;
    p->anew_at = period > 0 ? period : -1;
    p->measured = mr_costs_new();
    p->links = mr_new_array(mr_workload_link, (size_t)n_devices * (size_t)n_devices);
    p->memory = mr_new_array(int64_t, n_devices);
    for (int i = 0; i < n_devices; i++) {
        p->memory[i] = memory_of(devices[i]);
        for (int k = 0; k < n_devices; k++)
            p->links[i * n_devices + k] = i == k ? within : link_between(devices[i], devices[k]);
    }
    return p;
}

/* No step may be running. */
void mr_placing_free(mr_placing *p)
{
    if (!p)
        return;
    mr_costs_free(p->measured);
    mr_free(p->links);
    mr_free(p->memory);
    mr_mutex_deinit(&p->mu);
    mr_free(p);
}

/* Steps are numbered by an atomic counter, so each step number gets exactly one turn, also with many threads. */
mr_placing_turn mr_placing_next(mr_placing *p)
{
    int64_t step = atomic_fetch_add_explicit(&p->n_steps, 1, memory_order_relaxed);
    mr_placing_turn turn = MR_PLACING_RUN;
    mr_lock(&p->mu);
    MR_ASSERT(p->n_times <= TIMES && (p->anew_at < 0 || p->period > 0));
    if (p->anew_at >= 0 && step >= p->anew_at) {
        p->period *= SLOWER;
        p->anew_at = ++p->n_times < TIMES ? step + p->period : -1;
        turn = MR_PLACING_ANEW;
    } else if (p->anew_at >= 0 && step >= p->anew_at - MR_MIN(MEASURED, p->period)) {
        turn = MR_PLACING_MEASURE;
    }
    mr_unlock(&p->mu);
    return turn;
}

/* Thread-safe. The trace must be of a step that has ended. */
void mr_placing_learn(mr_placing *p, const mr_trace *t)
{
    mr_lock(&p->mu);
    mr_trace_costs(t, p->measured);
    mr_unlock(&p->mu);
}

/* ---- StepStats ---- */

enum { MAX_SLOT = 65535 };

/* Reads NodeOutput { slot, tensor_description { allocation_description { requested_bytes } } }. */
static void learn_output(mr_costs *c, mr_sv node, mr_pb_reader *r)
{
    mr_pb_reader tensor, allocation;
    uint32_t field, wire;
    int64_t slot = 0, bytes = -1;
    while (mr_pb_next(r, &field, &wire))
        if (field == 1) {
            slot = mr_pb_int64(r);
        } else if (field == 3 && mr_pb_message(r, &tensor)) {
            while (mr_pb_next(&tensor, &field, &wire))
                if (field == 4 && mr_pb_message(&tensor, &allocation)) {
                    while (mr_pb_next(&allocation, &field, &wire))
                        if (field == 1)
                            bytes = mr_pb_int64(&allocation);
                        else
                            mr_pb_skip(&allocation);
                } else {
                    mr_pb_skip(&tensor);
                }
        } else {
            mr_pb_skip(r);
        }
    if (!r->error && slot >= 0 && slot <= MAX_SLOT && bytes >= 0)
        mr_costs_add_bytes(c, node, (int)slot, bytes);
}

/* Reads NodeExecStats. It relies on the name being written first, as all writers do. */
static void learn_node(mr_costs *c, const char *device, mr_pb_reader *r)
{
    mr_pb_reader output;
    uint32_t field, wire;
    mr_sv node = MR_SV("");
    int64_t us = 0, ns = 0;
    while (mr_pb_next(r, &field, &wire))
        switch (field) {
        case 1: node = mr_pb_bytes(r); break;
        case 5: us = mr_pb_int64(r); break; /* all_end_rel_micros */
        case 16: ns = mr_pb_int64(r); break; /* all_end_rel_nanos */
        case 7:
            if (mr_pb_message(r, &output))
                learn_output(c, node, &output);
            break;
        default: mr_pb_skip(r);
        }
    double seconds = ns > 0 ? (double)ns / 1e9 : (double)us / 1e6;
    if (!r->error && node.n && seconds >= 0)
        mr_costs_add(c, device, node, seconds);
}

/* Reads DeviceStepStats. Nodes before the name of the device are skipped. */
static void learn_device(mr_costs *c, mr_pb_reader *r)
{
    mr_pb_reader node;
    uint32_t field, wire;
    char *device = NULL;
    while (mr_pb_next(r, &field, &wire))
        if (field == 1) {
            mr_sv name = mr_pb_bytes(r);
            mr_free(device);
            device = mr_strndup(name.p, name.n);
        } else if (field == 2 && device && mr_pb_message(r, &node)) {
            learn_node(c, device, &node);
        } else {
            mr_pb_skip(r);
        }
    mr_free(device);
}

/* For steps of a cluster, whose tasks report StepStats. */
void mr_placing_learn_stats(mr_placing *p, mr_sv step_stats)
{
    mr_pb_reader r, device;
    uint32_t field, wire;
    mr_pb_reader_init(&r, step_stats);
    mr_lock(&p->mu);
    while (mr_pb_next(&r, &field, &wire))
        if (field == 1 && mr_pb_message(&r, &device))
            learn_device(p->measured, &device);
        else
            mr_pb_skip(&r);
    mr_unlock(&p->mu);
}

/* Holds the lock while it places, so that the costs do not change halfway. */
mr_status *mr_placing_prepare(mr_placing *p, const mr_graph *g, const mr_run_signature *sig,
                              const mr_prepare_options *o, mr_graph **parts)
{
    mr_prepare_options with = *o;
    mr_lock(&p->mu);
    mr_place_costs costs = {.measured = p->measured, .links = p->links, .memory = p->memory};
    with.costs = &costs;
    mr_status *st = mr_prepare(g, sig, &with, parts);
    mr_unlock(&p->mu);
    return st;
}

/* True if a node must stay where it is. Functions may hold state inside. */
static bool has_state(const mr_node *n) { return n->def->function || (n->def->flags & MR_STATEFUL); }

/* Nodes with state keep their device, because state cannot move. */
void mr_placing_forget(const mr_graph *g, mr_placements *placements)
{
    for (int i = 0; i < g->nodes.n && i < placements->n; i++)
        if (g->nodes.p[i] && !has_state(g->nodes.p[i]))
            placements->device[i] = NULL;
}

/* ---- explaining, files and logging ---- */

/* Works on a copy of the placements: nodes that have no place yet get one for the explanation only. */
mr_status *mr_placing_explain(mr_placing *p, const mr_graph *g, const mr_run_signature *sig, const mr_prepare_options *o, bool by_cost,
                              const mr_placements *placements, mr_str *out)
{
    mr_status *st = NULL;
    mr_prepare_options with = *o;
    bool *needed = mr_new_array(bool, g->nodes.n + 1);
    const char **placed = mr_new_array(const char *, g->nodes.n + 1);
    if (placements->n)
        memcpy(placed, placements->device, sizeof *placed * (size_t)MR_MIN(placements->n, g->nodes.n));
    mr_lock(&p->mu);
    mr_place_costs costs = {.measured = p->measured, .links = p->links, .memory = p->memory};
    with.costs = by_cost ? &costs : NULL;
    MR_GO(mr_needed(g, sig, needed));
    MR_GO(mr_place(g, &with, sig, needed, placed));
    with.costs = &costs;
    MR_GO(mr_place_explain(g, &with, sig, placed, out));
out:
    mr_unlock(&p->mu);
    mr_free(placed);
    mr_free(needed);
    return st;
}

/* Holds the lock while it writes: a step that wants to add costs waits. */
mr_status *mr_placing_save(mr_placing *p, const char *path)
{
    mr_lock(&p->mu);
    mr_status *st = mr_costs_save(p->measured, path);
    mr_unlock(&p->mu);
    return st;
}

/* Costs of an earlier session give good placements from the first step on. */
mr_status *mr_placing_load(mr_placing *p, const char *path)
{
    mr_lock(&p->mu);
    mr_status *st = mr_costs_load(p->measured, path);
    mr_unlock(&p->mu);
    return st;
}

/* Logs what changed since the last call; `told` remembers it. The format is TensorFlow's. */
void mr_placing_log(const mr_graph *g, const mr_placements *now, mr_placements *told)
{
    if (told->n < now->n) {
        told->device = mr_realloc(told->device, sizeof *told->device * (size_t)now->n);
        memset(told->device + told->n, 0, sizeof *told->device * (size_t)(now->n - told->n));
        told->n = now->n;
    }
    for (int i = 0; i < g->nodes.n && i < now->n; i++) {
        const mr_node *n = g->nodes.p[i];
        if (!n || !now->device[i] || now->device[i] == told->device[i])
            continue;
        fprintf(stderr, "%s: (%s): %s\n", n->name, n->def->name, now->device[i]);
        told->device[i] = now->device[i];
    }
}
