/* exec/trace_align.c -- shifts traced steps to one clock.
 *
 * Every step was traced by the clock of its master's task (its home). Two homes know the offset between their
 * clocks if both measured the clock of the same third task. Starting from the first home, all others are
 * reached along the path with the least error (Bellman-Ford, with a limited number of rounds). If a value
 * would then still be received before it was sent, the task that received it is shifted.
 *
 * Times come from files, so sums are saturated: nothing here overflows, however wrong the input is. */
#include <stdlib.h>

#include "base/memory.h"
#include "exec/trace_records.h"

/* ---- one clock ---- */

typedef struct clocks {
    mr_map ids;             /* task's full name -> index + 1 */
    MR_VEC(int64_t) offset; /* minus the reference's */
    MR_VEC(double) error;   /* < 0: not known */
} clocks;

/* Finds or adds the clock of a task and returns its index. */
static int clock_of(clocks *c, mr_sv task)
{
    int id = (int)(intptr_t)mr_map_get(&c->ids, task) - 1;
    if (id >= 0)
        return id;
    mr_vec_push(&c->offset, 0);
    mr_vec_push(&c->error, -1);
    mr_map_put(&c->ids, task, (void *)(intptr_t)c->offset.n);
    return c->offset.n - 1;
}

/* Adds, and saturates on overflow. */
static int64_t add_times(int64_t a, int64_t b)
{
    int64_t r;
    return mr_i64_add(a, b, &r) ? r : a < 0 ? INT64_MIN / 2 : INT64_MAX / 2;
}

/* `to` is reachable through `from`: returns true if that is better than what was known. Each hop costs one
 * more, so that a cycle never improves anything. */
static bool relax_clock(clocks *c, int from, int to, int64_t offset, double error)
{
    if (c->error.p[from] < 0)
        return false;
    double by_way = c->error.p[from] + error + 1;
    if (c->error.p[to] >= 0 && c->error.p[to] <= by_way)
        return false;
    c->error.p[to] = by_way;
    c->offset.p[to] = add_times(c->offset.p[from], offset);
    return true;
}

/* Paths are short: from a home to a shared task to the next home. */
enum { MAX_ROUNDS = 16 };

/* Computes the offset of every reachable clock to the reference, which is the first home of all. */
static void find_clocks(mr_records *r, clocks *c)
{
    bool better = true;
    for (int round = 0; round < MAX_ROUNDS && better; round++) {
        better = false;
        for (int i = 0; i < r->steps.n; i++) {
            const mr_record_step *s = &r->steps.p[i];
            if (!s->info.home.n)
                continue;
            int home = clock_of(c, s->info.home);
            c->error.p[0] = 0;
            for (int k = 0; k < s->clocks.n; k++) {
                const mr_trace_clock *v = &s->clocks.p[k];
                int task = clock_of(c, v->task);
                double error = v->error_ns < 0 ? 0 : (double)v->error_ns;
                better |= relax_clock(c, home, task, v->offset_ns, error);
                better |= relax_clock(c, task, home, -v->offset_ns, error);
            }
        }
    }
}

/* Sets shift_ns of each step; a step whose clock is unknown is not shifted. */
static void set_clocks(mr_records *r)
{
    clocks c = {.ids.borrow_keys = true};
    find_clocks(r, &c);
    for (int i = 0; i < r->steps.n; i++) {
        mr_record_step *s = &r->steps.p[i];
        int home = s->info.home.n ? clock_of(&c, s->info.home) : -1;
        s->shift_ns = home >= 0 && c.error.p[home] >= 0 ? -c.offset.p[home] : 0;
    }
    mr_map_deinit(&c.ids);
    mr_vec_deinit(&c.offset);
    mr_vec_deinit(&c.error);
}

/* ---- when steps were ---- */

/* Shifts a time and limits the result, so that later differences cannot overflow. */
static int64_t shift_time(int64_t ns, int64_t shift)
{
    int64_t v = add_times(ns, shift);
    return MR_MAX(-INT64_MAX / 4, MR_MIN(v, INT64_MAX / 4));
}

/* Shifts the step and its records. A start or end of 0 is unknown and stays so. */
static void move_step(mr_records *r, mr_record_step *s, int64_t by)
{
    if (s->info.start_ns)
        s->info.start_ns = shift_time(s->info.start_ns, by);
    if (s->info.end_ns)
        s->info.end_ns = shift_time(s->info.end_ns, by);
    for (int i = s->first; i < s->first + s->n; i++) {
        r->all.p[i].start_ns = shift_time(r->all.p[i].start_ns, by);
        r->all.p[i].made_ns = shift_time(r->all.p[i].made_ns, by);
        r->all.p[i].end_ns = shift_time(r->all.p[i].end_ns, by);
    }
}

/* Start and end of a step, from the master's times and all its records; both 0 if there are none. */
static void set_range(const mr_records *r, mr_record_step *s)
{
    bool told = s->info.start_ns && s->info.end_ns > s->info.start_ns;
    int64_t from = told ? s->info.start_ns : INT64_MAX, to = told ? s->info.end_ns : INT64_MIN;
    for (int i = s->first; i < s->first + s->n; i++) {
        from = MR_MIN(from, r->all.p[i].start_ns);
        to = MR_MAX(to, r->all.p[i].end_ns);
    }
    s->info.start_ns = from <= to ? from : 0;
    s->info.end_ns = from <= to ? to : 0;
}

/* The range of each step is set after its records are shifted, so it is in the common clock. */
void mr_records_align(mr_records *r)
{
    set_clocks(r);
    for (int i = 0; i < r->steps.n; i++) {
        move_step(r, &r->steps.p[i], r->steps.p[i].shift_ns);
        set_range(r, &r->steps.p[i]);
    }
}

/* For qsort; equal starts keep the order of the files. */
static int by_begin(const void *a, const void *b)
{
    const mr_record_step *x = *(mr_record_step *const *)a, *y = *(mr_record_step *const *)b;
    if (x->info.start_ns != y->info.start_ns)
        return x->info.start_ns < y->info.start_ns ? -1 : 1;
    return (x > y) - (x < y);
}

/* True if the step before it, of the same worker, was traced too: then the time between the two is of
 * interest. */
static bool follows_traced(const mr_records *r, const mr_record_step *s)
{
    for (int i = 0; s->info.number > 0 && i < r->steps.n; i++) {
        const mr_record_step *o = &r->steps.p[i];
        if (!o->info.what.n && o->info.number == s->info.number - 1 &&
            mr_sv_eq(o->info.home, s->info.home))
            return true;
    }
    return false;
}

/* If nothing was traced for longer than the longest step, a tenth of a step is left of the gap. Later steps
 * move with it. */
void mr_records_cut_idle(mr_records *r)
{
    mr_record_step **sorted = mr_new_array(mr_record_step *, r->steps.n + 1);
    int64_t longest = 0, end = 0, moved = 0;
    for (int i = 0; i < r->steps.n; i++) {
        sorted[i] = &r->steps.p[i];
        longest = MR_MAX(longest, sorted[i]->info.end_ns - sorted[i]->info.start_ns);
    }
    qsort(sorted, (size_t)r->steps.n, sizeof *sorted, by_begin);
    for (int i = 0; i < r->steps.n; i++) {
        mr_record_step *s = sorted[i];
        int64_t gap = s->info.start_ns + moved - end;
        if (i && gap > longest && !follows_traced(r, s))
            moved -= gap - longest / 10;
        move_step(r, s, moved);
        end = i ? MR_MAX(end, s->info.end_ns) : s->info.end_ns;
    }
    mr_free(sorted);
}

/* ---- causality ---- */

#define MAX_MOVE (INT64_MAX / 64) /* some four years */

/* By how much the task of a Recv must be shifted so that it does not end before its value was sent. */
static int64_t too_early(const mr_records *r, const mr_record *recv, const int64_t *moved)
{
    MR_ASSERT(recv->sent_by >= 0 && recv->sent_by < r->all.n);
    const mr_record *send = &r->all.p[recv->sent_by];
    int from = r->devices.p[send->device].task_id, to = r->devices.p[recv->device].task_id;
    return from == to ? 0 : send->made_ns + moved[from] - recv->end_ns - moved[to];
}

/* Shifts tasks within one step so that nothing is received before it was sent. Measured offsets are slightly
 * wrong, and a foreign trace may have none. Each round shifts what is too early; values that go round in a
 * contradictory cycle are left as they are after MAX_ROUNDS. */
static void respect_causes(mr_records *r, const mr_record_step *s, int n_tasks, int64_t *moved)
{
    bool better = true;
    memset(moved, 0, sizeof *moved * (size_t)n_tasks);
    for (int round = 0; round < MAX_ROUNDS && better; round++) {
        better = false;
        for (int i = s->first; i < s->first + s->n; i++) {
            const mr_record *recv = &r->all.p[i];
            int64_t by = recv->sent_by >= 0 ? too_early(r, recv, moved) : 0;
            int64_t *mine = &moved[r->devices.p[recv->device].task_id];
            if (by <= 0 || by > MAX_MOVE || *mine > MAX_MOVE) /* nonsense could grow without end */
                continue;
            *mine += by;
            better = true;
        }
    }
    for (int i = s->first; i < s->first + s->n; i++) {
        mr_record *v = &r->all.p[i];
        MR_ASSERT(r->devices.p[v->device].task_id >= 0 && r->devices.p[v->device].task_id < n_tasks);
        v->start_ns = shift_time(v->start_ns, moved[r->devices.p[v->device].task_id]);
        v->made_ns = shift_time(v->made_ns, moved[r->devices.p[v->device].task_id]);
        v->end_ns = shift_time(v->end_ns, moved[r->devices.p[v->device].task_id]);
    }
}

/* The ranges of the steps are set again, because their records have moved. */
void mr_records_mend(mr_records *r, int n_tasks)
{
    int64_t *moved = mr_new_array(int64_t, n_tasks + 1);
    for (int i = 0; i < r->steps.n; i++) {
        respect_causes(r, &r->steps.p[i], n_tasks, moved);
        set_range(r, &r->steps.p[i]);
    }
    mr_free(moved);
}
