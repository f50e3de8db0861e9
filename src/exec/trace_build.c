/* exec/trace_build.c -- records of traced steps as a timeline.
 *
 * A record becomes one span. A record that received a value becomes two: until the value was sent it waited,
 * from then on the value was in transit. Lanes: a device has as many as threads were busy at once; spans that
 * wait are on separate lanes, by the task they wait for.
 *
 * Order matters: clocks are aligned before Sends and Recvs are matched by start time, and spans are added in
 * order of their starts, as mr_timeline_free_lane requires. */
#include <stdlib.h>

#include "base/memory.h"
#include "exec/trace_records.h"

/* ---- tasks and steps of the timeline ---- */

/* Like strcmp, for texts that may contain NUL or be empty. */
static int compare_parts(mr_sv a, mr_sv b)
{
    int c = memcmp(a.p ? a.p : "", b.p ? b.p : "", MR_MIN(a.n, b.n));
    return c ? c : (a.n > b.n) - (a.n < b.n);
}

/* Orders tasks by job, then by number: worker:2 comes before worker:10. */
static int by_task(const void *a, const void *b)
{
    mr_sv x = mr_sv_of(*(const char *const *)a), y = mr_sv_of(*(const char *const *)b), job_x,
          job_y;
    int64_t i = 0, k = 0;
    mr_sv whole_x = x, whole_y = y;
    mr_sv_cut(&x, ':', &job_x);
    mr_sv_cut(&y, ':', &job_y);
    int by_job = compare_parts(job_x, job_y);
    if (by_job)
        return by_job;
    if (x.p && y.p && mr_sv_to_i64(x, &i) && mr_sv_to_i64(y, &k) && i != k)
        return i < k ? -1 : 1;
    return compare_parts(whole_x, whole_y);
}

/* Adds the tasks in sorted order, so that their order does not depend on the files. */
static void add_tasks(mr_records *r, mr_timeline *t)
{
    const char **names = mr_new_array(const char *, r->devices.n + 1);
    for (int i = 0; i < r->devices.n; i++)
        names[i] = r->devices.p[i].task;
    qsort(names, (size_t)r->devices.n, sizeof *names, by_task);
    for (int i = 0; i < r->devices.n; i++)
        mr_timeline_task(t, mr_sv_of(names[i]));
    for (int i = 0; i < r->devices.n; i++)
        r->devices.p[i].task_id = mr_timeline_task(t, mr_sv_of(r->devices.p[i].task));
    mr_free(names);
}

/* A step without a number gets its position in the input. */
static void add_steps(mr_records *r, mr_timeline *t)
{
    mr_str task = {0};
    mr_sv rest;
    for (int i = 0; i < r->steps.n; i++) {
        const mr_trace_info *f = &r->steps.p[i].info;
        int home = t->tasks.n == 1 ? 0 : -1;
        if (f->home.n) {
            mr_trace_split_device(f->home, &task, &rest);
            home = mr_timeline_task(t, mr_str_view(&task));
        }
        mr_timeline_step_add(t, f->number >= 0 ? f->number : i + 1, home, f->start_ns, f->end_ns);
        t->steps.p[i].outside_ns = f->outside_ns;
        t->steps.p[i].what = f->what.n ? mr_timeline_name(t, f->what) : NULL;
    }
    mr_str_deinit(&task);
}

/* ---- which Send fed which Recv ---- */

typedef struct edge_key { /* what a Send and its Recv have in common */
    int step, from, to;
    mr_sv tensor;
} edge_key;

/* From the sender to the receiver, whichever of the two recorded it. */
static edge_key key_of(const mr_record *r)
{
    bool sends = r->role == MR_ROLE_SEND;
    return (edge_key){r->step, sends ? r->device : r->peer, sends ? r->peer : r->device, r->tensor};
}

/* Orders by everything that identifies a transfer, but not by time. */
static int compare_keys(const mr_record *a, const mr_record *b)
{
    edge_key x = key_of(a), y = key_of(b);
    if (x.step != y.step)
        return x.step < y.step ? -1 : 1;
    if (x.from != y.from)
        return x.from < y.from ? -1 : 1;
    if (x.to != y.to)
        return x.to < y.to ? -1 : 1;
    return compare_parts(x.tensor, y.tensor);
}

/* Ties are broken by position, so that the output does not depend on the sort. */
static int compare_starts(const mr_record *a, const mr_record *b)
{
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return (a > b) - (a < b);
}

static int by_key(const void *a, const void *b)
{
    const mr_record *x = *(mr_record *const *)a, *y = *(mr_record *const *)b;
    int c = compare_keys(x, y);
    return c ? c : compare_starts(x, y);
}

/* All records of a role, sorted by key and start; the caller frees the array. */
static mr_record **all_of(mr_records *r, mr_record_role role, int *n)
{
    mr_record **found = mr_new_array(mr_record *, r->all.n + 1);
    *n = 0;
    for (int i = 0; i < r->all.n; i++)
        if (r->all.p[i].role == role)
            found[(*n)++] = &r->all.p[i];
    qsort(found, (size_t)*n, sizeof *found, by_key);
    return found;
}

/* Finds the Send of each Recv. In a loop a key is used once per iteration: the first Send feeds the first
 * Recv, and so on. */
static void match_transfers(mr_records *r)
{
    int n_sends, n_recvs, i = 0, k = 0;
    mr_record **sends = all_of(r, MR_ROLE_SEND, &n_sends),
              **recvs = all_of(r, MR_ROLE_RECV, &n_recvs);
    while (i < n_sends && k < n_recvs) {
        int c = compare_keys(sends[i], recvs[k]);
        if (c == 0) {
            recvs[k]->sent_by = (int)(sends[i] - r->all.p);
            MR_ASSERT(recvs[k]->sent_by >= 0 && recvs[k]->sent_by < r->all.n);
            sends[i]->bytes = recvs[k]->bytes; /* a Send has no output, so its record has no size */
        }
        i += c <= 0;
        k += c >= 0;
    }
    mr_free(sends);
    mr_free(recvs);
}

/* ---- spans ---- */

/* Shortens "edge_12_conv1/w", as partitioned graphs call it, to "conv1/w". */
static mr_sv without_edge(mr_sv tensor)
{
    if (!mr_sv_starts(tensor, "edge_"))
        return tensor;
    mr_sv rest = {tensor.p + 5, tensor.n - 5}, number;
    int64_t unused;
    return mr_sv_cut(&rest, '_', &number) && rest.n && mr_sv_to_i64(number, &unused) ? rest
                                                                                     : tensor;
}

typedef struct builder {
    mr_records *r;
    mr_timeline *t;
    mr_record **by_start, **by_name;
} builder;

/* Returns a free lane that is drawn in one line with others of its name. */
static int shared_lane(mr_timeline *t, int task, const char *name, int64_t start_ns)
{
    int first = mr_timeline_lane(t, task, mr_sv_of(name));
    int lane = mr_timeline_free_lane(t, task, mr_sv_of(name), start_ns);
    t->lanes.p[lane].row = first;
    return lane;
}

/* Adds a span of the record's step; name, op and peer come from the record. */
static int add_span(builder *b, const mr_record *r, int lane, mr_sv name, mr_span_kind kind,
                    int64_t start, int64_t end)
{
    mr_span s = {.name = mr_timeline_name(b->t, name),
                 .lane = lane,
                 .step = r->step + 1,
                 .kind = kind,
                 .start_ns = start,
                 .end_ns = end,
                 .bytes = r->bytes};
    if (r->op.n)
        s.op = mr_timeline_name(b->t, r->op);
    s.outgoing = r->role == MR_ROLE_SEND;
    if (r->peer >= 0)
        s.peer = b->r->devices.p[r->peer].task_id + 1;
    return mr_timeline_span(b->t, s);
}

/* A value from the same device without a Send was fed by the client. A value from another device that was not
 * traced there counts as waiting altogether. */
static void add_recv(builder *b, mr_record *r)
{
    const mr_record_device *own = &b->r->devices.p[r->device], *peer = &b->r->devices.p[r->peer];
    const mr_record *send = r->sent_by >= 0 ? &b->r->all.p[r->sent_by] : NULL;
    bool fed = !send && r->device == r->peer;
    char *name = fed                             ? mr_printf("%s feeds", own->lane)
                 : own->task_id == peer->task_id ? mr_printf("%s from %s", own->lane, peer->lane)
                                                 : mr_printf("from %s", peer->task);
    int lane = shared_lane(b->t, own->task_id, name, r->start_ns);
    mr_sv what = without_edge(r->tensor);
    if (fed) /* too short for a line of their own */
        b->t->lanes.p[lane].row = mr_timeline_lane(b->t, own->task_id, mr_sv_of(own->lane));
    int64_t sent = send ? MR_MAX(r->start_ns, MR_MIN(send->made_ns, r->end_ns)) : r->start_ns;
    if (send && sent > r->start_ns)
        add_span(b, r, lane, what, MR_SPAN_WAIT, r->start_ns, sent);
    r->span = add_span(b, r, lane, what,
                       fed    ? MR_SPAN_INPUT
                       : send ? MR_SPAN_SEND
                              : MR_SPAN_WAIT,
                       sent, r->end_ns);
    mr_free(name);
}

/* Spans that wait for a queue or barrier do not occupy a thread, so they have separate lanes. */
static void add_waiting(builder *b, mr_record *r)
{
    const mr_record_device *d = &b->r->devices.p[r->device];
    char *name = mr_printf("%s queues", d->lane);
    r->span = add_span(b, r, shared_lane(b->t, d->task_id, name, r->start_ns), r->name, r->kind,
                       r->start_ns, r->end_ns);
    mr_free(name);
}

/* The span of a Send ends when its value was handed over: what its thread does after that is the receiver's
 * work and is shown there. */
static void add_working(builder *b, mr_record *r)
{
    const mr_record_device *d = &b->r->devices.p[r->device];
    int lane = mr_timeline_free_lane(b->t, d->task_id, mr_sv_of(d->lane), r->start_ns);
    mr_sv name = r->role == MR_ROLE_SEND ? without_edge(r->tensor) : r->name;
    r->span = add_span(b, r, lane, name, r->kind, r->start_ns, r->role == MR_ROLE_SEND ? r->made_ns : r->end_ns);
}

/* Working spans first, so that devices come first in each task's list of lanes. */
static void add_spans(builder *b)
{
    for (int i = 0; i < b->r->all.n; i++) {
        mr_record *r = b->by_start[i];
        if (r->role != MR_ROLE_RECV && !r->blocks)
            add_working(b, r);
    }
    for (int i = 0; i < b->r->all.n; i++) {
        mr_record *r = b->by_start[i];
        if (r->role == MR_ROLE_RECV)
            add_recv(b, r);
        else if (r->blocks)
            add_waiting(b, r);
    }
}

/* ---- arrows ---- */

/* By step, device and name: the order that find_producer searches. */
static int compare_names(const mr_record *a, const mr_record *b)
{
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    return compare_parts(a->name, b->name);
}

static int by_name(const void *a, const void *b)
{
    const mr_record *x = *(mr_record *const *)a, *y = *(mr_record *const *)b;
    int c = compare_names(x, y);
    return c ? c : compare_starts(x, y);
}

static int by_start(const void *a, const void *b)
{
    return compare_starts(*(mr_record *const *)a, *(mr_record *const *)b);
}

enum { MAX_AT_ONCE = 64 }; /* iterations of a loop that run beside each other */

/* Returns the last run of the named node on the device of `r` whose value was available when r began. If
 * there is none, the last one that began before r; NULL: none did. */
static const mr_record *find_producer(const builder *b, const mr_record *r, mr_sv name)
{
    mr_record wanted = {.name = name, .step = r->step, .device = r->device};
    int low = 0, high = b->r->all.n; /* binary search for the first run that began after r */
    while (low < high) {
        int mid = low + (high - low) / 2, c = compare_names(b->by_name[mid], &wanted);
        if (c < 0 || (c == 0 && b->by_name[mid]->start_ns <= r->start_ns && b->by_name[mid] != r))
            low = mid + 1;
        else
            high = mid;
    }
    const mr_record *found = low > 0 ? b->by_name[low - 1] : NULL;
    if (!found || found == r || compare_names(found, &wanted) != 0)
        return NULL;
    for (int i = low - 1; i >= 0 && i >= low - MAX_AT_ONCE && compare_names(b->by_name[i], &wanted) == 0; i--)
        if (b->by_name[i] != r && b->by_name[i]->made_ns <= r->start_ns)
            return b->by_name[i];
    return found;
}

/* Adds an arrow from the producer of each input, and from the Send of each Recv. Every record has a span by
 * now. */
static void add_arrows(builder *b)
{
    for (int i = 0; i < b->r->all.n; i++) {
        const mr_record *r = b->by_start[i];
        MR_ASSERT(r->span >= 0 && r->span < b->t->spans.n);
        mr_sv rest = r->inputs, input;
        while (mr_sv_cut(&rest, ',', &input)) {
            input = mr_sv_trim(input);
            if (input.n && input.p[0] == '^')
                input = (mr_sv){input.p + 1, input.n - 1};
            const char *colon = input.n ? memchr(input.p, ':', input.n) : NULL;
            if (colon)
                input.n = (size_t)(colon - input.p);
            const mr_record *p = find_producer(b, r, input);
            if (p)
                mr_timeline_arrow_at(b->t, p->span, r->span, false, p->made_ns);
        }
        const mr_record *send = r->sent_by >= 0 ? &b->r->all.p[r->sent_by] : NULL;
        if (send)
            mr_timeline_arrow_at(b->t, send->span, r->span, true, send->made_ns);
    }
}

/* The order of the steps matters: clocks are aligned before transfers are matched by time; matched transfers and
 * task ids are needed to mend causality; and all times are final before records are sorted and spans are made. */
void mr_records_build(mr_records *r, mr_timeline *out)
{
    builder b = {.r = r, .t = out};
    b.by_start = mr_new_array(mr_record *, r->all.n + 1);
    b.by_name = mr_new_array(mr_record *, r->all.n + 1);
    mr_records_align(r);
    match_transfers(r);
    add_tasks(r, out);
    mr_records_mend(r, out->tasks.n);
    mr_records_cut_idle(r);
    for (int i = 0; i < r->all.n; i++)
        b.by_start[i] = b.by_name[i] = &r->all.p[i];
    qsort(b.by_start, (size_t)r->all.n, sizeof *b.by_start, by_start);
    qsort(b.by_name, (size_t)r->all.n, sizeof *b.by_name, by_name);
    add_steps(r, out);
    add_spans(&b);
    add_arrows(&b);
    mr_free(b.by_start);
    mr_free(b.by_name);
}
