/* exec/trace.c -- records what each node did and when: RunMetadata.step_stats.
 *
 * Nodes are recorded when they end, from any thread, and written device by device at the end of the step.
 * Times are taken from the monotonic clock and shifted to the wall clock by one fixed offset, so intervals
 * stay right.
 *
 * A trace holds pointers to nodes and devices, so it must not outlive the program and the session of its
 * step. */
#include "exec/trace.h"

#include <unistd.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/memory.h"
#include "graph/graph_def.h"
#include "run/fused.h"
#include "wire/pb.h"

typedef struct output {
    int slot;
    mr_dtype dtype;
    size_t bytes;
    const mr_pshape *shape;
} output;

typedef struct record {
    const mr_device *device;
    const mr_node *node;
    int64_t start_ns, made_ns, end_ns; /* of the wall clock */
    uint32_t thread;
    int n_out;
    const output *out;
} record;

struct mr_trace {
    int64_t wall_ns; /* to be added to mr_now_ns times */
    mr_mutex mu;
    mr_arena arena MR_GUARDED_BY(mu);
    MR_VEC(record) records MR_GUARDED_BY(mu);
};

/* What to add to mr_now_ns. The first caller in the process settles it. */
static int64_t wall_offset_ns(void)
{
    static _Atomic int64_t settled;
    int64_t none = 0, offset = mr_wall_us() * 1000 - mr_now_ns();
    return atomic_compare_exchange_strong(&settled, &none, offset) ? offset : none;
}

int64_t mr_trace_clock_ns(void) { return mr_now_ns() + wall_offset_ns(); }

/* All records of a trace have the same offset to the wall clock. */
mr_trace *mr_trace_new(void)
{
    mr_trace *t = mr_new(mr_trace);
    t->wall_ns = wall_offset_ns();
    mr_mutex_init(&t->mu);
    mr_arena_init(&t->arena, 0);
    return t;
}

/* Before the step starts, so that all records have the same offset. */
void mr_trace_skew(mr_trace *t, int64_t ns) { t->wall_ns += ns; }

/* The step has ended: nobody records any more. */
void mr_trace_free(mr_trace *t)
{
    if (!t)
        return;
    mr_vec_deinit(&t->records);
    mr_arena_deinit(&t->arena);
    mr_mutex_deinit(&t->mu);
    mr_free(t);
}

/* Copies the sizes and shapes of the live outputs into the trace's arena. Needs t->mu. */
static const output *note_outputs(mr_trace *t, const mr_plan_node *n, const mr_value *out,
                                  int *n_noted)
{
    output *o = mr_arena_array(&t->arena, output, n->n_out);
    for (uint32_t i = 0; i < n->n_out; i++) {
        if (out[i].kind != MR_LIVE)
            continue;
        const mr_tensor *v = out[i].t;
        o[(*n_noted)++] = (output){(int)i, v->dtype, mr_tensor_bytes(v),
                                   mr_pshape_of(&t->arena, v->rank, v->dims)};
    }
    return o;
}

/* The lock is held only to append: the clock was read by the caller. */
void mr_trace_node(mr_trace *t, const mr_plan *p, const mr_plan_node *n, const mr_trace_times *when, const mr_value *out)
{
    MR_ASSERT(when->start_ns <= when->made_ns && when->made_ns <= when->end_ns);
    record r = {p->device,
                n->node,
                when->start_ns + t->wall_ns,
                when->made_ns + t->wall_ns,
                when->end_ns + t->wall_ns,
                (uint32_t)syscall(SYS_gettid),
                0,
                NULL};
    mr_lock(&t->mu);
    r.out = note_outputs(t, n, out, &r.n_out);
    mr_vec_push(&t->records, r);
    mr_unlock(&t->mu);
}

/* The step is over, so nobody else writes and no lock is needed. */
void mr_trace_costs(const mr_trace *t, mr_costs *c) MR_NO_TSA
{
    for (int i = 0; i < t->records.n; i++) {
        const record *r = &t->records.p[i];
        mr_sv name = mr_sv_of(r->node->name);
        mr_costs_add(c, r->device->name, name, (double)(r->end_ns - r->start_ns) / 1e9);
        for (int k = 0; k < r->n_out; k++)
            mr_costs_add_bytes(c, name, r->out[k].slot, (int64_t)r->out[k].bytes);
    }
}

/* ---- writing ---- */

/* Writes a NodeOutput with its TensorDescription and AllocationDescription. */
static void put_output(mr_pb_writer *w, const mr_device *d, const output *o)
{
    mr_str shape = {0};
    size_t at = mr_pb_begin(w, 7); /* NodeOutput */
    mr_pb_opt_varint(w, 1, (uint64_t)o->slot);
    size_t desc = mr_pb_begin(w, 3); /* TensorDescription */
    mr_pb_put_varint(w, 1, o->dtype);
    mr_pshape_encode(o->shape, &shape);
    mr_pb_put_bytes(w, 2, mr_str_view(&shape));
    size_t alloc = mr_pb_begin(w, 4); /* AllocationDescription */
    mr_pb_opt_varint(w, 1, o->bytes);
    mr_pb_opt_varint(w, 2, o->bytes);
    mr_pb_put_bytes(w, 3, mr_sv_of(d->alloc->name));
    mr_pb_end(w, alloc);
    mr_pb_end(w, desc);
    mr_pb_end(w, at);
    mr_str_deinit(&shape);
}

/* Data inputs, then control inputs with '^', as in a NodeDef. */
static void put_inputs(mr_str *s, const mr_node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        mr_str_printf(s, "%s%s", i ? ", " : "", n->in[i].node->name);
        if (n->in[i].index > 0)
            mr_str_printf(s, ":%d", n->in[i].index);
    }
    for (int i = 0; i < n->n_ctrl; i++)
        mr_str_printf(s, "%s^%s", n->n_in + i ? ", " : "", n->ctrl[i]->name);
}

/* What a fused node consists of: "[mul:Mul tanh:Tanh]". */
static void put_members(mr_str *s, const mr_node *n)
{
    const mr_attr *members = mr_node_attr(n, MR_FUSED_MEMBERS);
    if (!members || !members->is_list || members->kind != MR_ATTR_STRING)
        return;
    for (int i = 0; i < members->n; i++)
        mr_str_printf(s, "%s%.*s", i ? " " : "[", MR_SV_ARG(members->ss[i]));
    mr_str_appendc(s, ']');
}

/* Writes "name = Op(input, other:1, ^control)"; for a fused node "name = Op[member:Op member:Op](input)". For a _Send and a _Recv the tensor and the other device come
 * first: "name = _Recv(edge_3_y @/job:ps/replica:0/task:0/device:CPU:0)". trace_read.c parses this. */
static void put_label(mr_pb_writer *w, const mr_node *n)
{
    mr_str s = {0};
    mr_sv tensor, device;
    bool sends = mr_node_is(n, "_Send") || mr_node_is(n, "_HostSend");
    bool receives = mr_node_is(n, "_Recv") || mr_node_is(n, "_HostRecv");
    mr_str_printf(&s, "%s = %s", n->name, n->def->name);
    put_members(&s, n);
    mr_str_appendc(&s, '(');
    mr_status *st = sends || receives ? mr_node_get_str(n, "tensor_name", &tensor) : NULL;
    if (!st && (sends || receives))
        st = mr_node_get_str(n, sends ? "recv_device" : "send_device", &device);
    if (!st && (sends || receives))
        mr_str_printf(&s, "%.*s @%.*s%s", MR_SV_ARG(tensor), MR_SV_ARG(device),
                      n->n_in + n->n_ctrl ? ", " : "");
    mr_status_free(st);
    put_inputs(&s, n);
    mr_str_appendc(&s, ')');
    mr_pb_put_bytes(w, 8, mr_str_view(&s));
    mr_str_deinit(&s);
}

/* Writes a NodeExecStats, with times in microseconds for TensorFlow's tools and in nanoseconds for ours. */
static void put_record(mr_pb_writer *w, const record *r)
{
    uint64_t start = (uint64_t)r->start_ns, took = (uint64_t)(r->end_ns - r->start_ns);
    uint64_t made = (uint64_t)(r->made_ns - r->start_ns);
    size_t at = mr_pb_begin(w, 2); /* NodeExecStats */
    mr_pb_put_bytes(w, 1, mr_sv_of(r->node->name));
    mr_pb_put_varint(w, 2, start / 1000);
    mr_pb_opt_varint(w, 4, made / 1000);
    mr_pb_opt_varint(w, 5, took / 1000);
    for (int i = 0; i < r->n_out; i++)
        put_output(w, r->device, &r->out[i]);
    put_label(w, r->node);
    mr_pb_put_varint(w, 9, start / 1000);
    mr_pb_put_varint(w, 10, r->thread);
    mr_pb_put_varint(w, 13, start);
    mr_pb_opt_varint(w, 15, made);
    mr_pb_opt_varint(w, 16, took);
    mr_pb_put_varint(w, 17, start);
    mr_pb_end(w, at);
}

/* For qsort. Devices are compared by name, so the output does not depend on addresses. */
static int by_device_and_time(const void *a, const void *b)
{
    const record *x = a, *y = b;
    int by_device = strcmp(x->device->name, y->device->name);
    if (by_device)
        return by_device;
    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* Sorts the records by device, because each device has one DeviceStepStats. */
static void put_step_stats(mr_pb_writer *w, mr_trace *t)
{
    mr_lock(&t->mu);
    if (t->records.n) /* qsort does not accept NULL */
        qsort(t->records.p, (size_t)t->records.n, sizeof(record), by_device_and_time);
    size_t stats = mr_pb_begin(w, 1);
    for (int i = 0; i < t->records.n;) {
        const mr_device *d = t->records.p[i].device;
        size_t at = mr_pb_begin(w, 1); /* DeviceStepStats */
        mr_pb_put_bytes(w, 1, mr_sv_of(d->name));
        for (; i < t->records.n && t->records.p[i].device == d; i++)
            put_record(w, &t->records.p[i]);
        mr_pb_end(w, at);
    }
    mr_pb_end(w, stats);
    mr_unlock(&t->mu);
}

/* A partition graph, as field 3 of RunMetadata. */
static mr_status *put_graph(mr_pb_writer *w, const mr_plan *p)
{
    mr_str bytes = {0};
    mr_status *st = mr_graph_export(p->graph, &bytes);
    if (!st)
        mr_pb_put_bytes(w, 3, mr_str_view(&bytes));
    mr_str_deinit(&bytes);
    return st;
}

/* ---- costs ---- */

/* By node id, the longest run of each node; NULL: it did not run. The step is over, so no lock is needed. */
static const record **longest_runs(const mr_trace *t, const mr_plan *p) MR_NO_TSA
{
    const record **by_id = mr_new_array(const record *, p->graph->nodes.n + 1);
    for (int i = 0; i < t->records.n; i++) {
        const record *r = &t->records.p[i];
        if (r->node->graph != p->graph)
            continue;
        MR_ASSERT(r->node->id >= 0 && r->node->id < p->graph->nodes.n);
        const record **at = &by_id[r->node->id];
        if (!*at || r->end_ns - r->start_ns > (*at)->end_ns - (*at)->start_ns)
            *at = r;
    }
    return by_id;
}

/* Writes one OutputInfo per output; the shape of one that was not recorded is unknown. */
static void put_cost_outputs(mr_pb_writer *w, const mr_node *n, const record *r)
{
    for (int i = 0; i < n->n_out; i++) {
        const output *o = NULL;
        for (int k = 0; r && k < r->n_out; k++)
            if (r->out[k].slot == i)
                o = &r->out[k];
        size_t at = mr_pb_begin(w, 5); /* OutputInfo */
        mr_str shape = {0};
        mr_pb_opt_varint(w, 1, o ? o->bytes : 0);
        mr_pb_put_varint(w, 2, (uint64_t)-1); /* alias_input_port: none is known */
        mr_pshape_encode(o ? o->shape : &mr_pshape_unknown, &shape);
        mr_pb_put_bytes(w, 3, mr_str_view(&shape));
        mr_pb_put_varint(w, 4, o ? o->dtype : mr_dtype_base(n->out_types[i]));
        mr_pb_end(w, at);
        mr_str_deinit(&shape);
    }
}

/* Writes a CostGraphDef.Node. Node ids count on from plan to plan, starting at `first`. */
static void put_cost_node(mr_pb_writer *w, const mr_plan *p, const mr_node *n, const record *r, int first)
{
    size_t at = mr_pb_begin(w, 1); /* CostGraphDef.Node */
    mr_pb_put_bytes(w, 1, mr_sv_of(n->name));
    mr_pb_put_bytes(w, 2, mr_sv_of(p->device->name));
    mr_pb_opt_varint(w, 3, (uint64_t)(first + n->id));
    for (int i = 0; i < n->n_in; i++) {
        size_t in = mr_pb_begin(w, 4); /* InputInfo */
        mr_pb_opt_varint(w, 1, (uint64_t)(first + n->in[i].node->id));
        mr_pb_opt_varint(w, 2, (uint64_t)n->in[i].index);
        mr_pb_end(w, in);
    }
    put_cost_outputs(w, n, r);
    mr_pb_opt_varint(w, 7, mr_node_is(n, "_Send") || mr_node_is(n, "_HostSend")); /* is_final */
    for (int i = 0; i < n->n_ctrl; i++)
        mr_pb_put_varint(w, 8, (uint64_t)(first + n->ctrl[i]->id));
    mr_pb_opt_varint(w, 9, r ? (uint64_t)(r->end_ns - r->start_ns) / 1000 : 0);
    mr_pb_end(w, at);
}

/* All nodes of the plans are listed, also those that did not run: readers expect complete graphs. A node that ran
 * several times, in a loop, counts with its longest run. */
void mr_trace_put_cost_graph(const mr_trace *t, mr_plan *const *plans, int n, mr_str *out)
{
    mr_pb_writer w;
    int first = 0;
    mr_pb_writer_init(&w, out);
    size_t graph = mr_pb_begin(&w, 2);
    for (int i = 0; i < n; i++) {
        const mr_graph *g = plans[i]->graph;
        const record **by_id = longest_runs(t, plans[i]);
        for (int k = 0; k < g->nodes.n; k++)
            if (g->nodes.p[k])
                put_cost_node(&w, plans[i], g->nodes.p[k], by_id[k], first);
        first += g->nodes.n;
        mr_free(by_id);
    }
    mr_pb_end(&w, graph);
}

/* With t NULL and n 0 it appends nothing. */
mr_status *mr_trace_encode(mr_trace *t, mr_plan *const *plans, int n, mr_str *out)
{
    mr_pb_writer w;
    mr_pb_writer_init(&w, out);
    if (t)
        put_step_stats(&w, t);
    for (int i = 0; i < n; i++)
        MR_TRY(put_graph(&w, plans[i]));
    return mr_pb_writer_status(&w, "RunMetadata");
}
