/* dist/ps_client.c -- the client's side of the parameter server.
 *
 * Each slot has a row of parts of pushes, in the order of their timestamps, that were not acknowledged.  Parts that
 * are under way come first in it, unless answers overtake each other; a part that is to be sent again is set back to
 * waiting together with all behind it, so that they arrive in order.  Pulls of a slot are in a list of their own.
 *
 * A task lives until the last of its parts is out of its row, which may be after its end.  Then its payload is gone,
 * and its parts are empty ones. */
#include "dist/ps_client.h"

#include "base/map.h"

static const mr_psc_options defaults = {8, (size_t)256 << 20, INT64_C(10000000), INT64_C(2000000000)};
enum { LONGEST_PAUSE = 16 }; /* times retry_ns */

typedef struct task task;

typedef struct part {
    task *task;
    int piece, slot, try;
    bool under_way;
    bool was_first; /* when it was sent, none was before it in the row: the server has all it needs */
    bool empty;     /* without payload, and the task does not wait for it */
    bool went_empty; /* the last time it was sent */
    bool out;              /* of its row: done with */
    uint64_t to, ts, prev;
    int64_t due_ns; /* an answer is expected until then */
} part;

struct task {
    int64_t id, deadline_ns;
    bool push, begun, ended;
    mr_code code;
    int failed_slot;
    int n, n_waited, n_in_rows, n_before; /* parts; those the end waits for; those not done with; tasks it comes after */
    size_t bytes;
    MR_VEC(int64_t) followers;
    task *next, **link; /* of all tasks */
    part parts[];
};

typedef struct row {
    MR_VEC(part *) pushes, pulls;
    uint64_t last; /* timestamp of the last push that was put here, in this generation */
    int n_under_way;
    int64_t retry_at_ns, pause_ns;
} row;

struct mr_psc {
    uint64_t client;
    mr_psc_options o;
    mr_ps_view view;
    row *rows;
    mr_imap tasks;
    task *all;
    MR_VEC(int64_t) ready; /* tasks whose turn has come: begun when the event at hand has been dealt with */
    int n_open;
    int64_t last_task;
    uint64_t last_ts;
    size_t bytes;
    int64_t ask_at_ns, n_resent;
};

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

static void free_task(mr_psc *c, task *t)
{
    mr_imap_remove(&c->tasks, (uint64_t)t->id);
    *t->link = t->next;
    if (t->next)
        t->next->link = t->link;
    mr_vec_deinit(&t->followers);
    mr_free(t);
}

void mr_psc_free(mr_psc *c)
{
    if (!c)
        return;
    while (c->all)
        free_task(c, c->all);
    for (int i = 0; c->rows && i < c->view.slots.n; i++) {
        mr_vec_deinit(&c->rows[i].pushes);
        mr_vec_deinit(&c->rows[i].pulls);
    }
    mr_free(c->rows);
    mr_imap_deinit(&c->tasks);
    mr_vec_deinit(&c->ready);
    mr_ps_view_deinit(&c->view);
    mr_free(c);
}

/* ---- what is known ---- */

static task *task_of(const mr_psc *c, int64_t id) { return mr_imap_get(&c->tasks, (uint64_t)id); }

bool mr_psc_room(const mr_psc *c, size_t bytes)
{
    return c->bytes == 0 || (bytes <= c->o.max_bytes && c->bytes <= c->o.max_bytes - bytes);
}

bool mr_psc_ended(const mr_psc *c, int64_t id)
{
    const task *t = task_of(c, id);
    return id > 0 && id <= c->last_task && (!t || t->ended);
}

int mr_psc_open(const mr_psc *c) { return c->n_open; }
bool mr_psc_settled(const mr_psc *c) { return c->all == NULL; }
uint64_t mr_psc_epoch(const mr_psc *c) { return c->view.epoch; }
int64_t mr_psc_resent(const mr_psc *c) { return c->n_resent; }

const mr_ps_slot *mr_psc_slot(const mr_psc *c, int slot)
{
    return slot >= 0 && slot < c->view.slots.n ? &c->view.slots.p[slot] : NULL;
}

static void ask_view(mr_psc *c, int64_t now_ns, mr_psc_actions *out)
{
    if (now_ns < c->ask_at_ns)
        return;
    c->ask_at_ns = now_ns + c->o.retry_ns;
    mr_vec_push(out, (mr_psc_action){.what = MR_PSC_ASK_VIEW});
}

/* ---- sending ---- */

static void send(mr_psc *c, part *p, int64_t now_ns, mr_psc_actions *out)
{
    const mr_ps_slot *s = &c->view.slots.p[p->slot];
    row *r = &c->rows[p->slot];
    c->n_resent += p->try > 0;
    p->try++;
    p->under_way = true;
    p->was_first = p->task->push && r->pushes.p[0] == p;
    p->went_empty = p->empty;
    p->to = mr_ps_slot_head(s);
    p->due_ns = now_ns + c->o.answer_ns;
    r->n_under_way += p->task->push;
    mr_vec_push(out, (mr_psc_action){.what = p->task->push ? MR_PSC_PUSH : MR_PSC_PULL,
                                     .empty = p->empty,
                                     .slot = p->slot,
                                     .piece = p->piece,
                                     .try = p->try,
                                     .task = p->task->id,
                                     .to = p->to,
                                     .ts = p->ts,
                                     .prev = p->prev,
                                     .epoch = s->epoch,
                                     .generation = s->generation});
}

static bool has_something_to_send(const row *r)
{
    for (int i = 0; i < r->pulls.n; i++)
        if (!r->pulls.p[i]->under_way)
            return true;
    return r->n_under_way < r->pushes.n;
}

/* Nobody can be asked now: again after a pause that grows. */
static void pause_row(mr_psc *c, row *r, int64_t now_ns)
{
    r->pause_ns = r->pause_ns ? MR_MIN(r->pause_ns * 2, c->o.retry_ns * LONGEST_PAUSE) : c->o.retry_ns;
    r->retry_at_ns = now_ns + r->pause_ns;
}

/* Sends what may be sent now.  A slot that drains takes no pushes: the next view is near. */
static void pump(mr_psc *c, int slot, int64_t now_ns, mr_psc_actions *out)
{
    const mr_ps_slot *s = &c->view.slots.p[slot];
    row *r = &c->rows[slot];
    if (now_ns < r->retry_at_ns || !has_something_to_send(r))
        return;
    if (!mr_ps_slot_head(s)) {
        pause_row(c, r, now_ns);
        ask_view(c, now_ns, out);
        return;
    }
    for (int i = 0; i < r->pulls.n; i++)
        if (!r->pulls.p[i]->under_way)
            send(c, r->pulls.p[i], now_ns, out);
    for (int i = 0; !s->draining && i < r->pushes.n && r->n_under_way < c->o.window; i++)
        if (!r->pushes.p[i]->under_way)
            send(c, r->pushes.p[i], now_ns, out);
    if (s->draining && r->n_under_way < r->pushes.n) {
        pause_row(c, r, now_ns);
        ask_view(c, now_ns, out);
    }
}

static void stop_waiting(mr_psc *c, part *p)
{
    if (!p->under_way)
        return;
    p->under_way = false;
    c->rows[p->slot].n_under_way -= p->task->push;
}

/* This part is sent again, and so are all pushes behind it. */
static void set_back(mr_psc *c, part *p)
{
    row *r = &c->rows[p->slot];
    bool behind = false;
    stop_waiting(c, p);
    for (int i = 0; p->task->push && i < r->pushes.n; i++) {
        behind |= r->pushes.p[i] == p;
        if (behind)
            stop_waiting(c, r->pushes.p[i]);
    }
}

/* ---- ends ---- */

static void end_task(mr_psc *c, task *t, mr_psc_actions *out)
{
    if (t->ended)
        return;
    t->ended = true;
    c->n_open--;
    c->bytes -= t->bytes;
    mr_vec_push(out, (mr_psc_action){.what = MR_PSC_DONE, .task = t->id, .code = t->code, .slot = t->failed_slot});
    for (int i = 0; i < t->followers.n; i++) {
        task *f = task_of(c, t->followers.p[i]);
        if (f && --f->n_before == 0)
            mr_vec_push(&c->ready, f->id);
    }
    t->followers.n = 0;
}

/* Ends it when nothing is waited for, and frees it when nothing points to it. */
static void look_at(mr_psc *c, task *t, mr_psc_actions *out)
{
    if (t->begun && t->n_waited == 0)
        end_task(c, t, out);
    if (t->ended && t->n_in_rows == 0)
        free_task(c, t);
}

/* The task waits for it no longer; code: how it went. */
static void finish(part *p, mr_code code)
{
    task *t = p->task;
    if (p->empty)
        return;
    p->empty = true;
    t->n_waited--;
    if (code != MR_OK && t->code == MR_OK) {
        t->code = code;
        t->failed_slot = p->slot;
    }
}

static void take_out(mr_psc *c, part *p)
{
    row *r = &c->rows[p->slot];
    if (p->out)
        return;
    stop_waiting(c, p);
    p->out = true;
    p->task->n_in_rows--;
    int kept = 0;
    if (p->task->push) {
        for (int i = 0; i < r->pushes.n; i++)
            if (r->pushes.p[i] != p)
                r->pushes.p[kept++] = r->pushes.p[i];
        r->pushes.n = kept;
    } else {
        for (int i = 0; i < r->pulls.n; i++)
            if (r->pulls.p[i] != p)
                r->pulls.p[kept++] = r->pulls.p[i];
        r->pulls.n = kept;
    }
}

/* The part is not to be done any more.  Of a push that may have arrived, or that has others behind it, the number stays
 * to be sent, without payload. */
static void fail_part(mr_psc *c, part *p, mr_code code)
{
    row *r = &c->rows[p->slot];
    finish(p, code);
    if (!p->task->push) {
        take_out(c, p);
    } else if (!p->out && p->try == 0 && mr_vec_last(&r->pushes) == p) {
        r->last = p->prev;
        take_out(c, p);
    }
}

static void abandon(mr_psc *c, task *t, mr_code code, mr_psc_actions *out)
{
    if (t->ended)
        return;
    if (t->code == MR_OK)
        t->code = code;
    for (int i = t->n - 1; t->begun && i >= 0; i--)
        if (!t->parts[i].out)
            fail_part(c, &t->parts[i], code);
    end_task(c, t, out);
    look_at(c, t, out);
}

/* ---- beginnings ---- */

static void begin_part(mr_psc *c, part *p)
{
    row *r = &c->rows[p->slot];
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

static void begin_task(mr_psc *c, task *t, int64_t now_ns, mr_psc_actions *out)
{
    t->begun = true;
    c->last_ts += t->push;
    t->n_waited = t->n;
    for (int i = 0; i < t->n; i++) {
        part *p = &t->parts[i];
        begin_part(c, p);
        if (c->view.slots.p[p->slot].lost)
            fail_part(c, p, MR_DATA_LOSS);
        else
            pump(c, p->slot, now_ns, out);
    }
    look_at(c, t, out);
}

/* Tasks may end as soon as they begin (nothing to do, or a lost slot), and let others begin: a row without end, so no
 * recursion. */
static void begin_ready(mr_psc *c, int64_t now_ns, mr_psc_actions *out)
{
    for (int i = 0; i < c->ready.n; i++) {
        task *t = task_of(c, c->ready.p[i]);
        if (t && !t->ended)
            begin_task(c, t, now_ns, out);
    }
    c->ready.n = 0;
}

void mr_psc_cancel(mr_psc *c, int64_t id, int64_t now_ns, mr_psc_actions *out)
{
    task *t = task_of(c, id);
    if (t)
        abandon(c, t, MR_CANCELLED, out);
    begin_ready(c, now_ns, out);
}

static mr_status *check_begin(const mr_psc *c, const mr_psc_piece *pieces, int n, const int64_t *after, int n_after,
                              size_t *bytes)
{
    if (c->view.epoch == 0)
        return mr_error(MR_UNAVAILABLE, "no view of the parameter server has come yet");
    if (n < 0 || n > c->view.slots.n || n_after < 0)
        return mr_invalid("a task of %d parts for %d slots", n, c->view.slots.n);
    *bytes = 0;
    for (int i = 0; i < n; i++) {
        if (pieces[i].slot <= (i > 0 ? pieces[i - 1].slot : -1) || pieces[i].slot >= c->view.slots.n)
            return mr_invalid("the slots of a task are not in order, or there is no slot %d", pieces[i].slot);
        if (!mr_size_add(*bytes, pieces[i].bytes, bytes))
            return mr_invalid("a task of too many bytes");
    }
    for (int i = 0; i < n_after; i++)
        if (after[i] <= 0 || after[i] > c->last_task)
            return mr_invalid("there is no task %lld to come after", (long long)after[i]);
    return NULL;
}

static task *new_task(mr_psc *c, bool push, const mr_psc_piece *pieces, int n)
{
    task *t = mr_try_calloc(1, sizeof *t + sizeof t->parts[0] * (size_t)n);
    if (!t)
        return NULL;
    t->id = ++c->last_task;
    t->push = push;
    t->n = n;
    t->failed_slot = -1;
    for (int i = 0; i < n; i++)
        t->parts[i] = (part){.task = t, .piece = i, .slot = pieces[i].slot, .out = true};
    t->next = c->all;
    t->link = &c->all;
    if (c->all)
        c->all->link = &t->next;
    c->all = t;
    c->n_open++;
    mr_imap_put(&c->tasks, (uint64_t)t->id, t);
    return t;
}

mr_status *mr_psc_begin(mr_psc *c, bool push, const mr_psc_piece *pieces, int n, const int64_t *after, int n_after,
                        int64_t deadline_ns, int64_t now_ns, int64_t *id, mr_psc_actions *out)
{
    size_t bytes = 0;
    MR_TRY(check_begin(c, pieces, n, after, n_after, &bytes));
    if (push && !mr_psc_room(c, bytes))
        return mr_error(MR_RESOURCE_EXHAUSTED, "pushes of %zu bytes have not ended, %zu more are too many", c->bytes, bytes);
    task *t = new_task(c, push, pieces, n);
    if (!t)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a task of %d parts", n);
    *id = t->id;
    t->deadline_ns = deadline_ns;
    t->bytes = push ? bytes : 0;
    c->bytes += t->bytes;
    for (int i = 0; i < n_after; i++) {
        task *b = task_of(c, after[i]);
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

/* The slot began anew: what was counted there is gone, and so are the numbers. */
static void restart_row(mr_psc *c, int slot, mr_psc_actions *out)
{
    row *r = &c->rows[slot];
    while (r->pushes.n > 0) {
        part *p = mr_vec_last(&r->pushes);
        finish(p, MR_DATA_LOSS);
        take_out(c, p);
        look_at(c, p->task, out);
    }
    r->last = 0;
}

/* Its parts fail.  Pushes stay as numbers: the slot may come back as it was. */
static void lose_row(mr_psc *c, int slot, mr_psc_actions *out)
{
    row *r = &c->rows[slot];
    for (int i = r->pushes.n - 1; i >= 0; i--) {
        part *p = r->pushes.p[i];
        if (p->empty)
            continue;
        fail_part(c, p, MR_DATA_LOSS);
        look_at(c, p->task, out);
    }
    while (r->pulls.n > 0) {
        part *p = mr_vec_last(&r->pulls);
        fail_part(c, p, MR_DATA_LOSS);
        look_at(c, p->task, out);
    }
}

static void renew_row(mr_psc *c, int slot, const mr_ps_slot *old, int64_t now_ns, mr_psc_actions *out)
{
    const mr_ps_slot *s = &c->view.slots.p[slot];
    row *r = &c->rows[slot];
    if (s->epoch == old->epoch)
        return;
    for (int i = 0; i < r->pushes.n; i++)
        stop_waiting(c, r->pushes.p[i]);
    for (int i = 0; i < r->pulls.n; i++)
        stop_waiting(c, r->pulls.p[i]);
    r->retry_at_ns = r->pause_ns = 0;
    if (s->generation != old->generation && old->generation)
        restart_row(c, slot, out);
    if (s->lost)
        lose_row(c, slot, out);
    pump(c, slot, now_ns, out);
}

mr_status *mr_psc_view(mr_psc *c, const mr_ps_view *v, int64_t now_ns, mr_psc_actions *out)
{
    MR_TRY(mr_ps_view_check(v));
    if (v->epoch <= c->view.epoch)
        return NULL;
    if (c->rows && v->slots.n != c->view.slots.n)
        return mr_invalid("the view has %d slots, the one before it had %d", v->slots.n, c->view.slots.n);
    if (!c->rows)
        c->rows = mr_new_array(row, v->slots.n); /* bounded by the check */
    mr_ps_view old = c->view;
    c->view = (mr_ps_view){0};
    mr_ps_view_copy(&c->view, v);
    for (int i = 0; i < v->slots.n; i++)
        renew_row(c, i, i < old.slots.n ? &old.slots.p[i] : &(mr_ps_slot){0}, now_ns, out);
    mr_ps_view_deinit(&old);
    begin_ready(c, now_ns, out);
    return NULL;
}

/* ---- answers ---- */

static void take_ack(mr_psc *c, part *p, int64_t now_ns, mr_psc_actions *out)
{
    row *r = &c->rows[p->slot];
    int slot = p->slot;
    finish(p, MR_OK);
    take_out(c, p);
    look_at(c, p->task, out);
    r->pause_ns = r->retry_at_ns = 0;
    pump(c, slot, now_ns, out);
}

/* One before it is missing at the server.  If that one was acknowledged, the server has forgotten us, and nothing
 * helps.  Else it is sent again, at once if it was only overtaken; but a server that has what it says it misses, or that
 * says so again and again, is given time: the part would go to and fro as fast as answers come.  An acknowledgement
 * of the one before it ends the pause. */
static void take_gap(mr_psc *c, part *p, uint64_t last, int64_t now_ns, mr_psc_actions *out)
{
    int slot = p->slot;
    if (p->was_first && last != p->prev) {
        finish(p, MR_ABORTED);
        take_out(c, p);
        look_at(c, p->task, out);
    } else {
        set_back(c, p);
        if (last == p->prev || p->try > 2)
            pause_row(c, &c->rows[slot], now_ns);
    }
    pump(c, slot, now_ns, out);
}

static void try_later(mr_psc *c, part *p, uint64_t epoch, int64_t now_ns, mr_psc_actions *out)
{
    set_back(c, p);
    pause_row(c, &c->rows[p->slot], now_ns);
    if (epoch >= c->view.slots.p[p->slot].epoch) /* also when it has ours: the next is on its way */
        ask_view(c, now_ns, out);
}

/* A part that is wrong is so for ever; its number is sent without it.  If that is wrong too, nothing can be done. */
static void take_error(mr_psc *c, part *p, mr_code code, int64_t now_ns, mr_psc_actions *out)
{
    bool hopeless = p->went_empty && code == MR_INVALID_ARGUMENT;
    fail_part(c, p, code);
    if (hopeless)
        take_out(c, p);
    if (!p->out) {
        set_back(c, p);
        pause_row(c, &c->rows[p->slot], now_ns);
    }
    look_at(c, p->task, out);
}

void mr_psc_answer(mr_psc *c, uint64_t from, int64_t id, int piece, int try, mr_code code, uint64_t epoch, uint64_t last,
                   int64_t now_ns, mr_psc_actions *out)
{
    task *t = task_of(c, id);
    if (!t || !t->begun || piece < 0 || piece >= t->n)
        return;
    part *p = &t->parts[piece];
    bool present = p->under_way && p->try == try && p->to == from;
    if (p->out || p->try == 0 || (!present && (code != MR_OK || !t->push)))
        return; /* of an earlier try; but an acknowledgement holds whenever it comes */
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

void mr_psc_broken(mr_psc *c, uint64_t server, int64_t now_ns, mr_psc_actions *out)
{
    bool any = false;
    for (int slot = 0; slot < c->view.slots.n; slot++) {
        row *r = &c->rows[slot];
        bool hit = false;
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < (k ? r->pulls.n : r->pushes.n); i++) {
                part *p = k ? r->pulls.p[i] : r->pushes.p[i];
                if (!p->under_way || p->to != server)
                    continue;
                hit = true;
                set_back(c, p);
            }
        if (hit)
            pause_row(c, r, now_ns);
        any |= hit;
    }
    if (any)
        ask_view(c, now_ns, out);
}

/* ---- time ---- */

/* Those that begin now are looked at too, by what their slots have to wait for. */
static void check_deadlines(mr_psc *c, int64_t now_ns, int64_t *next_ns, mr_psc_actions *out)
{
    for (task *t = c->all, *next; t; t = next) {
        next = t->next;
        if (t->ended)
            continue;
        if (t->deadline_ns <= now_ns)
            abandon(c, t, MR_DEADLINE_EXCEEDED, out);
        else
            *next_ns = MR_MIN(*next_ns, t->deadline_ns);
    }
    begin_ready(c, now_ns, out);
}

static void check_overdue(mr_psc *c, row *r, int64_t now_ns, mr_psc_actions *out)
{
    bool late = false;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < (k ? r->pulls.n : r->pushes.n); i++) {
            part *p = k ? r->pulls.p[i] : r->pushes.p[i];
            if (p->under_way && p->due_ns <= now_ns) {
                late = true;
                set_back(c, p);
            }
        }
    if (late)
        ask_view(c, now_ns, out);
}

static int64_t next_of(const row *r, int64_t now_ns)
{
    int64_t next_ns = INT64_MAX;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < (k ? r->pulls.n : r->pushes.n); i++) {
            const part *p = k ? r->pulls.p[i] : r->pushes.p[i];
            next_ns = p->under_way ? MR_MIN(next_ns, p->due_ns) : next_ns;
        }
    return has_something_to_send(r) && r->retry_at_ns > now_ns ? MR_MIN(next_ns, r->retry_at_ns) : next_ns;
}

int64_t mr_psc_tick(mr_psc *c, int64_t now_ns, mr_psc_actions *out)
{
    int64_t next_ns = INT64_MAX;
    check_deadlines(c, now_ns, &next_ns, out);
    for (int slot = 0; slot < c->view.slots.n; slot++) {
        check_overdue(c, &c->rows[slot], now_ns, out);
        pump(c, slot, now_ns, out);
        next_ns = MR_MIN(next_ns, next_of(&c->rows[slot], now_ns));
    }
    return next_ns;
}
