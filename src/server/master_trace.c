/* server/master_trace.c -- what a traced step reports: the stats of all its tasks, by the clock of the
 * master's task.
 *
 * When the step has ended, its tasks are asked for their clocks (server/clocks.h) with a few small
 * calls each, which are not part of the step's time. A task's work also bounds its clock's offset,
 * because it happened between the RunGraph and its answer. These bounds are used if the task does not
 * report its clock, and otherwise limit what was measured.
 *
 *     mr_master_run_trace_begin    the step's time starts
 *     mr_master_run_trace_end      it stops; then the tasks are asked for their clocks
 *     mr_master_run_trace_encode   the stats of each task are shifted by its clock's offset */
#include "base/memory.h"
#include "exec/trace.h"
#include "server/clocks.h"
#include "server/master_internal.h"
#include "server/wire.h"

/* The trace of one step; owned by it. */
typedef struct mr_mtrace {
    int64_t start_ns, end_ns, skew_ns;
    mr_clock_reading *clocks; /* by part */
    /* While clocks are asked for: */
    mr_master_run *step;
    mr_status *st;
    void (*fn)(mr_master_run *t, mr_status *st);
} mr_mtrace;

bool mr_master_run_is_timed(const mr_master_run *t) { return t->q.options.trace_level >= MR_FULL_TRACE; }

bool mr_master_run_is_traced(const mr_master_run *t)
{
    return mr_master_run_is_timed(t) || t->q.options.output_partition_graphs || t->costs;
}

/* Freed with its step. */
void mr_mtrace_free(mr_mtrace *x)
{
    if (!x)
        return;
    mr_free(x->clocks);
    mr_free(x);
}

/* ---- times ---- */

/* The time starts here, before the first RunGraph is sent. */
void mr_master_run_trace_begin(mr_master_run *t)
{
    if (!mr_master_run_is_timed(t))
        return;
    t->trace = mr_new(mr_mtrace);
    t->trace->skew_ns = mr_clock_skew_ns(mr_host_name(t->session->master->host));
    t->trace->start_ns = mr_trace_clock_ns() + t->trace->skew_ns;
}

/* All tasks have answered: continues with the step's end. fn may free the step, and the trace with it. */
static void clocks_measured(void *arg)
{
    mr_mtrace *x = arg;
    x->fn(x->step, x->st);
}

/* Takes st and passes it on to fn. A step that failed is answered at once, because its tasks may not
 * be there. */
void mr_master_run_trace_end(mr_master_run *t, mr_status *st, void (*fn)(mr_master_run *t, mr_status *st))
{
    mr_mtrace *x = t->trace;
    if (!x || st || !t->n_parts) {
        fn(t, st);
        return;
    }
    MR_ASSERT(!x->clocks && t->program);
    int *tasks = mr_new_array(int, t->n_parts);
    for (int i = 0; i < t->n_parts; i++)
        tasks[i] = t->program->parts[i].task;
    x->end_ns = mr_trace_clock_ns() + x->skew_ns;
    x->clocks = mr_new_array(mr_clock_reading, t->n_parts);
    x->step = t;
    x->st = st;
    x->fn = fn;
    mr_task_peers *peers = t->session->peers;
    mr_clocks_measure(peers, tasks, t->n_parts, x->skew_ns, x->clocks, clocks_measured, x);
    mr_free(tasks);
}

/* The clock of a part's task, limited by its work: a task worked after it was asked and before it
 * answered. */
static mr_clock_reading bounded_clock(const mr_master_run *t, int part, mr_sv stats)
{
    const mr_mpart_call *c = &t->parts[part];
    mr_clock_reading v = t->trace->clocks ? t->trace->clocks[part] : (mr_clock_reading){0};
    int64_t first, last, skew = t->trace->skew_ns;
    if (!mr_trace_span(stats, &first, &last))
        return v;
    mr_clock_reading by_work = mr_clock_within(c->asked_ns + skew, first, last, c->heard_ns + skew);
    if (!v.known || !by_work.known)
        return v.known ? v : by_work;
    int64_t low = by_work.offset_ns - by_work.error_ns, high = by_work.offset_ns + by_work.error_ns;
    v.offset_ns = MR_MAX(low, MR_MIN(v.offset_ns, high));
    return v;
}

/* ---- RunMetadata ---- */

/* Appends a task's StepStats, corrected by its clock, to those of the other tasks; StepStats are lists
 * of devices, so appending merges them. Stats that cannot be parsed are left out. */
static void add_stats(mr_master_run *t, int part, mr_sv stats, mr_trace_clock *clock, mr_str *out)
{
    const mr_task_address *task = mr_task_peers_task(t->session->peers, t->program->parts[part].task);
    mr_clock_reading v = bounded_clock(t, part, stats);
    size_t before = out->n;
    *clock = (mr_trace_clock){mr_sv_of(task->name), v.offset_ns, v.known ? v.error_ns : INT64_MAX};
    mr_status *st = mr_trace_shift(stats, -v.offset_ns, out);
    if (st)
        out->n = before;
    mr_status_free(st);
}

/* Writes the stats of all tasks and what is known of their clocks. */
static void put_stats(mr_master_run *t, const mr_run_reply *all, mr_pb_writer *w)
{
    mr_str stats = {0};
    mr_trace_clock *clocks = mr_new_array(mr_trace_clock, t->n_parts + 1);
    for (int i = 0; i < t->n_parts; i++)
        add_stats(t, i, all[i].stats, &clocks[i], &stats);
    if (stats.n)
        mr_pb_put_bytes(w, 1, mr_str_view(&stats));
    mr_trace_info_encode(&(mr_trace_info){.home = mr_sv_of(mr_task_peers_name(t->session->peers)), .number = -1,
                                          .start_ns = t->trace->start_ns, .end_ns = t->trace->end_ns,
                                          .n_clocks = t->n_parts, .clocks = clocks}, w);
    mr_free(clocks);
    mr_str_deinit(&stats);
}

/* Writes the cost graph: the nodes of all tasks with the numbers they have there. In TensorFlow, too,
 * the numbers are unique only within a partition. */
static void put_costs(const mr_master_run *t, const mr_run_reply *all, mr_pb_writer *w)
{
    MR_ASSERT(t->costs);
    mr_str nodes = {0};
    for (int i = 0; i < t->n_parts; i++)
        if (all[i].costs.n)
            mr_str_append(&nodes, all[i].costs.p, all[i].costs.n);
    mr_pb_put_bytes(w, 2, mr_str_view(&nodes));
    mr_str_deinit(&nodes);
}

/* The replies have been parsed once (part_ran), and a part that failed has an empty one, so errors
 * cannot matter here. */
void mr_master_run_trace_encode(mr_master_run *t, bool failed, mr_pb_writer *w)
{
    mr_run_reply *all = mr_new_array(mr_run_reply, t->n_parts + 1);
    for (int i = 0; i < t->n_parts; i++)
        mr_status_free(mr_run_reply_parse(&t->parts[i].reply, &all[i]));
    size_t mark = mr_pb_begin(w, 2);
    if (t->trace)
        put_stats(t, all, w);
    if (t->costs && !failed)
        put_costs(t, all, w);
    for (int i = 0; i < t->n_parts; i++)
        for (int k = 0; k < all[i].graphs.n; k++)
            mr_pb_put_bytes(w, 3, all[i].graphs.p[k]);
    mr_pb_end(w, mark);
    for (int i = 0; i < t->n_parts; i++)
        mr_run_reply_deinit(&all[i]);
    mr_free(all);
}
