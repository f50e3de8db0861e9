/* dist/ps_client.c -- the client's side of the parameter server: what an event does to its tasks.
 *
 * Tasks begin, views and answers come, time passes; dist/ps_client_rows.c handles what that means
 * for a part in its row. An event may end tasks that others wait for. Those begin at the end of the
 * event (begin_ready), so that no loop over rows sees them change.
 *
 * Between events: `ready` is empty; n_open counts the tasks that have not ended, and `bytes` their
 * payload; a part is in its row exactly if `out` is false. */
#include "dist/ps_client_internal.h"

static const mr_psc_options defaults = {8, (size_t)256 << 20, INT64_C(10000000), INT64_C(2000000000)};

mr_psc *mr_psc_new(uint64_t client, const mr_psc_options *o)
{
    mr_psc *c = mr_new(mr_psc);
    c->client = client;
    c->o = o ? *o : defaults;
    c->o.window = c->o.window > 0 ? c->o.window : defaults.window;
    c->o.max_bytes = c->o.max_bytes > 0 ? c->o.max_bytes : defaults.max_bytes;
    c->o.retry_ns = c->o.retry_ns > 0 ? c->o.retry_ns : defaults.retry_ns;
    c->o.answer_ns = c->o.answer_ns > 0 ? c->o.answer_ns : defaults.answer_ns;
    return c;
}

/* Also frees tasks that have not ended; no DONE is reported for them. Rows exist once there is a view. */
void mr_psc_free(mr_psc *c)
{
    if (!c)
        return;
    while (c->all)
        mr_psc_task_free(c, c->all);
    for (int i = 0; c->rows && i < c->view.ranges.n; i++) {
        mr_vec_deinit(&c->rows[i].pushes);
        mr_vec_deinit(&c->rows[i].pulls);
    }
    mr_free(c->rows);
    mr_imap_deinit(&c->tasks);
    mr_vec_deinit(&c->ready);
    mr_ps_view_deinit(&c->view);
    mr_free(c);
}

/* ---- state ---- */

bool mr_psc_room(const mr_psc *c, size_t bytes)
{
    return c->bytes == 0 || (bytes <= c->o.max_bytes && c->bytes <= c->o.max_bytes - bytes);
}

bool mr_psc_ended(const mr_psc *c, int64_t id)
{
    const mr_psc_task *t = mr_psc_task_of(c, id);
    return id > 0 && id <= c->last_task && (!t || t->ended);
}

int mr_psc_open(const mr_psc *c) { return c->n_open; }
bool mr_psc_settled(const mr_psc *c) { return c->all == NULL; }
uint64_t mr_psc_epoch(const mr_psc *c) { return c->view.epoch; }
int64_t mr_psc_resent(const mr_psc *c) { return c->n_resent; }

const mr_ps_range *mr_psc_range(const mr_psc *c, int range)
{
    return range >= 0 && range < c->view.ranges.n ? &c->view.ranges.p[range] : NULL;
}

/* Looks at the task first, then at all tasks: a task that has not begun waits for others. */
uint64_t mr_psc_waits_for(const mr_psc *c, int64_t task)
{
    for (const mr_psc_task *t = c->all; t; t = t->next)
        for (int i = 0; (t->id == task || !task) && t->begun && i < t->n; i++) {
            const mr_psc_part *p = &t->parts[i];
            if (!p->out && !p->empty)
                return p->under_way ? p->to : c->view.ranges.p[p->range].chain[0].id;
        }
    return task ? mr_psc_waits_for(c, 0) : 0;
}

/* ---- beginning a task ---- */

/* Puts a part into its row. A push gets its timestamp and becomes the newest of the range. */
static void begin_part(mr_psc *c, mr_psc_part *p)
{
    mr_psc_row *r = &c->rows[p->range];
    MR_ASSERT(p->out && p->task->begun);
    p->out = false;
    p->task->n_in_rows++;
    if (!p->task->push) {
        mr_vec_push(&r->pulls, p);
        return;
    }
    p->ts = c->last_ts;
    p->prev = r->last;
    r->last = p->ts;
    mr_vec_push(&r->pushes, p);
}

/* May end and free the task: nothing to do, or only lost ranges. */
static void begin_task(mr_psc *c, mr_psc_task *t, int64_t now_ns, mr_psc_actions *out)
{
    MR_ASSERT(!t->begun && !t->ended && t->n_before == 0);
    t->begun = true;
    c->last_ts += t->push;
    t->n_waited = t->n;
    for (int i = 0; i < t->n; i++) {
        mr_psc_part *p = &t->parts[i];
        begin_part(c, p);
        if (c->view.ranges.p[p->range].lost)
            mr_psc_part_fail(c, p, MR_DATA_LOSS);
        else
            mr_psc_row_pump(c, p->range, now_ns, out);
    }
    mr_psc_task_look_at(c, t, out);
}

/* A task may end as soon as it begins and let others begin, which are appended to `ready`: hence a
 * loop over a growing list, not recursion. */
static void begin_ready(mr_psc *c, int64_t now_ns, mr_psc_actions *out)
{
    for (int i = 0; i < c->ready.n; i++) {
        mr_psc_task *t = mr_psc_task_of(c, c->ready.p[i]);
        if (t && !t->ended)
            begin_task(c, t, now_ns, out);
    }
    c->ready.n = 0;
}

/* A task that has ended, or is unknown, is ignored. */
void mr_psc_cancel(mr_psc *c, int64_t id, int64_t now_ns, mr_psc_actions *out)
{
    mr_psc_task *t = mr_psc_task_of(c, id);
    if (t)
        mr_psc_task_abandon(c, t, MR_CANCELLED, out);
    begin_ready(c, now_ns, out);
}

/* Also computes the payload's size. */
static mr_status *check_begin(const mr_psc *c, const mr_psc_piece *pieces, int n, const int64_t *after, int n_after,
                              size_t *bytes)
{
    if (c->view.epoch == 0)
        return mr_error(MR_UNAVAILABLE, "the manager has not sent a view of the parameter server yet");
    if (n < 0 || n > c->view.ranges.n || n_after < 0)
        return mr_invalid("a task has %d parts and comes after %d tasks, but there are %d ranges", n, n_after,
                          c->view.ranges.n);
    *bytes = 0;
    for (int i = 0; i < n; i++) {
        if (pieces[i].range <= (i > 0 ? pieces[i - 1].range : -1) || pieces[i].range >= c->view.ranges.n)
            return mr_invalid("a task names range %d; ranges must rise and be below %d", pieces[i].range,
                              c->view.ranges.n);
        if (!mr_size_add(*bytes, pieces[i].bytes, bytes))
            return mr_invalid("the bytes of a task's parts add up to too many");
    }
    for (int i = 0; i < n_after; i++)
        if (after[i] <= 0 || after[i] > c->last_task)
            return mr_invalid("a task should come after task %lld, which does not exist", (long long)after[i]);
    return NULL;
}

/* Puts the task into the list and the map. NULL: no memory. */
static mr_psc_task *new_task(mr_psc *c, bool push, const mr_psc_piece *pieces, int n)
{
    mr_psc_task *t = mr_try_calloc(1, sizeof *t + sizeof t->parts[0] * (size_t)n);
    if (!t)
        return NULL;
    t->id = ++c->last_task;
    t->push = push;
    t->n = n;
    t->failed_range = -1;
    for (int i = 0; i < n; i++)
        t->parts[i] = (mr_psc_part){.task = t, .piece = i, .range = pieces[i].range, .out = true};
    t->next = c->all;
    t->link = &c->all;
    if (c->all)
        c->all->link = &t->next;
    c->all = t;
    c->n_open++;
    mr_imap_put(&c->tasks, (uint64_t)t->id, t);
    return t;
}

/* The task begins at once unless a task of `after` is still open. */
mr_status *mr_psc_begin(mr_psc *c, bool push, const mr_psc_piece *pieces, int n, const int64_t *after, int n_after,
                        int64_t deadline_ns, int64_t now_ns, int64_t *id, mr_psc_actions *out)
{
    size_t bytes = 0;
    MR_TRY(check_begin(c, pieces, n, after, n_after, &bytes));
    if (push && !mr_psc_room(c, bytes))
        return mr_error(MR_RESOURCE_EXHAUSTED,
                        "pushes of %zu bytes have not ended, no room for %zu more (max_bytes %zu)", c->bytes, bytes,
                        c->o.max_bytes);
    mr_psc_task *t = new_task(c, push, pieces, n);
    if (!t)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a task of %d parts", n);
    *id = t->id;
    t->deadline_ns = deadline_ns;
    t->bytes = push ? bytes : 0;
    c->bytes += t->bytes;
    /* Tasks that have ended, or are freed already, hold up nothing. */
    for (int i = 0; i < n_after; i++) {
        mr_psc_task *b = mr_psc_task_of(c, after[i]);
        if (b && !b->ended) {
            t->n_before++;
            mr_vec_push(&b->followers, t->id);
        }
    }
    if (t->n_before == 0)
        mr_vec_push(&c->ready, t->id);
    begin_ready(c, now_ns, out);
    return NULL;
}

/* ---- views ---- */

/* The range has a new generation: it began again empty, so what was counted there is gone, and the
 * numbers start again. */
static void restart_row(mr_psc *c, int range, mr_psc_actions *out)
{
    mr_psc_row *r = &c->rows[range];
    while (r->pushes.n > 0) {
        mr_psc_part *p = mr_vec_last(&r->pushes);
        mr_psc_part_finish(p, MR_DATA_LOSS);
        mr_psc_part_take_out(c, p);
        mr_psc_task_look_at(c, p->task, out);
    }
    r->last = 0;
}

/* The range is lost, and its parts fail. Pushes stay as numbers: the range may come back as it was. */
static void lose_row(mr_psc *c, int range, mr_psc_actions *out)
{
    mr_psc_row *r = &c->rows[range];
    for (int i = r->pushes.n - 1; i >= 0; i--) {
        mr_psc_part *p = r->pushes.p[i];
        if (p->empty)
            continue;
        mr_psc_part_fail(c, p, MR_DATA_LOSS);
        mr_psc_task_look_at(c, p->task, out);
    }
    while (r->pulls.n > 0) {
        mr_psc_part *p = mr_vec_last(&r->pulls);
        mr_psc_part_fail(c, p, MR_DATA_LOSS);
        mr_psc_task_look_at(c, p->task, out);
    }
}

/* Adopts the new state of a range. Nothing that is under way counts as such any more, because
 * answers of an older epoch may never come. */
static void renew_row(mr_psc *c, int range, const mr_ps_range *old, int64_t now_ns, mr_psc_actions *out)
{
    const mr_ps_range *s = &c->view.ranges.p[range];
    mr_psc_row *r = &c->rows[range];
    if (s->epoch == old->epoch)
        return;
    for (int i = 0; i < r->pushes.n; i++)
        mr_psc_part_stop(c, r->pushes.p[i]);
    for (int i = 0; i < r->pulls.n; i++)
        mr_psc_part_stop(c, r->pulls.p[i]);
    r->retry_at_ns = r->pause_ns = 0;
    if (s->generation != old->generation && old->generation)
        restart_row(c, range, out);
    if (s->lost)
        lose_row(c, range, out);
    mr_psc_row_pump(c, range, now_ns, out);
}

/* The number of ranges never changes. Rows are made with the first view. */
mr_status *mr_psc_view(mr_psc *c, const mr_ps_view *v, int64_t now_ns, mr_psc_actions *out)
{
    MR_TRY(mr_ps_view_check(v));
    if (v->epoch <= c->view.epoch)
        return NULL;
    if (c->rows && v->ranges.n != c->view.ranges.n)
        return mr_invalid("a view has %d ranges, but the one before it had %d", v->ranges.n, c->view.ranges.n);
    if (!c->rows)
        c->rows = mr_new_array(mr_psc_row, v->ranges.n); /* mr_ps_view_check bounds the number */
    mr_ps_view old = c->view;
    c->view = (mr_ps_view){0};
    mr_ps_view_copy(&c->view, v);
    for (int i = 0; i < v->ranges.n; i++)
        renew_row(c, i, i < old.ranges.n ? &old.ranges.p[i] : &(mr_ps_range){0}, now_ns, out);
    mr_ps_view_deinit(&old);
    begin_ready(c, now_ns, out);
    return NULL;
}

/* ---- answers ---- */

/* The part counts. It leaves its row, and the next ones may be sent. */
static void take_ack(mr_psc *c, mr_psc_part *p, int64_t now_ns, mr_psc_actions *out)
{
    mr_psc_row *r = &c->rows[p->range];
    int range = p->range;
    mr_psc_part_finish(p, MR_OK);
    mr_psc_part_take_out(c, p);
    mr_psc_task_look_at(c, p->task, out);
    r->pause_ns = r->retry_at_ns = 0;
    mr_psc_row_pump(c, range, now_ns, out);
}

/* The server misses a push before this one. If that push was acknowledged, the server has forgotten
 * this client, and nothing helps. Otherwise the part is sent again, at once if it was only
 * overtaken. A server that has what it says it misses, or says so again and again, is given time,
 * because the part would go to and fro as fast as answers come. An acknowledgement of the push
 * before it ends the pause. */
static void take_gap(mr_psc *c, mr_psc_part *p, uint64_t last, int64_t now_ns, mr_psc_actions *out)
{
    int range = p->range;
    if (p->was_first && last != p->prev) {
        mr_psc_part_finish(p, MR_ABORTED);
        mr_psc_part_take_out(c, p);
        mr_psc_task_look_at(c, p->task, out);
    } else {
        mr_psc_part_set_back(c, p);
        if (last == p->prev || p->try > 2)
            mr_psc_row_pause(c, &c->rows[range], now_ns);
    }
    mr_psc_row_pump(c, range, now_ns, out);
}

/* The server cannot take the part now. If it does not know an older view than ours, a newer one is
 * on its way. */
static void try_later(mr_psc *c, mr_psc_part *p, uint64_t epoch, int64_t now_ns, mr_psc_actions *out)
{
    mr_psc_part_set_back(c, p);
    mr_psc_row_pause(c, &c->rows[p->range], now_ns);
    if (epoch >= c->view.ranges.p[p->range].epoch)
        mr_psc_ask_view(c, now_ns, out);
}

/* The part will never succeed; its number is sent without payload. If that is refused as invalid
 * too, nothing can be done, and the part leaves its row. */
static void take_error(mr_psc *c, mr_psc_part *p, mr_code code, int64_t now_ns, mr_psc_actions *out)
{
    bool hopeless = p->went_empty && code == MR_INVALID_ARGUMENT;
    mr_psc_part_fail(c, p, code);
    if (hopeless)
        mr_psc_part_take_out(c, p);
    if (!p->out) {
        mr_psc_part_set_back(c, p);
        mr_psc_row_pause(c, &c->rows[p->range], now_ns);
    }
    mr_psc_task_look_at(c, p->task, out);
}

/* An answer of an earlier try is ignored, unless it is an acknowledgement: that holds whenever it
 * comes. */
void mr_psc_answer(mr_psc *c, uint64_t from, int64_t id, int piece, int try, mr_code code, uint64_t epoch,
                   uint64_t last, int64_t now_ns, mr_psc_actions *out)
{
    mr_psc_task *t = mr_psc_task_of(c, id);
    if (!t || !t->begun || piece < 0 || piece >= t->n)
        return;
    mr_psc_part *p = &t->parts[piece];
    bool present = p->under_way && p->try == try && p->to == from;
    if (p->out || p->try == 0 || (!present && (code != MR_OK || !t->push)))
        return;
    if (code == MR_OK)
        take_ack(c, p, now_ns, out);
    else if (code == MR_ABORTED && t->push)
        take_gap(c, p, last, now_ns, out);
    else if (code == MR_UNAVAILABLE)
        try_later(c, p, epoch, now_ns, out);
    else
        take_error(c, p, code, now_ns, out);
    begin_ready(c, now_ns, out);
}

/* All parts that were under way to the server are sent again after a pause. */
void mr_psc_broken(mr_psc *c, uint64_t server, int64_t now_ns, mr_psc_actions *out)
{
    bool any = false;
    for (int range = 0; range < c->view.ranges.n; range++) {
        mr_psc_row *r = &c->rows[range];
        bool hit = false;
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < (k ? r->pulls.n : r->pushes.n); i++) {
                mr_psc_part *p = k ? r->pulls.p[i] : r->pushes.p[i];
                if (!p->under_way || p->to != server)
                    continue;
                hit = true;
                mr_psc_part_set_back(c, p);
            }
        if (hit)
            mr_psc_row_pause(c, r, now_ns);
        any |= hit;
    }
    if (any)
        mr_psc_ask_view(c, now_ns, out);
}

/* ---- time ---- */

/* Tasks that begin here have deadlines too; their ranges' timers, or the next tick, will notice. */
static void check_deadlines(mr_psc *c, int64_t now_ns, int64_t *next_ns, mr_psc_actions *out)
{
    for (mr_psc_task *t = c->all, *next; t; t = next) {
        next = t->next;
        if (t->ended)
            continue;
        if (t->deadline_ns <= now_ns)
            mr_psc_task_abandon(c, t, MR_DEADLINE_EXCEEDED, out);
        else
            *next_ns = MR_MIN(*next_ns, t->deadline_ns);
    }
    begin_ready(c, now_ns, out);
}

/* A part without an answer in time is sent again; the view may be out of date. */
static void check_overdue(mr_psc *c, mr_psc_row *r, int64_t now_ns, mr_psc_actions *out)
{
    bool late = false;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < (k ? r->pulls.n : r->pushes.n); i++) {
            mr_psc_part *p = k ? r->pulls.p[i] : r->pushes.p[i];
            if (p->under_way && p->due_ns <= now_ns) {
                late = true;
                mr_psc_part_set_back(c, p);
            }
        }
    if (late)
        mr_psc_ask_view(c, now_ns, out);
}

/* When the row needs the next tick: its first overdue part, or the end of its pause. */
static int64_t next_of(const mr_psc_row *r, int64_t now_ns)
{
    int64_t next_ns = INT64_MAX;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < (k ? r->pulls.n : r->pushes.n); i++) {
            const mr_psc_part *p = k ? r->pulls.p[i] : r->pushes.p[i];
            next_ns = p->under_way ? MR_MIN(next_ns, p->due_ns) : next_ns;
        }
    return mr_psc_row_has_more(r) && r->retry_at_ns > now_ns ? MR_MIN(next_ns, r->retry_at_ns) : next_ns;
}

int64_t mr_psc_tick(mr_psc *c, int64_t now_ns, mr_psc_actions *out)
{
    int64_t next_ns = INT64_MAX;
    check_deadlines(c, now_ns, &next_ns, out);
    for (int range = 0; range < c->view.ranges.n; range++) {
        check_overdue(c, &c->rows[range], now_ns, out);
        mr_psc_row_pump(c, range, now_ns, out);
        next_ns = MR_MIN(next_ns, next_of(&c->rows[range], now_ns));
    }
    return next_ns;
}
