/* dist/ps_client_rows.c -- parts of tasks in the rows of their ranges: sent, set back, taken out;
 * and how a task ends.
 *
 * Each range has a row of push parts that are not acknowledged, in the order of their timestamps.
 * Parts under way come first in it, unless answers overtake each other. A part that must be sent
 * again is set back together with all parts behind it, so that they arrive in order. Pulls of a
 * range are in a separate list.
 *
 * A task lives until the last of its parts is out of its row, which may be after its end. By then
 * its payload is gone, and the parts that are left are empty. */
#include "dist/ps_client_internal.h"

enum { LONGEST_PAUSE = 16 }; /* times retry_ns */

/* At most one question per retry_ns. */
void mr_psc_ask_view(mr_psc *c, int64_t now_ns, mr_psc_actions *out)
{
    if (now_ns < c->ask_at_ns)
        return;
    c->ask_at_ns = now_ns + c->o.retry_ns;
    mr_vec_push(out, (mr_psc_action){.what = MR_PSC_ASK_VIEW});
}

/* ---- sending ---- */

/* Sends a part to the range's head. The epoch and generation of the present view go along. */
static void send_part(mr_psc *c, mr_psc_part *p, int64_t now_ns, mr_psc_actions *out)
{
    const mr_ps_range *s = &c->view.ranges.p[p->range];
    mr_psc_row *r = &c->rows[p->range];
    MR_ASSERT(!p->under_way && !p->out && mr_ps_range_head(s));
    c->n_resent += p->try > 0;
    p->try++;
    p->under_way = true;
    p->was_first = p->task->push && r->pushes.p[0] == p;
    p->went_empty = p->empty;
    p->to = mr_ps_range_head(s);
    p->due_ns = now_ns + c->o.answer_ns;
    r->n_under_way += p->task->push;
    mr_vec_push(out, (mr_psc_action){.what = p->task->push ? MR_PSC_PUSH : MR_PSC_PULL,
                                     .empty = p->empty,
                                     .range = p->range,
                                     .piece = p->piece,
                                     .try = p->try,
                                     .task = p->task->id,
                                     .to = p->to,
                                     .ts = p->ts,
                                     .prev = p->prev,
                                     .epoch = s->epoch,
                                     .generation = s->generation});
}

bool mr_psc_row_has_more(const mr_psc_row *r)
{
    for (int i = 0; i < r->pulls.n; i++)
        if (!r->pulls.p[i]->under_way)
            return true;
    return r->n_under_way < r->pushes.n;
}

/* No server can take parts of this row now: it is tried again after a pause that doubles each time. */
void mr_psc_row_pause(mr_psc *c, mr_psc_row *r, int64_t now_ns)
{
    r->pause_ns = r->pause_ns ? MR_MIN(r->pause_ns * 2, c->o.retry_ns * LONGEST_PAUSE) : c->o.retry_ns;
    r->retry_at_ns = now_ns + r->pause_ns;
}

/* Sends what may be sent now. A range that drains takes no pushes; a new view is near. */
void mr_psc_row_pump(mr_psc *c, int range, int64_t now_ns, mr_psc_actions *out)
{
    const mr_ps_range *s = &c->view.ranges.p[range];
    mr_psc_row *r = &c->rows[range];
    if (now_ns < r->retry_at_ns || !mr_psc_row_has_more(r))
        return;
    if (!mr_ps_range_head(s)) {
        mr_psc_row_pause(c, r, now_ns);
        mr_psc_ask_view(c, now_ns, out);
        return;
    }
    for (int i = 0; i < r->pulls.n; i++)
        if (!r->pulls.p[i]->under_way)
            send_part(c, r->pulls.p[i], now_ns, out);
    for (int i = 0; !s->draining && i < r->pushes.n && r->n_under_way < c->o.window; i++)
        if (!r->pushes.p[i]->under_way)
            send_part(c, r->pushes.p[i], now_ns, out);
    if (s->draining && r->n_under_way < r->pushes.n) {
        mr_psc_row_pause(c, r, now_ns);
        mr_psc_ask_view(c, now_ns, out);
    }
}

/* An answer that comes later is ignored, unless it is an acknowledgement. */
void mr_psc_part_stop(mr_psc *c, mr_psc_part *p)
{
    if (!p->under_way)
        return;
    p->under_way = false;
    c->rows[p->range].n_under_way -= p->task->push;
    MR_ASSERT(c->rows[p->range].n_under_way >= 0);
}

/* This part and all pushes behind it are to be sent again. */
void mr_psc_part_set_back(mr_psc *c, mr_psc_part *p)
{
    mr_psc_row *r = &c->rows[p->range];
    bool behind = false;
    mr_psc_part_stop(c, p);
    for (int i = 0; p->task->push && i < r->pushes.n; i++) {
        behind |= r->pushes.p[i] == p;
        if (behind)
            mr_psc_part_stop(c, r->pushes.p[i]);
    }
}

/* ---- ending a task ---- */

mr_psc_task *mr_psc_task_of(const mr_psc *c, int64_t id) { return mr_imap_get(&c->tasks, (uint64_t)id); }

/* Removes the task from the map and the list. The caller makes sure that no row uses its parts afterwards. */
void mr_psc_task_free(mr_psc *c, mr_psc_task *t)
{
    MR_ASSERT(*t->link == t);
    mr_imap_remove(&c->tasks, (uint64_t)t->id);
    *t->link = t->next;
    if (t->next)
        t->next->link = t->link;
    mr_vec_deinit(&t->followers);
    mr_free(t);
}

/* Reports the end once. Tasks that waited only for this one become ready. */
static void end_task(mr_psc *c, mr_psc_task *t, mr_psc_actions *out)
{
    if (t->ended)
        return;
    t->ended = true;
    MR_ASSERT(c->n_open > 0 && c->bytes >= t->bytes);
    c->n_open--;
    c->bytes -= t->bytes;
    mr_vec_push(out, (mr_psc_action){.what = MR_PSC_DONE, .task = t->id, .code = t->code, .range = t->failed_range});
    for (int i = 0; i < t->followers.n; i++) {
        mr_psc_task *f = mr_psc_task_of(c, t->followers.p[i]);
        if (f && --f->n_before == 0)
            mr_vec_push(&c->ready, f->id);
    }
    t->followers.n = 0;
}

/* Ends the task if nothing is waited for, and frees it if no row refers to it. */
void mr_psc_task_look_at(mr_psc *c, mr_psc_task *t, mr_psc_actions *out)
{
    if (t->begun && t->n_waited == 0)
        end_task(c, t, out);
    if (t->ended && t->n_in_rows == 0)
        mr_psc_task_free(c, t);
}

/* The task no longer waits for this part; the first error becomes the task's. */
void mr_psc_part_finish(mr_psc_part *p, mr_code code)
{
    mr_psc_task *t = p->task;
    if (p->empty)
        return;
    p->empty = true;
    t->n_waited--;
    MR_ASSERT(t->n_waited >= 0);
    if (code != MR_OK && t->code == MR_OK) {
        t->code = code;
        t->failed_range = p->range;
    }
}

/* Does nothing if it is out already. */
void mr_psc_part_take_out(mr_psc *c, mr_psc_part *p)
{
    mr_psc_row *r = &c->rows[p->range];
    if (p->out)
        return;
    mr_psc_part_stop(c, p);
    p->out = true;
    p->task->n_in_rows--;
    MR_ASSERT(p->task->n_in_rows >= 0);
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

/* The part need not be done any more. If it is a push that may have arrived, or that has others
 * behind it, its number must still be sent, without payload. A push that was never sent and is the
 * newest of its row can give its number back. */
void mr_psc_part_fail(mr_psc *c, mr_psc_part *p, mr_code code)
{
    mr_psc_row *r = &c->rows[p->range];
    mr_psc_part_finish(p, code);
    if (!p->task->push) {
        mr_psc_part_take_out(c, p);
    } else if (!p->out && p->try == 0 && mr_vec_last(&r->pushes) == p) {
        r->last = p->prev;
        mr_psc_part_take_out(c, p);
    }
}

/* Ends a task by its deadline or because it was cancelled. Goes through the parts from the last
 * one, so that numbers can be given back. */
void mr_psc_task_abandon(mr_psc *c, mr_psc_task *t, mr_code code, mr_psc_actions *out)
{
    if (t->ended)
        return;
    if (t->code == MR_OK)
        t->code = code;
    for (int i = t->n - 1; t->begun && i >= 0; i--)
        if (!t->parts[i].out)
            mr_psc_part_fail(c, &t->parts[i], code);
    end_task(c, t, out);
    mr_psc_task_look_at(c, t, out);
}
