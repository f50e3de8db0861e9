/* server/master_partial.c -- partial runs: PartialRunSetup, and the RunSteps that feed and fetch piece
 * by piece.
 *
 * A partial run is one step at the workers, with one id, and several calls here. Its calls take turns:
 * a call that arrives while another one runs waits in the run, because the workers must see the first
 * call first and the last call last. A call that is refused (a value that was already fed, a fetch
 * that cannot be computed yet) changes nothing; a call that fails ends the run.
 *
 *     mr_master_run_take_turn -> run_now -> prepare_call -> mr_master_run_go -> ... -> mr_master_run_answer
 *                                  ^                                                        |
 *                                  +------- the next waiting call <---- mr_master_run_leave_turn
 *
 * Whose turn it is (busy, waiting) is guarded by the session's lock. What the run has used so far
 * (use) belongs to the call whose turn it is, so it needs no lock. */
#include <stdio.h>

#include "base/memory.h"
#include "server/master_internal.h"
#include "server/wire.h"

/* A partial run, from PartialRunSetup until its last call or its first failure. */
struct mr_mpartial {
    mr_refs refs; /* one for the table, one for each of its calls */
    char handle[24];
    mr_mprogram *program;
    mr_mnamed named; /* what the setup has named */
    mr_partial_use use;
    int64_t id; /* of the step */
    /* Under the session's lock: */
    bool busy, over;
    MR_VEC(mr_master_run *) waiting;
};

/* No call waits for its turn any more, since each waiting call has a reference. */
void mr_mpartial_unref(mr_mpartial *p)
{
    if (!p || !mr_refs_drop(&p->refs))
        return;
    MR_ASSERT(p->waiting.n == 0);
    mr_partial_use_deinit(&p->use);
    mr_mnamed_deinit(&p->named);
    mr_vec_deinit(&p->waiting);
    mr_free(p);
}

/* ---- PartialRunSetup ---- */

/* Parses a PartialRunSetupRequest: like a RunStepRequest, but feeds are names without values. */
static mr_status *parse_setup(mr_sv body, mr_mrequest *q)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_pb_reader_init(&r, body);
    while (mr_pb_next(&r, &field, &wire)) {
        mr_sv v = MR_SV("");
        if (wire == MR_WIRE_BYTES && field <= 4)
            v = mr_pb_bytes(&r);
        switch (field) {
        case 1: q->session = v; break;
        case 2: mr_vec_push(&q->feeds, v); break;
        case 3: mr_vec_push(&q->fetches, v); break;
        case 4: mr_vec_push(&q->targets, v); break;
        case 5: q->request = mr_pb_int64(&r); break;
        default: mr_pb_skip(&r);
        }
    }
    return mr_pb_reader_status(&r, "PartialRunSetupRequest");
}

/* Makes the run and its program, and writes its handle. */
static mr_status *add_partial(mr_msession *s, const mr_mrequest *q, mr_str *handle)
{
    mr_mprogram *program;
    MR_TRY(mr_mprogram_get(s, q, true, &program));
    mr_mpartial *p = mr_new(mr_mpartial);
    mr_refs_init(&p->refs);
    p->program = program;
    p->id = mr_step_id_new();
    mr_lock(&s->making);
    mr_status *st = mr_mnamed_find(s->graph, q, &p->named);
    mr_unlock(&s->making);
    if (st) {
        mr_mpartial_unref(p);
        return st;
    }
    mr_partial_use_init(&p->use, &p->named.sig);
    mr_lock(&s->mu);
    snprintf(p->handle, sizeof p->handle, "%lld", (long long)s->next_partial++);
    mr_map_putz(&s->partials, p->handle, p);
    mr_str_appendz(handle, p->handle);
    mr_unlock(&s->mu);
    return NULL;
}

/* Handles PartialRunSetup. The step is used only to enter the session; it does not run. */
void mr_master_partial_setup(void *service, mr_net_call *c, mr_sv body)
{
    mr_master_run *t = mr_master_run_new(c);
    mr_str reply = {0}, handle = {0};
    mr_pb_writer w;
    mr_status *st = parse_setup(body, &t->q);
    if (!st)
        st = mr_master_run_enter(t, service, t->q.session, t->q.request);
    mr_msession *s = t->session;
    if (!st)
        st = add_partial(s, &t->q, &handle);
    mr_pb_writer_init(&w, &reply);
    if (!st)
        mr_pb_put_bytes(&w, 1, mr_str_view(&handle));
    mr_master_run_unref(t);
    mr_reply_str(c, st, &reply);
    mr_str_deinit(&reply);
    mr_str_deinit(&handle);
    if (s) {
        mr_msession_leave(s);
        mr_msession_unref(s);
    }
}

/* ---- a call ---- */

static mr_status *no_setup(void) { return mr_invalid("Must run 'setup' before performing partial runs!"); }

/* For each of a call's outputs, its position among those of the setup. mr_partial_use_check has found
 * that all are there. */
static int *find_places(const mr_out *all, int n_all, const mr_out *some, int n)
{
    int *at = mr_new_array(int, n + 1);
    for (int i = 0; i < n; i++)
        at[i] = mr_outs_find(all, n_all, some[i]);
    return at;
}

/* Checks the call against what the run has used so far and marks what it uses. It is the call's turn.
 * On failure the run is unchanged. */
static mr_status *prepare_call(mr_master_run *t)
{
    mr_mpartial *p = t->partial;
    mr_msession *s = t->session;
    const mr_run_signature *sig = &p->named.sig;
    mr_mnamed n = {0};
    mr_lock(&s->making);
    mr_status *st = mr_mnamed_find(s->graph, &t->q, &n);
    mr_partial_call c = {n.sig.feeds, n.sig.fetches, n.sig.n_feeds, n.sig.n_fetches};
    if (!st)
        st = mr_partial_use_check(&p->use, &c);
    if (!st)
        st = mr_partial_use_follow(&p->use, s->graph, &c);
    mr_unlock(&s->making);
    /* All checks have passed: only now the call changes the run. */
    if (!st) {
        t->feed_at = find_places(sig->feeds, sig->n_feeds, c.feeds, c.n_feeds);
        t->fetch_at = find_places(sig->fetches, sig->n_fetches, c.fetches, c.n_fetches);
        mr_partial_use_mark(&p->use, &c);
        t->last = mr_partial_use_all(&p->use);
        t->id = p->id;
    }
    mr_mnamed_deinit(&n);
    return st;
}

/* It is this call's turn: runs it, or refuses it if the run is over. */
static void run_now(mr_task *task)
{
    mr_master_run *t = (mr_master_run *)((char *)task - offsetof(mr_master_run, turn));
    mr_mpartial *p = t->partial;
    mr_lock(&t->session->mu);
    MR_ASSERT(p && p->busy);
    bool over = p->over;
    mr_unlock(&t->session->mu);
    mr_status *st = over ? no_setup() : prepare_call(t);
    t->refused = st != NULL;
    t->program = p->program;
    mr_master_run_go(t, st);
}

/* Runs the call now if no other call of the run is under way; otherwise it waits in the run. */
void mr_master_run_take_turn(mr_master_run *t)
{
    mr_msession *s = t->session;
    mr_lock(&s->mu);
    mr_mpartial *p = t->partial = mr_map_get(&s->partials, t->q.partial_run);
    bool mine = p && !p->busy;
    if (p) {
        mr_refs_take(&p->refs);
        p->busy = true;
    }
    if (p && !mine)
        mr_vec_push(&p->waiting, t);
    mr_unlock(&s->mu);
    if (mine)
        run_now(&t->turn);
    else if (!p)
        mr_master_run_answer(t, no_setup());
}

/* Ends the call's turn and starts the next one. The next call runs on the pool, not in here: a long
 * row of refused calls would fill the stack. */
void mr_master_run_leave_turn(mr_master_run *t, bool failed)
{
    mr_mpartial *p = t->partial;
    mr_msession *s = t->session;
    mr_lock(&s->mu);
    MR_ASSERT(p->busy);
    bool ends = !p->over && !t->refused && (failed || t->last);
    p->over |= ends;
    if (ends)
        mr_map_remove(&s->partials, mr_sv_of(p->handle));
    mr_master_run *next = p->waiting.n ? p->waiting.p[0] : NULL;
    if (next)
        memmove(p->waiting.p, p->waiting.p + 1, sizeof next * (size_t)--p->waiting.n);
    p->busy = next != NULL;
    mr_unlock(&s->mu);
    if (ends)
        mr_mpartial_unref(p); /* the table's */
    if (next) {
        next->turn.fn = run_now;
        mr_pool_submit(s->master->host->pool, &next->turn);
    }
}
