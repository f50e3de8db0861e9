/* dist/ps_replica.c -- one slot at one server.
 *
 * Every event changes some numbers and then calls settle(), which does all that has become possible, in the order in
 * which one thing allows the next: the stable version, new records, sending, answers, words to the predecessor and to
 * the manager, forgetting.
 *
 * Invariants: first_kept - 1 <= stable <= version, unless a successor that catches up wants more kept; after_has <=
 * version; what is sent is kept.  `stable` never falls while we are the same member: a view may only add members that
 * have it. */
#include "dist/ps_replica.h"

static const mr_psr_options defaults = {1, 4096, 4096, INT64_C(100000000)};

void mr_psr_init(mr_psr *r, uint64_t self, int slot, mr_ps_clock *clock, const mr_psr_options *o)
{
    *r = (mr_psr){.o = o ? *o : defaults, .self = self, .slot = slot, .clock = clock, .first_kept = 1};
    r->o.window = r->o.window > 0 ? r->o.window : defaults.window;
    r->o.max_waiting = r->o.max_waiting > 0 ? r->o.max_waiting : defaults.max_waiting;
    r->o.max_kept = r->o.max_kept > 0 ? r->o.max_kept : defaults.max_kept;
    r->o.retry_ns = r->o.retry_ns > 0 ? r->o.retry_ns : defaults.retry_ns;
}

void mr_psr_deinit(mr_psr *r)
{
    mr_vec_deinit(&r->waiting);
    mr_vec_deinit(&r->batch);
    mr_vec_deinit(&r->answers);
    mr_vec_deinit(&r->undo);
}

bool mr_psr_is_member(const mr_psr *r) { return r->since != 0 && !r->catching; }

static bool feeds_new_one(const mr_psr *r) { return r->after != 0 && r->after == r->view.catching.id; }

/* ---- words to others ---- */

static mr_psr_action *act(mr_psr_actions *out, mr_psr_do what)
{
    mr_vec_push(out, (mr_psr_action){.what = what});
    return &mr_vec_last(out);
}

static void say_have(mr_psr *r, bool again, mr_psr_actions *out)
{
    mr_psr_action *a = act(out, MR_PSR_HAVE);
    a->to = r->before;
    a->epoch = r->view.epoch;
    a->version = r->version;
    a->stable = r->stable;
    a->again = again;
    r->told_stable = r->stable;
}

static void send(mr_psr *r, uint64_t first, mr_psr_actions *out)
{
    mr_psr_action *a = act(out, MR_PSR_SEND);
    a->to = r->after;
    a->epoch = r->view.epoch;
    a->first = first;
    a->version = r->version;
}

static void ask_successor(mr_psr *r, mr_psr_actions *out) { send(r, r->version + 1, out); }

static void answer(mr_psr *r, uint64_t cookie, mr_code code, uint64_t last, mr_psr_actions *out)
{
    mr_psr_action *a = act(out, MR_PSR_ANSWER);
    a->cookie = cookie;
    a->code = code;
    a->epoch = r->view.epoch;
    a->version = last;
}

static void ask_view(mr_psr *r, mr_psr_actions *out)
{
    if (!r->asked)
        act(out, MR_PSR_ASK_VIEW);
    r->asked = true;
}

static void tell_manager(mr_psr *r, mr_psr_do what, uint64_t about, mr_psr_actions *out)
{
    mr_psr_action *a = act(out, what);
    a->to = about;
    a->epoch = r->view.epoch;
}

/* Pushes that wait for something we cannot give any more.  Those that were applied count, or not: clients ask again. */
static void turn_away(mr_psr *r, mr_psr_actions *out)
{
    for (int i = 0; i < r->waiting.n; i++)
        answer(r, r->waiting.p[i].cookie, MR_UNAVAILABLE, 0, out);
    for (int i = 0; i < r->answers.n; i++)
        answer(r, r->answers.p[i].cookie, MR_UNAVAILABLE, 0, out);
    r->waiting.n = r->answers.n = 0;
}

/* ---- what becomes possible ---- */

/* A new member is waited for as soon as all it lacks is on its way: from here on that is a matter of one exchange. */
static void find_stable(mr_psr *r)
{
    uint64_t stable = r->stable;
    if (feeds_new_one(r)) {
        r->awaited |= r->met && !r->copying && r->sent >= r->version;
        stable = r->awaited ? MR_MIN(r->version, r->after_has) : r->version;
    } else if (!r->after) {
        stable = r->version;
    }
    r->stable = MR_MAX(r->stable, stable);
}

static void make_record(mr_psr *r, mr_psr_actions *out)
{
    r->version++;
    r->n_records++;
    r->batch.n = 0;
    for (int i = 0; i < r->waiting.n; i++) {
        mr_psr_push *p = &r->waiting.p[i];
        mr_status_free(mr_ps_clock_set(r->clock, p->client, r->slot, r->slot + 1, p->ts)); /* was checked when it came */
        mr_vec_push(&r->batch, *p);
        mr_vec_push(&r->answers, (mr_psr_answer){p->client, p->ts, p->cookie, r->version});
    }
    r->waiting.n = 0;
    act(out, MR_PSR_RECORD)->version = r->version;
}

/* It takes a while, and nobody is to wait: a member that lacks what is stable cannot have been called complete. */
static void start_copy(mr_psr *r, mr_psr_actions *out)
{
    r->copying = true;
    r->awaited &= r->after_has >= r->stable;
    r->copy_version = r->sent = r->version;
    mr_psr_action *a = act(out, MR_PSR_COPY);
    a->to = r->after;
    a->epoch = r->view.epoch;
    a->version = r->version;
}

static void feed(mr_psr *r, mr_psr_actions *out)
{
    if (!r->after || !r->met || r->copying)
        return;
    r->sent = MR_MAX(r->sent, r->after_has);
    if (r->sent >= r->version)
        return;
    if (r->sent + 1 < r->first_kept) {
        start_copy(r, out);
    } else {
        send(r, r->sent + 1, out);
        r->sent = r->version;
    }
}

static void give_answers(mr_psr *r, mr_psr_actions *out)
{
    int kept = 0;
    for (int i = 0; i < r->answers.n; i++) {
        if (r->answers.p[i].version <= r->stable)
            answer(r, r->answers.p[i].cookie, MR_OK, 0, out);
        else
            r->answers.p[kept++] = r->answers.p[i];
    }
    r->answers.n = kept;
}

/* A full successor has all that is stable.  One that catches up may want older records, within bounds. */
static void forget(mr_psr *r, mr_psr_actions *out)
{
    uint64_t through = r->stable;
    if (feeds_new_one(r)) {
        uint64_t wants = r->copying ? r->copy_version : r->met ? r->after_has : r->first_kept - 1;
        uint64_t bound = r->version > (uint64_t)r->o.max_kept ? r->version - (uint64_t)r->o.max_kept : 0;
        through = MR_MIN(through, MR_MAX(wants, bound));
    }
    if (through < r->first_kept)
        return;
    r->first_kept = through + 1;
    act(out, MR_PSR_FORGET)->version = through;
}

static bool is_drained(const mr_psr *r)
{
    return r->head && r->view.draining && !r->stale && r->waiting.n == 0 && r->stable == r->version;
}

/* Everything that was ever acknowledged, and whatever will be, is with the new member. */
static bool is_complete(const mr_psr *r) { return feeds_new_one(r) && r->awaited && r->after_has >= r->stable; }

static void tell_news(mr_psr *r, mr_psr_actions *out)
{
    if (is_complete(r) && !r->told_complete) {
        r->told_complete = true;
        tell_manager(r, MR_PSR_COMPLETE, r->after, out);
    }
    if (is_drained(r) && !r->told_drained) {
        r->told_drained = true;
        tell_manager(r, MR_PSR_DRAINED, 0, out);
    }
}

static void settle(mr_psr *r, mr_psr_actions *out)
{
    find_stable(r);
    while (r->head && !r->stale && r->waiting.n > 0 && r->version - r->stable < (uint64_t)r->o.window) {
        make_record(r, out);
        find_stable(r);
    }
    feed(r, out);
    find_stable(r); /* the last record on its way may be what a new member was not waited for */
    give_answers(r, out);
    if (r->before && r->stable > r->told_stable)
        say_have(r, false, out);
    tell_news(r, out);
    forget(r, out);
    MR_ASSERT(r->stable <= r->version && r->after_has <= r->version && r->first_kept <= r->version + 1);
}

/* ---- views ---- */

static uint64_t since_of(const mr_psr *r, const mr_ps_slot *s)
{
    int i = mr_ps_slot_index(s, r->self);
    if (i >= 0)
        return s->chain[i].since;
    return s->catching.id == r->self ? s->catching.since : 0;
}

/* What we have is of another membership, and need not be the beginning of what the chain has. */
static void begin_empty(mr_psr *r, uint64_t since, mr_psr_actions *out)
{
    if (r->since) {
        mr_ps_clock_drop_slot(r->clock, r->slot);
        act(out, MR_PSR_RESET);
    }
    r->since = since;
    r->version = r->stable = 0;
    r->first_kept = 1;
}

static void take_part(mr_psr *r, const mr_ps_slot *s)
{
    r->view = *s;
    r->before = mr_ps_slot_before(s, r->self);
    r->after = mr_ps_slot_after(s, r->self);
    r->catching = s->catching.id == r->self;
    r->head = mr_ps_slot_head(s) == r->self;
    r->after_has = r->sent = r->told_stable = 0;
    r->met = r->copying = r->awaited = r->told_complete = r->told_drained = r->told_declined = false;
}

void mr_psr_view(mr_psr *r, const mr_ps_slot *s, int64_t now_ns, mr_psr_actions *out)
{
    r->stale = r->asked = false;
    if (s->epoch == r->view.epoch)
        return;
    uint64_t since = since_of(r, s);
    bool was_head = r->head;
    if (since != r->since || s->generation != r->view.generation) {
        turn_away(r, out);
        begin_empty(r, since, out);
    }
    take_part(r, s);
    if (was_head && !r->head)
        turn_away(r, out);
    r->retry_at_ns = now_ns + r->o.retry_ns;
    find_stable(r);
    if (r->before)
        say_have(r, true, out);
    if (r->after)
        ask_successor(r, out);
    settle(r, out);
}

/* ---- pushes ---- */

static mr_code refusal(const mr_psr *r, uint64_t epoch)
{
    if (r->view.lost && r->view.chain[0].id != r->self) /* else the manager is about to hear that we are not */
        return MR_DATA_LOSS;
    return r->head && !r->stale && epoch <= r->view.epoch ? MR_OK : MR_UNAVAILABLE;
}

mr_code mr_psr_may_pull(const mr_psr *r, uint64_t epoch) { return refusal(r, epoch); }

static mr_psr_push *find_waiting(mr_psr *r, uint64_t client, uint64_t ts)
{
    for (int i = r->waiting.n - 1; i >= 0; i--)
        if (r->waiting.p[i].client == client && (ts == 0 || r->waiting.p[i].ts == ts))
            return &r->waiting.p[i];
    return NULL;
}

static mr_psr_answer *find_answer(mr_psr *r, uint64_t client, uint64_t ts)
{
    for (int i = 0; i < r->answers.n; i++)
        if (r->answers.p[i].client == client && r->answers.p[i].ts == ts)
            return &r->answers.p[i];
    return NULL;
}

/* Sent again: the earlier request is not waited for any more. */
static void replace_cookie(mr_psr *r, uint64_t *cookie, uint64_t by, mr_psr_actions *out)
{
    answer(r, *cookie, MR_UNAVAILABLE, 0, out);
    *cookie = by;
}

/* It is applied, but what if we die now?  It is acknowledged when the chain has all that we have. */
static void take_duplicate(mr_psr *r, const mr_psr_push *p, mr_psr_actions *out)
{
    r->n_duplicates++;
    mr_psr_push *waiting = find_waiting(r, p->client, p->ts);
    mr_psr_answer *applied = waiting ? NULL : find_answer(r, p->client, p->ts);
    if (waiting)
        replace_cookie(r, &waiting->cookie, p->cookie, out);
    else if (applied)
        replace_cookie(r, &applied->cookie, p->cookie, out);
    else if (r->stable == r->version)
        answer(r, p->cookie, MR_OK, 0, out);
    else if (r->answers.n >= 2 * r->o.max_waiting) /* more than any clients would ask for */
        answer(r, p->cookie, MR_UNAVAILABLE, 0, out);
    else
        mr_vec_push(&r->answers, (mr_psr_answer){p->client, p->ts, p->cookie, r->version});
}

static void take_next(mr_psr *r, const mr_psr_push *p, mr_psr_actions *out)
{
    if (r->waiting.n >= r->o.max_waiting) {
        answer(r, p->cookie, MR_UNAVAILABLE, 0, out);
    } else if (!mr_ps_clock_room(r->clock, p->client)) {
        answer(r, p->cookie, MR_RESOURCE_EXHAUSTED, 0, out);
    } else {
        r->n_pushes++;
        mr_vec_push(&r->waiting, *p);
    }
}

static void take(mr_psr *r, const mr_psr_push *p, mr_psr_actions *out)
{
    const mr_psr_push *before = find_waiting(r, p->client, 0);
    uint64_t last = before ? before->ts : mr_ps_clock_get(r->clock, p->client, r->slot);
    switch (p->client ? mr_ps_turn_at(last, p->ts, p->prev) : MR_PS_BAD) {
    case MR_PS_NEXT: take_next(r, p, out); break;
    case MR_PS_DUPLICATE: take_duplicate(r, p, out); break;
    case MR_PS_GAP: answer(r, p->cookie, MR_ABORTED, last, out); break;
    case MR_PS_BAD: answer(r, p->cookie, MR_INVALID_ARGUMENT, last, out); break;
    }
}

void mr_psr_push_part(mr_psr *r, const mr_psr_push *p, int64_t now_ns, mr_psr_actions *out)
{
    (void)now_ns;
    mr_code code = refusal(r, p->epoch);
    if (p->epoch > r->view.epoch)
        ask_view(r, out);
    if (code == MR_OK && (r->view.draining || p->generation != r->view.generation))
        code = MR_UNAVAILABLE; /* the client needs a newer view, or will soon */
    if (code != MR_OK) {
        answer(r, p->cookie, code, 0, out);
        return;
    }
    take(r, p, out);
    settle(r, out);
}

/* ---- words of other servers ---- */

/* Whether a word about this slot is of our epoch.  Who is behind is told so, if it counts on us. */
static bool is_timely(mr_psr *r, uint64_t from, uint64_t epoch, bool refuse, mr_psr_actions *out)
{
    if (epoch > r->view.epoch)
        ask_view(r, out);
    if (epoch < r->view.epoch && refuse) {
        mr_psr_action *a = act(out, MR_PSR_REFUSE);
        a->to = from;
        a->epoch = r->view.epoch;
    }
    return epoch == r->view.epoch;
}

/* The clocks as they were before the first n pushes of a record. */
static void undo(mr_psr *r, const mr_psr_record *record, int n)
{
    while (n-- > 0)
        mr_status_free(mr_ps_clock_set(r->clock, record->pushes[n].client, r->slot, r->slot + 1, r->undo.p[n]));
}

/* The next record.  A head takes no push that its clock forbids, and ours is the same: anything else is no record. */
static bool apply(mr_psr *r, const mr_psr_record *record, int index, mr_psr_actions *out)
{
    r->undo.n = 0;
    for (int i = 0; i < record->n; i++) {
        const mr_ps_stamp *p = &record->pushes[i];
        uint64_t last = mr_ps_clock_get(r->clock, p->client, r->slot);
        if (p->client == 0 || p->ts <= last) {
            undo(r, record, i);
            return false;
        }
        mr_vec_push(&r->undo, last);
        mr_status_free(mr_ps_clock_set(r->clock, p->client, r->slot, r->slot + 1, p->ts));
    }
    r->version++;
    mr_psr_action *a = act(out, MR_PSR_APPLY);
    a->version = r->version;
    a->index = index;
    return true;
}

void mr_psr_append(mr_psr *r, uint64_t from, uint64_t epoch, const mr_psr_record *records, int n, int64_t now_ns,
                   mr_psr_actions *out)
{
    (void)now_ns;
    if (!is_timely(r, from, epoch, true, out))
        return;
    if (!mr_psr_follows(r, from, epoch)) {
        r->n_bad++;
        return;
    }
    uint64_t had = r->version;
    bool gap = n == 0; /* a question */
    for (int i = 0; i < n && !gap; i++) {
        if (records[i].version == r->version + 1 && !apply(r, &records[i], i, out)) {
            r->n_bad++;
            break;
        }
        gap = records[i].version > r->version;
    }
    settle(r, out);
    if (gap || r->version == had) /* nothing new: what we said before did not arrive */
        say_have(r, gap, out);
}

void mr_psr_have(mr_psr *r, uint64_t from, uint64_t epoch, uint64_t version, uint64_t stable, bool again, int64_t now_ns,
                 mr_psr_actions *out)
{
    if (!is_timely(r, from, epoch, false, out))
        return;
    if (from != r->after || from == 0 || version > r->version || stable > version) {
        r->n_bad++;
        return;
    }
    if (version > r->after_has || !r->met)
        r->retry_at_ns = now_ns + r->o.retry_ns;
    r->met = true;
    r->after_has = MR_MAX(r->after_has, version);
    if (r->copying && r->after_has >= r->copy_version)
        r->copying = false;
    if (again && !r->copying)
        r->sent = r->after_has;
    if (!feeds_new_one(r))
        r->stable = MR_MAX(r->stable, stable);
    settle(r, out);
}

void mr_psr_refused(mr_psr *r, uint64_t from, uint64_t epoch, mr_psr_actions *out)
{
    if (from != r->after || epoch <= r->view.epoch)
        return;
    r->stale = true;
    turn_away(r, out);
    ask_view(r, out);
}

void mr_psr_copy(mr_psr *r, uint64_t from, uint64_t epoch, uint64_t version, const mr_ps_stamp *stamps, int n, int64_t now_ns,
                 mr_psr_actions *out)
{
    (void)now_ns;
    if (!is_timely(r, from, epoch, true, out))
        return;
    if (!mr_psr_follows(r, from, epoch) || version > UINT64_MAX / 2) { /* versions go on from there, one by one */
        r->n_bad++;
        return;
    }
    if (version > r->version) {
        mr_status *st = mr_ps_clock_import(r->clock, r->slot, stamps, n);
        if (st) { /* nothing was changed */
            mr_status_free(st);
            r->n_bad++;
            return;
        }
        act(out, MR_PSR_INSTALL)->version = version;
        r->version = version;
        r->first_kept = version + 1;
    }
    settle(r, out);
    say_have(r, true, out);
}

bool mr_psr_follows(const mr_psr *r, uint64_t from, uint64_t epoch)
{
    return from != 0 && from == r->before && epoch == r->view.epoch;
}

/* The predecessor goes on sending what is missing, so it is said again as long as it must be. */
void mr_psr_decline(mr_psr *r, uint64_t from, uint64_t epoch, mr_psr_actions *out)
{
    if (!is_timely(r, from, epoch, true, out))
        return;
    if (!mr_psr_follows(r, from, epoch)) {
        r->n_bad++;
        return;
    }
    if (!r->told_declined)
        tell_manager(r, MR_PSR_DECLINE, r->self, out);
    r->told_declined = true;
}

void mr_psr_copied(mr_psr *r, uint64_t to, bool ok, int64_t now_ns, mr_psr_actions *out)
{
    if (!r->copying || to != r->after)
        return;
    r->copying = false;
    if (!ok) {
        r->sent = r->after_has;
        r->met = false; /* it is asked again, in a while */
        r->retry_at_ns = now_ns + r->o.retry_ns;
    }
    settle(r, out);
}

/* ---- time ---- */

void mr_psr_tick(mr_psr *r, int64_t now_ns, mr_psr_actions *out)
{
    if (now_ns < r->retry_at_ns)
        return;
    r->retry_at_ns = now_ns + r->o.retry_ns;
    r->told_complete = r->told_drained = r->told_declined = false;
    if (r->stale || r->asked) {
        r->asked = false;
        ask_view(r, out);
    }
    if (r->catching)
        say_have(r, true, out);
    if (r->after && !r->copying && (!r->met || r->after_has < r->version || r->stable < r->version))
        ask_successor(r, out);
    settle(r, out);
}
