/* dist/ps_replica.c -- one range at one server.
 *
 * Every event changes some numbers and then calls settle_range(), which does everything that has become
 * possible, in the order in which one step enables the next: the stable version, new records,
 * sending, answers, messages to the predecessor and the manager, forgetting.
 *
 * Invariants:
 * - first_kept - 1 <= stable <= version, unless a successor that catches up needs more records
 *   kept.
 * - after_has <= version; records that were sent are kept.
 * - `stable` never falls while we are the same member: a view adds only members that have it.
 * - Only a head has `waiting` pushes and unsent `answers`. */
#include "dist/ps_replica.h"

static const mr_psr_options defaults = {1, 4096, 4096, INT64_C(100000000)};

void mr_psr_init(mr_psr *r, uint64_t self, int range, mr_ps_clock *clock, const mr_psr_options *o)
{
    *r = (mr_psr){.o = o ? *o : defaults, .self = self, .range = range, .clock = clock, .first_kept = 1};
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

/* Whether our successor is the member that catches up. */
static bool feeds_new_one(const mr_psr *r) { return r->after != 0 && r->after == r->view.catching.id; }

/* ---- messages to others ---- */

/* Appends an action. The pointer is valid until the next one is appended. */
static mr_psr_action *act(mr_psr_actions *out, mr_psr_do what)
{
    mr_vec_push(out, (mr_psr_action){.what = what});
    return &mr_vec_last(out);
}

/* Tells the predecessor what we and the members behind us have. again: it should send the rest
 * again. */
static void say_have(mr_psr *r, bool again, mr_psr_actions *out)
{
    MR_ASSERT(r->stable <= r->version);
    mr_psr_action *a = act(out, MR_PSR_HAVE);
    a->to = r->before;
    a->epoch = r->view.epoch;
    a->version = r->version;
    a->stable = r->stable;
    a->again = again;
    r->told_stable = r->stable;
}

/* The kept records from `first` on, to the successor. None, if first is above version: then it only
 * asks what the successor has. */
static void send_records(mr_psr *r, uint64_t first, mr_psr_actions *out)
{
    MR_ASSERT(r->after && first >= r->first_kept);
    mr_psr_action *a = act(out, MR_PSR_SEND);
    a->to = r->after;
    a->epoch = r->view.epoch;
    a->first = first;
    a->version = r->version;
}

static void ask_successor(mr_psr *r, mr_psr_actions *out) { send_records(r, r->version + 1, out); }

/* Answers a push. last: the client's last timestamp here, for ABORTED. */
static void answer(mr_psr *r, uint64_t cookie, mr_code code, uint64_t last, mr_psr_actions *out)
{
    mr_psr_action *a = act(out, MR_PSR_ANSWER);
    a->cookie = cookie;
    a->code = code;
    a->epoch = r->view.epoch;
    a->version = last;
}

/* Asks once until a view comes, or until a tick repeats it. */
static void ask_view(mr_psr *r, mr_psr_actions *out)
{
    if (!r->asked)
        act(out, MR_PSR_ASK_VIEW);
    r->asked = true;
}

/* A report with our epoch of the range: the manager ignores it if the range has changed since. */
static void tell_manager(mr_psr *r, mr_psr_do what, uint64_t about, mr_psr_actions *out)
{
    mr_psr_action *a = act(out, what);
    a->to = about;
    a->epoch = r->view.epoch;
}

/* Answers all pushes that we can no longer confirm. Those already applied may or may not count:
 * clients send them again. */
static void turn_away(mr_psr *r, mr_psr_actions *out)
{
    for (int i = 0; i < r->waiting.n; i++)
        answer(r, r->waiting.p[i].cookie, MR_UNAVAILABLE, 0, out);
    for (int i = 0; i < r->answers.n; i++)
        answer(r, r->answers.p[i].cookie, MR_UNAVAILABLE, 0, out);
    r->waiting.n = r->answers.n = 0;
}

/* ---- settling ---- */

/* A member that catches up is waited for as soon as everything it lacks is on its way: from then on
 * it is a matter of one exchange. */
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

/* All waiting pushes become one record. Their clocks are set now, so a repeated push is recognised
 * as a duplicate. */
static void make_record(mr_psr *r, mr_psr_actions *out)
{
    MR_ASSERT(r->head && !r->stale && r->waiting.n > 0);
    r->version++;
    r->n_records++;
    r->batch.n = 0;
    for (int i = 0; i < r->waiting.n; i++) {
        mr_psr_push *p = &r->waiting.p[i];
        mr_status_free(mr_ps_clock_set(r->clock, p->client, r->range, r->range + 1, p->ts)); /* checked when it came */
        mr_vec_push(&r->batch, *p);
        mr_vec_push(&r->answers, (mr_psr_answer){p->client, p->ts, p->cookie, r->version});
    }
    r->waiting.n = 0;
    act(out, MR_PSR_RECORD)->version = r->version;
}

/* A copy takes a while, and no push should wait for it. A member that lacks something stable cannot
 * have been reported complete, so it need not be awaited. */
static void start_copy(mr_psr *r, mr_psr_actions *out)
{
    MR_ASSERT(r->after && !r->copying);
    r->copying = true;
    r->awaited &= r->after_has >= r->stable;
    r->copy_version = r->sent = r->version;
    mr_psr_action *a = act(out, MR_PSR_COPY);
    a->to = r->after;
    a->epoch = r->view.epoch;
    a->version = r->version;
}

/* Sends the successor what it lacks: records if they are still kept, else a copy. */
static void feed_successor(mr_psr *r, mr_psr_actions *out)
{
    if (!r->after || !r->met || r->copying)
        return;
    r->sent = MR_MAX(r->sent, r->after_has);
    if (r->sent >= r->version)
        return;
    if (r->sent + 1 < r->first_kept) {
        start_copy(r, out);
    } else {
        send_records(r, r->sent + 1, out);
        r->sent = r->version;
    }
}

/* Acknowledges the pushes whose record is stable. */
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

/* A full successor has everything that is stable. One that catches up may need older records, up to
 * max_kept. */
static void forget_records(mr_psr *r, mr_psr_actions *out)
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

/* We are the head, take no pushes, and all members hold what we hold. */
static bool is_drained(const mr_psr *r)
{
    return r->head && r->view.draining && !r->stale && r->waiting.n == 0 && r->stable == r->version;
}

/* The new member has everything that was ever acknowledged, and will have everything that is. */
static bool is_complete(const mr_psr *r) { return feeds_new_one(r) && r->awaited && r->after_has >= r->stable; }

/* Tells the manager, once per tick; it may have missed the last message. */
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

/* Does all that has become possible; every event ends here. */
static void settle_range(mr_psr *r, mr_psr_actions *out)
{
    find_stable(r);
    while (r->head && !r->stale && r->waiting.n > 0 && r->version - r->stable < (uint64_t)r->o.window) {
        make_record(r, out);
        find_stable(r);
    }
    feed_successor(r, out);
    find_stable(r); /* sending may have made the new member awaited */
    give_answers(r, out);
    if (r->before && r->stable > r->told_stable)
        say_have(r, false, out);
    tell_news(r, out);
    forget_records(r, out);
    MR_ASSERT(r->stable <= r->version && r->after_has <= r->version && r->first_kept <= r->version + 1);
}

/* ---- views ---- */

/* When our membership in this view began; 0: we are no member. */
static uint64_t since_of(const mr_psr *r, const mr_ps_range *s)
{
    int i = mr_ps_range_index(s, r->self);
    if (i >= 0)
        return s->chain[i].since;
    return s->catching.id == r->self ? s->catching.since : 0;
}

/* What we hold is of another membership, and need not be a prefix of what the chain holds: we start
 * empty. */
static void begin_empty(mr_psr *r, uint64_t since, mr_psr_actions *out)
{
    MR_ASSERT(r->waiting.n == 0 && r->answers.n == 0);
    if (r->since) {
        mr_ps_clock_drop_range(r->clock, r->range);
        act(out, MR_PSR_RESET);
    }
    r->since = since;
    r->version = r->stable = 0;
    r->first_kept = 1;
}

/* Adopts our role in the view. What the successor has is unknown until it says so in this epoch. */
static void take_part(mr_psr *r, const mr_ps_range *s)
{
    r->view = *s;
    r->before = mr_ps_range_before(s, r->self);
    r->after = mr_ps_range_after(s, r->self);
    r->catching = s->catching.id == r->self;
    r->head = mr_ps_range_head(s) == r->self;
    r->after_has = r->sent = r->told_stable = 0;
    r->met = r->copying = r->awaited = r->told_complete = r->told_drained = r->told_declined = false;
}

/* A view that does not change this range only ends doubts (`stale`). Otherwise both neighbours are
 * told and asked what they have. */
void mr_psr_view(mr_psr *r, const mr_ps_range *s, int64_t now_ns, mr_psr_actions *out)
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
    settle_range(r, out);
}

/* ---- pushes ---- */

/* Why a push or pull cannot be served here; MR_OK: it can. A range that is lost but was ours is
 * answered UNAVAILABLE: the manager is about to hear that we are alive. */
static mr_code refusal_code(const mr_psr *r, uint64_t epoch)
{
    if (r->view.lost && r->view.chain[0].id != r->self)
        return MR_DATA_LOSS;
    return r->head && !r->stale && epoch <= r->view.epoch ? MR_OK : MR_UNAVAILABLE;
}

mr_code mr_psr_admits(const mr_psr *r, uint64_t epoch) { return refusal_code(r, epoch); }

/* The newest waiting push of a client; ts not 0: the one with that timestamp. */
static mr_psr_push *find_waiting(mr_psr *r, uint64_t client, uint64_t ts)
{
    for (int i = r->waiting.n - 1; i >= 0; i--)
        if (r->waiting.p[i].client == client && (ts == 0 || r->waiting.p[i].ts == ts))
            return &r->waiting.p[i];
    return NULL;
}

/* A push that is in a record and not acknowledged yet; NULL: none. */
static mr_psr_answer *find_answer(mr_psr *r, uint64_t client, uint64_t ts)
{
    for (int i = 0; i < r->answers.n; i++)
        if (r->answers.p[i].client == client && r->answers.p[i].ts == ts)
            return &r->answers.p[i];
    return NULL;
}

/* The push was sent again: the earlier request is no longer waited for. */
static void replace_cookie(mr_psr *r, uint64_t *cookie, uint64_t by, mr_psr_actions *out)
{
    answer(r, *cookie, MR_UNAVAILABLE, 0, out);
    *cookie = by;
}

/* The push was taken before. It may be acknowledged only if the chain has everything that we have:
 * this server could die now. */
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
    else if (r->answers.n >= 2 * r->o.max_waiting) /* more than real clients would cause */
        answer(r, p->cookie, MR_UNAVAILABLE, 0, out);
    else
        mr_vec_push(&r->answers, (mr_psr_answer){p->client, p->ts, p->cookie, r->version});
}

/* A new push waits for the next record. */
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

/* Compares the push with the client's last one here, which may still be waiting. */
static void take_push(mr_psr *r, const mr_psr_push *p, mr_psr_actions *out)
{
    MR_ASSERT(r->head && !r->stale && !r->view.draining);
    const mr_psr_push *before = find_waiting(r, p->client, 0);
    uint64_t last = before ? before->ts : mr_ps_clock_get(r->clock, p->client, r->range);
    switch (p->client ? mr_ps_turn_at(last, p->ts, p->prev) : MR_PS_BAD) {
    case MR_PS_NEXT: take_next(r, p, out); break;
    case MR_PS_DUPLICATE: take_duplicate(r, p, out); break;
    case MR_PS_GAP: answer(r, p->cookie, MR_ABORTED, last, out); break;
    case MR_PS_BAD: answer(r, p->cookie, MR_INVALID_ARGUMENT, last, out); break;
    }
}

/* A client with a newer view makes us ask for it. */
void mr_psr_push_part(mr_psr *r, const mr_psr_push *p, int64_t now_ns, mr_psr_actions *out)
{
    (void)now_ns;
    mr_code code = refusal_code(r, p->epoch);
    if (p->epoch > r->view.epoch)
        ask_view(r, out);
    if (code == MR_OK && (r->view.draining || p->generation != r->view.generation))
        code = MR_UNAVAILABLE; /* the client needs a newer view, now or soon */
    if (code != MR_OK) {
        answer(r, p->cookie, code, 0, out);
        return;
    }
    take_push(r, p, out);
    settle_range(r, out);
}

/* ---- messages of other servers ---- */

/* Whether a message about this range is of our epoch. A sender that is behind is told so, if it
 * depends on us. */
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

/* Restores the clocks to what they were before the first n pushes of a record. */
static void undo_clocks(mr_psr *r, const mr_psr_record_info *record, int n)
{
    MR_ASSERT(r->undo.n >= n);
    while (n-- > 0)
        mr_status_free(mr_ps_clock_set(r->clock, record->pushes[n].client, r->range, r->range + 1, r->undo.p[n]));
}

/* Applies the next record. A head takes no push that its clock forbids, and our clock is the same,
 * so a record that does not fit is not a head's. Then nothing is changed, and the result is false. */
static bool apply_record(mr_psr *r, const mr_psr_record_info *record, int index, mr_psr_actions *out)
{
    MR_ASSERT(record->version == r->version + 1);
    r->undo.n = 0;
    for (int i = 0; i < record->n; i++) {
        const mr_ps_stamp *p = &record->pushes[i];
        uint64_t last = mr_ps_clock_get(r->clock, p->client, r->range);
        if (p->client == 0 || p->ts <= last) {
            undo_clocks(r, record, i);
            return false;
        }
        mr_vec_push(&r->undo, last);
        mr_status_free(mr_ps_clock_set(r->clock, p->client, r->range, r->range + 1, p->ts));
    }
    r->version++;
    mr_psr_action *a = act(out, MR_PSR_APPLY);
    a->version = r->version;
    a->index = index;
    return true;
}

/* Takes the records that follow ours; older ones are ignored. A gap, or nothing new, means that our
 * last "have" was lost, so it is repeated. */
void mr_psr_append(mr_psr *r, uint64_t from, uint64_t epoch, const mr_psr_record_info *records, int n, int64_t now_ns,
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
    bool gap = n == 0; /* an append without records is a question */
    for (int i = 0; i < n && !gap; i++) {
        if (records[i].version == r->version + 1 && !apply_record(r, &records[i], i, out)) {
            r->n_bad++;
            break;
        }
        gap = records[i].version > r->version;
    }
    settle_range(r, out);
    if (gap || r->version == had)
        say_have(r, gap, out);
}

/* What the successor has. Never believed beyond what we have ourselves. */
void mr_psr_have(mr_psr *r, uint64_t from, uint64_t epoch, uint64_t version, uint64_t stable, bool again,
                 int64_t now_ns, mr_psr_actions *out)
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
    settle_range(r, out);
}

/* The successor knows a newer epoch, so we may not be head any more: no pushes until the view
 * comes. */
void mr_psr_refused(mr_psr *r, uint64_t from, uint64_t epoch, mr_psr_actions *out)
{
    if (from != r->after || epoch <= r->view.epoch)
        return;
    r->stale = true;
    turn_away(r, out);
    ask_view(r, out);
}

/* Replaces the range by the copy. Versions continue from the copy's, so absurd ones are refused. */
void mr_psr_copy(mr_psr *r, uint64_t from, uint64_t epoch, uint64_t version, const mr_ps_stamp *stamps, int n,
                 int64_t now_ns, mr_psr_actions *out)
{
    (void)now_ns;
    if (!is_timely(r, from, epoch, true, out))
        return;
    if (!mr_psr_follows(r, from, epoch) || version > UINT64_MAX / 2) {
        r->n_bad++;
        return;
    }
    if (version > r->version) {
        mr_status *st = mr_ps_clock_import(r->clock, r->range, stamps, n);
        if (st) { /* nothing has changed */
            mr_status_free(st);
            r->n_bad++;
            return;
        }
        act(out, MR_PSR_INSTALL)->version = version;
        r->version = version;
        r->first_kept = version + 1;
    }
    settle_range(r, out);
    say_have(r, true, out);
}

/* Whether a message is from our predecessor, in our epoch: the only one from which records and copies are taken. */
bool mr_psr_follows(const mr_psr *r, uint64_t from, uint64_t epoch)
{
    return from != 0 && from == r->before && epoch == r->view.epoch;
}

/* The predecessor keeps sending what is missing, so the manager is told again at each tick until
 * the view changes. */
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

/* After a failure the successor is asked what it has, after a pause. */
void mr_psr_copied(mr_psr *r, uint64_t to, bool ok, int64_t now_ns, mr_psr_actions *out)
{
    if (!r->copying || to != r->after)
        return;
    r->copying = false;
    if (!ok) {
        r->sent = r->after_has;
        r->met = false;
        r->retry_at_ns = now_ns + r->o.retry_ns;
    }
    settle_range(r, out);
}

/* ---- time ---- */

/* Every retry_ns without progress: repeats reports, questions and "have", any of which may be lost. */
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
    settle_range(r, out);
}
