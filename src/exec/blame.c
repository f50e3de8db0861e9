/* exec/blame.c -- the critical path of a step.
 *
 * The walk starts at the span that ended last and goes back. It visits a span at most once, and time never
 * rises on it, so it ends. `now` is how far the path is known: all time from there to the end of the step has
 * been assigned. A span is assigned the time between the moment it had everything it waited for and `now`. If
 * that moment was before the span began, the time in between is waiting.
 *
 * Invariant: the parts of a step add up to its total time, because each nanosecond between start and end is
 * assigned exactly once. */
#include "exec/blame.h"

#include <stdlib.h>

#include "base/memory.h"

enum { MAX_BARRIERS = 4096, COUNTS = 20 /* a twentieth of the step */ };

typedef struct finder {
    const mr_timeline *t;
    int *first;            /* what span i needed: */
    const mr_arrow **from; /* from[first[i] .. first[i + 1]) */
    int *before;       /* the span that had its lane; -1 */
    int *seen;         /* 1 + the step on whose path it is */
    int barriers;      /* that were looked at: each costs a walk over all spans */
    mr_map parts;      /* of the step: kind, task and peer -> 1 + the place among its parts */
} finder;

/* The task on whose lane a span is. */
static int task_of(const mr_timeline *t, int span)
{
    return t->lanes.p[t->spans.p[span].lane].task;
}

/* ---- what each span waited for ---- */

/* Groups the arrows by their target with a counting sort: those of span i are from[first[i] .. first[i + 1]). */
static void index_arrows(finder *f)
{
    const mr_timeline *t = f->t;
    f->first = mr_new_array(int, t->spans.n + 2);
    f->from = mr_new_array(const mr_arrow *, t->arrows.n + 1);
    for (int i = 0; i < t->arrows.n; i++)
        f->first[t->arrows.p[i].to + 2]++;
    for (int i = 0; i < t->spans.n; i++)
        f->first[i + 2] += f->first[i + 1];
    /* first[i + 1] is where the next arrow of i goes; in the end it is where those of i + 1 begin. */
    for (int i = 0; i < t->arrows.n; i++)
        f->from[f->first[t->arrows.p[i].to + 1]++] = &t->arrows.p[i];
}

/* For qsort. Ties are broken by position, so that the result does not depend on the sort. */
static int by_lane_and_start(const void *a, const void *b)
{
    const mr_span *x = *(const mr_span *const *)a, *y = *(const mr_span *const *)b;
    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;
    return (x > y) - (x < y);
}

/* True if x kept s from running: it was before s on the same lane in the same step. Waiting does not occupy a
 * lane. */
static bool had_lane(const mr_span *x, const mr_span *s)
{
    return x->lane == s->lane && x->step == s->step && x->end_ns <= s->start_ns &&
           x->kind != MR_SPAN_WAIT && s->kind != MR_SPAN_WAIT;
}

/* For each span, finds the one that occupied its lane before it. */
static void index_lanes(finder *f)
{
    const mr_timeline *t = f->t;
    const mr_span **sorted = mr_new_array(const mr_span *, t->spans.n + 1);
    for (int i = 0; i < t->spans.n; i++)
        sorted[i] = &t->spans.p[i];
    qsort(sorted, (size_t)t->spans.n, sizeof *sorted, by_lane_and_start);
    f->before = mr_new_array(int, t->spans.n + 1);
    for (int i = 0; i < t->spans.n; i++) {
        int id = (int)(sorted[i] - t->spans.p);
        f->before[id] =
            i && had_lane(sorted[i - 1], sorted[i]) ? (int)(sorted[i - 1] - t->spans.p) : -1;
    }
    mr_free(sorted);
}

/* Of everything that span i waited for, returns what it got last, and when; -1: nothing. Spans that are on
 * the path already (`mark`) do not count. */
static int find_needed(const finder *f, int i, int mark, int64_t *since)
{
    const mr_timeline *t = f->t;
    int best = f->before[i];
    if (best >= 0 && f->seen[best] == mark)
        best = -1;
    if (best >= 0)
        *since = t->spans.p[best].end_ns;
    for (int k = f->first[i]; k < f->first[i + 1]; k++) {
        const mr_arrow *a = f->from[k];
        if (f->seen[a->from] != mark && (best < 0 || a->at_ns > *since)) {
            best = a->from;
            *since = a->at_ns;
        }
    }
    return best;
}

/* ---- the path ---- */

/* Finds or adds the part of this kind, task and peer. The map holds positions, because the vector may move. */
static mr_blame_part *part_of(finder *f, mr_blame *b, mr_span_kind kind, int task, int peer)
{
    const int numbers[] = {(int)kind, task, peer};
    mr_sv key = {(const char *)numbers, sizeof numbers};
    intptr_t place = (intptr_t)mr_map_get(&f->parts, key);
    if (!place) {
        mr_vec_push(&b->parts, (mr_blame_part){kind, task, peer, 0, -1, 0});
        place = b->parts.n;
        mr_map_put(&f->parts, key, (void *)place);
    }
    return &b->parts.p[place - 1];
}

/* Assigns time to a part; times of 0 or less are ignored. */
static void give_time(finder *f, mr_blame *b, mr_span_kind kind, int task, int peer, int span, int64_t ns)
{
    if (ns <= 0)
        return;
    mr_blame_part *p = part_of(f, b, kind, task, peer);
    p->ns += ns;
    b->kinds_ns[kind] += ns;
    if (span >= 0 && ns > p->top_ns) {
        p->top = span;
        p->top_ns = ns;
    }
}

/* ---- barriers ---- */

/* True for a span of another step that is work. The step must have the same number: tasks that meet at a
 * barrier make the same step. *home is the task whose step that is. */
static bool is_theirs(const mr_timeline *t, const mr_span *s, const mr_timeline_step *ours,
                      int *home)
{
    if (s->step == 0 || s->kind == MR_SPAN_WAIT || s->kind == MR_SPAN_SEND)
        return false;
    const mr_timeline_step *theirs = &t->steps.p[s->step - 1];
    *home = theirs->home;
    return theirs != ours && theirs->number == ours->number && theirs->home >= 0;
}

/* Returns the task that arrived last at a barrier: of the other tasks with their own steps, the one whose
 * work at home ended last within the wait. *until is when; the start of the wait if there is none (-1). */
static int find_late(const mr_timeline *t, const mr_span *wait, int64_t *until)
{
    const mr_timeline_step *ours = &t->steps.p[wait->step - 1];
    int late = -1, home;
    *until = wait->start_ns;
    for (int i = 0; i < t->spans.n; i++) {
        const mr_span *s = &t->spans.p[i];
        if (!is_theirs(t, s, ours, &home) || home == ours->home || task_of(t, i) != home)
            continue;
        if (s->end_ns > *until && s->end_ns <= wait->end_ns) {
            *until = s->end_ns;
            late = home;
        }
    }
    return late;
}

/* After all have arrived, returns the task that does most work for that step until they may continue: it
 * makes the update. */
static int find_busy(const mr_timeline *t, const mr_span *wait, int64_t from_ns)
{
    const mr_timeline_step *ours = &t->steps.p[wait->step - 1];
    int64_t *ns = mr_new_array(int64_t, t->tasks.n + 1), most = 0;
    int busy = -1, home;
    for (int i = 0; i < t->spans.n; i++) {
        const mr_span *s = &t->spans.p[i];
        int task = task_of(t, i);
        if (!is_theirs(t, s, ours, &home) || task == ours->home)
            continue;
        ns[task] += MR_MAX(0, MR_MIN(s->end_ns, wait->end_ns) - MR_MAX(s->start_ns, from_ns));
        if (ns[task] > most) {
            most = ns[task];
            busy = task;
        }
    }
    mr_free(ns);
    return busy;
}

/* Assigns a wait for which no sender is known. Its first part is blamed on the task that arrived last, the
 * second on the one that had to work after that. It counts as waiting of the step's task, wherever the
 * barrier is. Each barrier costs a walk over all spans, so their number is limited. */
static void give_barrier(finder *f, mr_blame *b, int span, int64_t from_ns, int64_t to_ns)
{
    const mr_timeline *t = f->t;
    const mr_span *s = &t->spans.p[span];
    int task = task_of(t, span), home = s->step > 0 ? t->steps.p[s->step - 1].home : -1;
    int64_t until;
    if (home < 0 || t->steps.n < 2 || f->barriers++ >= MAX_BARRIERS) {
        give_time(f, b, s->kind, task, -1, span, to_ns - from_ns);
        return;
    }
    int late = find_late(t, s, &until);
    MR_ASSERT(until >= s->start_ns);
    until = MR_MAX(from_ns, MR_MIN(until, to_ns));
    int busy = find_busy(t, s, until);
    if (busy < 0)
        busy = late; /* what it sent is in transit */
    give_time(f, b, s->kind, late >= 0 ? home : task, late, span, until - from_ns);
    give_time(f, b, s->kind, busy >= 0 ? home : task, busy, span, to_ns - until);
}

/* Assigns the time of a span to its task. A transfer is assigned to the receiver, with the sender as peer. */
static void give_span(finder *f, mr_blame *b, int span, int64_t from_ns, int64_t to_ns)
{
    const mr_span *s = &f->t->spans.p[span];
    int task = task_of(f->t, span);
    bool meets = s->kind == MR_SPAN_WAIT || s->kind == MR_SPAN_SEND;
    int peer = meets ? s->peer - 1 : -1;
    bool turned = s->kind == MR_SPAN_SEND && s->outgoing && peer >= 0;
    if (from_ns >= to_ns)
        return;
    if (s->kind == MR_SPAN_WAIT && peer < 0)
        give_barrier(f, b, span, from_ns, to_ns);
    else
        give_time(f, b, s->kind, turned ? peer : task, turned ? task : peer, span, to_ns - from_ns);
}

/* ---- the walk ---- */

/* Walks the critical path from its last span back to the start of the step, and assigns all of its time. */
static void walk_path(finder *f, mr_blame *b, int last, int64_t start_ns, int64_t end_ns)
{
    const mr_timeline *t = f->t;
    int mark = b->step + 2;
    int64_t now = MR_MAX(start_ns, MR_MIN(t->spans.p[last].end_ns, end_ns));
    give_time(f, b, MR_SPAN_WAIT, -1, -1, -1, end_ns - now);
    for (int i = last; i >= 0 && now > start_ns;) {
        const mr_span *s = &t->spans.p[i];
        MR_ASSERT(f->seen[i] != mark && now <= end_ns);
        f->seen[i] = mark;
        int64_t ready = start_ns;
        int next = find_needed(f, i, mark, &ready);
        ready = MR_MIN(ready, now);
        int64_t began = MR_MAX(start_ns, MR_MIN(s->start_ns, now));
        ready = MR_MAX(ready, start_ns);
        give_span(f, b, i, MR_MAX(began, ready), now);
        give_time(f, b, MR_SPAN_WAIT, next >= 0 ? task_of(t, i) : -1, -1, -1, began - ready);
        now = MR_MIN(ready, now);
        i = next;
    }
    give_time(f, b, MR_SPAN_WAIT, -1, -1, -1, now - start_ns);
}

/* ---- all steps ---- */

/* The largest first; ties are broken, so that the output does not depend on the order of spans. */
static int by_size(const void *a, const void *b)
{
    const mr_blame_part *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return x->task != y->task ? (x->task < y->task ? -1 : 1)
                              : (x->peer > y->peer) - (x->peer < y->peer);
}

/* A task that is waited for works longer than the one that waits. So a wait of some size names the slowest
 * task, before any work on the path does. */
static void find_slowest(const mr_timeline *t, mr_blame *b)
{
    int64_t *ns = mr_new_array(int64_t, t->tasks.n + 1);
    b->slowest = -1;
    for (int i = 0; i < b->parts.n && !b->waited; i++) {
        const mr_blame_part *p = &b->parts.p[i];
        b->waited = p->kind == MR_SPAN_WAIT && p->peer >= 0 && p->ns > b->total_ns / COUNTS;
        int who = b->waited                                            ? p->peer
                  : p->kind == MR_SPAN_WAIT || p->kind == MR_SPAN_SEND ? -1
                                                                       : p->task;
        if (who < 0)
            continue;
        ns[who] += p->ns;
        if (b->waited || ns[who] > b->slowest_ns) {
            b->slowest = who;
            b->slowest_ns = b->waited ? p->ns : ns[who];
        }
    }
    mr_free(ns);
}

/* Computes the blame of one step, or of the whole timeline (step -1), from the span that ended last. */
static void blame_one(finder *f, mr_blame *b, int step, int last)
{
    const mr_timeline *t = f->t;
    int64_t start, end;
    MR_ASSERT(f->parts.n == 0 && step < t->steps.n);
    b->step = step;
    mr_timeline_range(t, &start, &end);
    if (step >= 0) {
        start = t->steps.p[step].start_ns;
        end = t->steps.p[step].end_ns;
    }
    b->total_ns = end - start;
    b->slowest = -1;
    if (last < 0)
        return;
    walk_path(f, b, last, start, end);
    mr_map_deinit(&f->parts);
    if (b->parts.n)
        qsort(b->parts.p, (size_t)b->parts.n, sizeof *b->parts.p, by_size);
    find_slowest(t, b);
}

/* The client's time before a step: as recorded, else since the end of the step before, of the same task. */
static int64_t time_outside(const mr_timeline *t, int step)
{
    const mr_timeline_step *s = &t->steps.p[step];
    if (s->outside_ns > 0)
        return s->outside_ns;
    for (int i = 0; i < t->steps.n; i++) {
        const mr_timeline_step *o = &t->steps.p[i];
        if (s->home >= 0 && !s->what && !o->what && o->home == s->home &&
            o->number == s->number - 1 && o->end_ns <= s->start_ns)
            return s->start_ns - o->end_ns;
    }
    return 0;
}

/* By step, the span that ended last; -1: none. Position 0 is for spans without a step. */
static int *find_ends(const mr_timeline *t)
{
    int *last = mr_new_array(int, t->steps.n + 1);
    for (int i = 0; i <= t->steps.n; i++)
        last[i] = -1;
    for (int i = 0; i < t->spans.n; i++) {
        int *l = &last[t->steps.n ? t->spans.p[i].step : 0];
        if (*l < 0 || t->spans.p[i].end_ns > t->spans.p[*l].end_ns)
            *l = i;
    }
    return last;
}

/* The indexes of arrows and lanes are built once for all steps. `seen` marks the spans of each path with a
 * different number, so it need not be cleared between steps. With more than MAX_BARRIERS steps the client's time
 * between steps is not computed, because that compares all pairs of steps. */
void mr_blame_steps(const mr_timeline *t, mr_blame **out, int *n)
{
    finder f = {.t = t};
    int *last = find_ends(t);
    index_arrows(&f);
    index_lanes(&f);
    f.seen = mr_new_array(int, t->spans.n + 1);
    *n = MR_MAX(t->steps.n, 1);
    *out = mr_new_array(mr_blame, *n);
    for (int i = 0; i < *n; i++) {
        int step = t->steps.n ? i : -1;
        blame_one(&f, &(*out)[i], step, last[step + 1]);
        (*out)[i].outside_ns = step >= 0 && t->steps.n <= MAX_BARRIERS ? time_outside(t, step) : 0;
    }
    mr_free(last);
    mr_free(f.first);
    mr_free(f.from);
    mr_free(f.before);
    mr_free(f.seen);
}

void mr_blame_deinit(mr_blame *b) { mr_vec_deinit(&b->parts); }

/* By number, then by task; the order of the timeline's steps is that of the files. */
static int compare_steps(const mr_timeline *t, const mr_blame *a, const mr_blame *b)
{
    const mr_timeline_step *x = &t->steps.p[a->step], *y = &t->steps.p[b->step];
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return x->home != y->home ? (x->home < y->home ? -1 : 1)
                              : (a->step > b->step) - (a->step < b->step);
}

static int by_step(const void *a, const void *b, void *t) { return compare_steps(t, a, b); }

void mr_blame_sort(const mr_timeline *t, mr_blame *b, int n)
{
    if (t->steps.n)
        qsort_r(b, (size_t)n, sizeof *b, by_step, (void *)(uintptr_t)t);
}
