/* exec/blame_text.c -- the blame of a step as text that tells a person what to change.
 *
 * Shares below half a percent are left out, and of each kind at most PARTS_TOLD parts are named. The first line
 * gives the shares of the critical path; the indented lines below name the slowest task, the longest transfer and
 * the time outside of steps. */
#include "base/memory.h"
#include "exec/blame.h"

enum { PARTS_TOLD = 3 };

static const char *task_name(const mr_timeline *t, int task)
{
    return task < 0 ? "?" : t->tasks.p[task];
}

/* 0 if the total is not positive, so that an empty step divides by nothing. */
static double percent_of(int64_t ns, int64_t total)
{
    return total > 0 ? 100.0 * (double)ns / (double)total : 0;
}

/* In decimal units, as network rates are given. */
static void put_bytes(mr_str *out, int64_t bytes)
{
    double v = (double)bytes;
    if (v >= 999.5e6)
        mr_str_printf(out, "%.1f GB", v / 1e9);
    else if (v >= 999.5e3)
        mr_str_printf(out, "%.1f MB", v / 1e6);
    else if (v >= 1e3)
        mr_str_printf(out, "%.1f kB", v / 1e3);
    else
        mr_str_printf(out, "%lld bytes", (long long)bytes);
}

/* Writes "worker:1", "ps:0 -> worker:1", "worker:1 for worker:0" or "worker:1 between nodes". */
static void put_who(const mr_timeline *t, const mr_blame_part *p, mr_str *out)
{
    if (p->task < 0)
        mr_str_appendz(out, "starting and answering");
    else if (p->kind == MR_SPAN_SEND && p->peer >= 0)
        mr_str_printf(out, "%s -> %s", task_name(t, p->peer), task_name(t, p->task));
    else if (p->kind == MR_SPAN_WAIT && p->peer >= 0)
        mr_str_printf(out, "%s for %s", task_name(t, p->task), task_name(t, p->peer));
    else if (p->kind == MR_SPAN_WAIT && p->top < 0)
        mr_str_printf(out, "%s between nodes", task_name(t, p->task));
    else if (p->kind == MR_SPAN_WAIT)
        mr_str_printf(out, "%s in %s", task_name(t, p->task), t->spans.p[p->top].name);
    else
        mr_str_appendz(out, task_name(t, p->task));
}

/* Writes "compute 62 % (worker:1 50 %, ps:0 12 %)". */
static void put_kind(const mr_timeline *t, const mr_blame *b, mr_span_kind kind, mr_str *out)
{
    int n = 0, told = 0;
    for (int i = 0; i < b->parts.n; i++)
        n += b->parts.p[i].kind == kind && percent_of(b->parts.p[i].ns, b->total_ns) >= 0.5;
    mr_str_printf(out, "%s %.0f %%", mr_span_kind_name(kind),
                  percent_of(b->kinds_ns[kind], b->total_ns));
    for (int i = 0; i < b->parts.n && told < MR_MIN(n, PARTS_TOLD); i++) {
        const mr_blame_part *p = &b->parts.p[i];
        if (p->kind != kind)
            continue;
        mr_str_appendz(out, told++ ? ", " : " (");
        put_who(t, p, out);
        if (n > 1)
            mr_str_printf(out, " %.0f %%", percent_of(p->ns, b->total_ns));
    }
    if (told)
        mr_str_appendz(out, n > PARTS_TOLD ? ", ...)" : ")");
}

/* Writes the kinds by size, the largest first. */
static void put_kinds(const mr_timeline *t, const mr_blame *b, mr_str *out)
{
    bool done[MR_SPAN_KINDS] = {0};
    for (int i = 0; i < MR_SPAN_KINDS; i++) {
        int most = -1;
        for (int k = 0; k < MR_SPAN_KINDS; k++)
            if (!done[k] && (most < 0 || b->kinds_ns[k] > b->kinds_ns[most]))
                most = k;
        done[most] = true;
        if (percent_of(b->kinds_ns[most], b->total_ns) < 0.5)
            break;
        mr_str_appendz(out, i ? ", " : " = ");
        put_kind(t, b, (mr_span_kind)most, out);
    }
}

/* The largest part that is a transfer, or (send false) work of the task; -1: of any task. Parts are sorted by
 * size. */
static const mr_blame_part *largest_part(const mr_blame *b, bool send, int task)
{
    for (int i = 0; i < b->parts.n; i++) {
        const mr_blame_part *p = &b->parts.p[i];
        if (p->top >= 0 && (p->kind == MR_SPAN_SEND) == send && p->kind != MR_SPAN_WAIT &&
            (task < 0 || p->task == task))
            return p;
    }
    return NULL;
}

/* Writes "fc1/MatMul (12.1 ms)", with the op if the name does not contain it. */
static void put_node(const mr_span *s, int64_t ns, mr_str *out)
{
    mr_str_printf(out, "%s (", s->name);
    if (s->op && !strstr(s->name, s->op))
        mr_str_printf(out, "%s, ", s->op);
    mr_put_duration(out, (double)ns);
    mr_str_appendc(out, ')');
}

/* Names the slowest task and its longest node on the path. */
static void put_slowest(const mr_timeline *t, const mr_blame *b, mr_str *out)
{
    MR_ASSERT(b->slowest >= 0 && b->slowest < t->tasks.n);
    const mr_blame_part *p = largest_part(b, false, b->slowest);
    mr_str_printf(out, "    slowest task: %s, %s", task_name(t, b->slowest),
                  b->waited ? "waited for " : "");
    mr_put_duration(out, (double)b->slowest_ns);
    mr_str_appendz(out, b->waited ? "" : " of the critical path");
    if (p) {
        mr_str_appendz(out, "; longest node: ");
        put_node(&t->spans.p[p->top], p->top_ns, out);
    }
    mr_str_appendc(out, '\n');
}

/* Names the transfer that took longest, unless it is shorter than one percent of the step. */
static void put_edge(const mr_timeline *t, const mr_blame *b, mr_str *out)
{
    const mr_blame_part *p = largest_part(b, true, -1);
    if (!p || percent_of(p->top_ns, b->total_ns) < 1)
        return;
    const mr_span *s = &t->spans.p[p->top];
    mr_str_printf(out, "    costliest edge: %s", s->name);
    if (p->peer >= 0)
        mr_str_printf(out, ", %s -> %s", task_name(t, p->peer), task_name(t, p->task));
    if (s->bytes) {
        mr_str_appendz(out, ", ");
        put_bytes(out, s->bytes);
    }
    mr_str_appendz(out, ", ");
    mr_put_duration(out, (double)p->top_ns);
    mr_str_appendc(out, '\n');
}

/* Appends the lines of one step. A timeline without steps (step -1) has no heading. */
void mr_blame_text(const mr_timeline *t, const mr_blame *b, mr_str *out)
{
    if (b->step >= 0) {
        const mr_timeline_step *s = &t->steps.p[b->step];
        mr_str_printf(out, "%s %lld", s->what ? s->what : "step", (long long)s->number);
        if (s->home >= 0 && t->tasks.n > 1)
            mr_str_printf(out, " of %s", task_name(t, s->home));
        mr_str_appendz(out, ": ");
    }
    mr_put_duration(out, (double)b->total_ns);
    put_kinds(t, b, out);
    mr_str_appendc(out, '\n');
    if (b->slowest >= 0)
        put_slowest(t, b, out);
    put_edge(t, b, out);
    if (percent_of(b->outside_ns, b->total_ns) >= 1) {
        mr_str_appendz(out, "    before it: ");
        mr_put_duration(out, (double)b->outside_ns);
        mr_str_appendz(out, " outside of steps (such as reading input)\n");
    }
}

/* ---- all steps ---- */

/* False for updates and other work that is recorded beside the steps. */
static bool is_step(const mr_timeline *t, const mr_blame *b)
{
    return b->step < 0 || !t->steps.p[b->step].what;
}

/* Names the task that was the slowest in most steps. */
static void put_slow_tasks(const mr_timeline *t, const mr_blame *b, int n, int n_steps, mr_str *out)
{
    int *times = mr_new_array(int, t->tasks.n + 1), most = 0;
    for (int i = 0; i < n; i++)
        if (b[i].slowest >= 0 && is_step(t, &b[i]))
            times[b[i].slowest]++;
    for (int i = 1; i < t->tasks.n; i++)
        if (times[i] > times[most])
            most = i;
    if (t->tasks.n && times[most])
        mr_str_printf(out, "    slowest task: %s, in %d of %d steps\n", t->tasks.p[most],
                      times[most], n_steps);
    mr_free(times);
}

/* What runs beside the steps, such as the chief's updates, is not counted: steps that wait for it show that. */
void mr_blame_summary(const mr_timeline *t, const mr_blame *b, int n, mr_str *out)
{
    int64_t total = 0, outside = 0, kinds[MR_SPAN_KINDS] = {0};
    int n_steps = 0;
    for (int i = 0; i < n; i++)
        n_steps += is_step(t, &b[i]);
    if (n_steps < 2)
        return;
    /* Each share is divided before it is added, so that the sums cannot overflow. */
    for (int i = 0; i < n; i++) {
        if (!is_step(t, &b[i]))
            continue;
        total += b[i].total_ns / n_steps;
        outside += b[i].outside_ns / n_steps;
        for (int k = 0; k < MR_SPAN_KINDS; k++)
            kinds[k] += b[i].kinds_ns[k] / n_steps;
    }
    mr_str_printf(out, "%d steps, on average ", n_steps);
    mr_put_duration(out, (double)total);
    for (int k = 0, told = 0; k < MR_SPAN_KINDS; k++)
        if (percent_of(kinds[k], total) >= 0.5)
            mr_str_printf(out, "%s%s %.0f %%", told++ ? ", " : " = ",
                          mr_span_kind_name((mr_span_kind)k), percent_of(kinds[k], total));
    mr_str_appendc(out, '\n');
    put_slow_tasks(t, b, n, n_steps, out);
    if (percent_of(outside, total) >= 1) {
        mr_str_appendz(out, "    between steps: ");
        mr_put_duration(out, (double)outside);
        mr_str_appendz(out, " (such as reading input)\n");
    }
}
