/* exec/timeline_chrome.c -- a timeline as a Chrome trace.
 *
 * A task is a process, a lane a thread. An arrow starts when the value was available and ends where the other
 * span could use it. Both points are inside of their spans; otherwise a viewer would not know what they
 * belong to. */
#include "base/memory.h"
#include "exec/timeline.h"

/* a - b; wraps on overflow, because the times of a file may be nonsense. */
static int64_t subtract_ns(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

/* Processes and threads are numbered from 1, because process 0 holds the steps. */
static void put_names(const mr_timeline *t, mr_chrome *c)
{
    for (int i = 0; i < t->tasks.n; i++)
        mr_chrome_process(c, i + 1, mr_sv_of(t->tasks.p[i]), i);
    for (int i = 0; i < t->lanes.n; i++)
        mr_chrome_thread(c, t->lanes.p[i].task + 1, i + 1, mr_sv_of(t->lanes.p[i].name), i);
}

/* At most four args: op, bytes, peer and step. */
static void put_span(const mr_timeline *t, mr_chrome *c, const mr_span *s, int64_t origin)
{
    mr_chrome_arg args[4];
    int n = 0;
    if (s->op)
        args[n++] = (mr_chrome_arg){"op", mr_sv_of(s->op), 0};
    if (s->bytes)
        args[n++] = (mr_chrome_arg){"bytes", {NULL, 0}, (double)s->bytes};
    if (s->peer > 0)
        args[n++] = (mr_chrome_arg){s->kind == MR_SPAN_WAIT ? "waits for"
                                    : s->outgoing           ? "to"
                                                            : "from",
                                    mr_sv_of(t->tasks.p[s->peer - 1]), 0};
    if (s->step > 0)
        args[n++] = (mr_chrome_arg){"step", {NULL, 0}, (double)t->steps.p[s->step - 1].number};
    mr_chrome_span(c, t->lanes.p[s->lane].task + 1, s->lane + 1, mr_sv_of(s->name),
                   mr_sv_of(mr_span_kind_name(s->kind)), subtract_ns(s->start_ns, origin),
                   subtract_ns(s->end_ns, s->start_ns), args, n);
}

/* The nearest time inside the span: not at its end, where the span is over. */
static int64_t clamp_to_span(const mr_span *s, int64_t at_ns)
{
    int64_t last = s->end_ns > s->start_ns ? s->end_ns - 1 : s->end_ns;
    return MR_MAX(s->start_ns, MR_MIN(at_ns, last));
}

/* A point of the Chrome trace on the lane of a span. */
static mr_chrome_point point_on_span(const mr_timeline *t, const mr_span *s, int64_t at_ns, int64_t origin)
{
    return (mr_chrome_point){t->lanes.p[s->lane].task + 1, s->lane + 1, subtract_ns(at_ns, origin)};
}

/* Draws the arrows that do not point back in time. */
static void put_arrows(const mr_timeline *t, mr_chrome *c, int64_t origin)
{
    for (int i = 0; i < t->arrows.n; i++) {
        const mr_arrow *a = &t->arrows.p[i];
        const mr_span *from = &t->spans.p[a->from], *to = &t->spans.p[a->to];
        int64_t arrives = clamp_to_span(to, a->at_ns), leaves = clamp_to_span(from, MR_MIN(a->at_ns, arrives));
        if (a->drawn && leaves <= arrives)
            mr_chrome_arrow(c, mr_sv_of(to->name), point_on_span(t, from, leaves, origin),
                            point_on_span(t, to, arrives, origin));
    }
}

/* Steps are above all tasks, in process 0, with one thread for each task whose steps they are. What runs
 * beside the steps of a task (updates) has a second thread, because the two overlap. */
static int step_thread(const mr_timeline_step *s)
{
    return 2 * (s->home + 1) + (s->what != NULL) + 1;
}

/* "worker:1", or "worker:1 update" for work beside the steps. */
static void name_step_thread(const mr_timeline *t, mr_chrome *c, const mr_timeline_step *s)
{
    mr_str name = {0};
    mr_str_printf(&name, "%s%s%s", s->home < 0 ? "steps" : t->tasks.p[s->home], s->what ? " " : "",
                  s->what ? s->what : "");
    mr_chrome_thread(c, 0, step_thread(s), mr_str_view(&name), step_thread(s));
    mr_str_deinit(&name);
}

/* Writes the steps as spans of process 0, and names each of its threads when it is first used. */
static void put_steps(const mr_timeline *t, mr_chrome *c, int64_t origin)
{
    mr_str name = {0};
    bool *named = mr_new_array(bool, 2 * (size_t)t->tasks.n + 4);
    if (t->steps.n)
        mr_chrome_process(c, 0, MR_SV("steps"), -1);
    for (int i = 0; i < t->steps.n; i++) {
        const mr_timeline_step *s = &t->steps.p[i];
        MR_ASSERT(s->home >= -1 && s->home < t->tasks.n);
        if (!named[step_thread(s)])
            name_step_thread(t, c, s);
        named[step_thread(s)] = true;
        mr_str_clear(&name);
        mr_str_printf(&name, "%s %lld", s->what ? s->what : "step", (long long)s->number);
        mr_chrome_span(c, 0, step_thread(s), mr_str_view(&name), MR_SV("step"),
                       subtract_ns(s->start_ns, origin), subtract_ns(s->end_ns, s->start_ns), NULL, 0);
    }
    mr_free(named);
    mr_str_deinit(&name);
}

/* The origin of the trace: everything is written relative to it. */
static int64_t first_time(const mr_timeline *t)
{
    int64_t start, end;
    mr_timeline_range(t, &start, &end);
    for (int i = 0; i < t->steps.n; i++)
        start = MR_MIN(start, t->steps.p[i].start_ns);
    return start;
}

/* Events may be in any order; viewers sort them. Times count from the first one, so that they stay readable. */
void mr_timeline_to_chrome(const mr_timeline *t, mr_chrome *c)
{
    int64_t origin = first_time(t);
    put_steps(t, c, origin);
    put_names(t, c);
    for (int i = 0; i < t->spans.n; i++)
        put_span(t, c, &t->spans.p[i], origin);
    put_arrows(t, c, origin);
    for (int i = 0; i < t->marks.n; i++) {
        const mr_mark *m = &t->marks.p[i];
        mr_chrome_instant(c, t->lanes.p[m->lane].task + 1, m->lane + 1, mr_sv_of(m->text),
                          subtract_ns(m->at_ns, origin));
    }
    for (int i = 0; i < t->samples.n; i++) {
        const mr_sample *s = &t->samples.p[i];
        mr_chrome_counter(c, s->task + 1, mr_sv_of(s->name), subtract_ns(s->at_ns, origin), s->value);
    }
}

/* The first error of the writer is returned at the end. */
mr_status *mr_timeline_write_chrome(const mr_timeline *t, const char *path)
{
    mr_chrome c;
    MR_TRY(mr_chrome_open(&c, path));
    mr_timeline_to_chrome(t, &c);
    return mr_chrome_end(&c);
}
