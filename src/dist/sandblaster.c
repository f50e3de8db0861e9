/* dist/sandblaster.c -- portions, and which replica computes which.
 *
 * A portion goes FREE -> GIVEN -> KEPT -> SAFE, and back to FREE when the only replica that had it
 * is lost or disowned. Invariants while an evaluation runs:
 * - a KEPT portion is in the sum of exactly one replica, which is present and not disowned;
 * - a SAFE portion is in exactly one lane, written by the replica that kept it and acknowledged as
 *   a whole;
 * - a lane has at most one writer, and none after its writer was lost while flushing;
 * - n_free and n_safe count the FREE and SAFE portions. */
#include "dist/sandblaster.h"

#include "base/status.h"

void mr_blast_init(mr_blast *b, const mr_blast_rules *o)
{
    *b = (mr_blast){.o = *o};
    b->o.portions = MR_MAX(o->portions, 1);
    b->portions = mr_new_array(mr_blast_portion, b->o.portions);
}

void mr_blast_deinit(mr_blast *b)
{
    mr_vec_deinit(&b->replicas);
    mr_vec_deinit(&b->spare);
    mr_vec_deinit(&b->resting);
    mr_free(b->portions);
}

static mr_blast_replica *find_replica(mr_blast *b, int64_t id)
{
    for (int i = 0; i < b->replicas.n; i++)
        if (b->replicas.p[i].id == id)
            return &b->replicas.p[i];
    return NULL;
}

bool mr_blast_counts(const mr_blast *b, int lane)
{
    for (int i = 0; i < b->o.portions; i++)
        if (b->portions[i].holding == MR_BLAST_SAFE && b->portions[i].lane == lane)
            return true;
    return false;
}

/* ---- portions ---- */

/* The portion must be computed again. */
static void set_free(mr_blast *b, mr_blast_portion *p)
{
    *p = (mr_blast_portion){.by = {-1, -1}};
    b->n_free++;
    MR_ASSERT(b->n_free + b->n_safe <= b->o.portions);
}

/* Takes back what this replica has and its lane does not: what it computes and its sum; with `lane`
 * also what the lane has. */
static void take_away(mr_blast *b, mr_blast_replica *r, bool lane)
{
    for (int i = 0; i < b->o.portions; i++) {
        mr_blast_portion *p = &b->portions[i];
        if (p->holding == MR_BLAST_GIVEN && (p->by[0] == r->id || p->by[1] == r->id)) {
            p->by[p->by[0] == r->id ? 0 : 1] = -1;
            if (p->by[0] < 0 && p->by[1] < 0)
                set_free(b, p);
        } else if (p->holding == MR_BLAST_KEPT && p->by[0] == r->id) {
            set_free(b, p);
        } else if (p->holding == MR_BLAST_SAFE && lane && p->lane == r->lane) {
            b->n_safe--;
            set_free(b, p);
        }
    }
    r->unflushed = 0;
}

/* All portions are free, disowned replicas get another chance, and lanes that counted may be
 * reused. */
static void begin_evaluation(mr_blast *b)
{
    b->evaluation++;
    b->running = true;
    b->n_free = b->n_safe = 0;
    for (int i = 0; i < b->o.portions; i++)
        set_free(b, &b->portions[i]);
    for (int i = 0; i < b->replicas.n; i++) {
        mr_blast_replica *r = &b->replicas.p[i];
        r->disowned = r->flushed = r->keep = false;
        r->unflushed = 0;
    }
    for (int i = 0; i < b->resting.n; i++)
        mr_vec_push(&b->spare, b->resting.p[i]);
    b->resting.n = 0;
}

/* ---- orders ---- */

/* Gives an idle replica its next order. */
static void give_order(mr_blast *b, mr_blast_replica *r, mr_blast_do what, int64_t portion, int64_t now_ns,
                       mr_blast_actions *out)
{
    MR_ASSERT(r->state == MR_BLAST_IDLE && !r->disowned);
    r->state = what == MR_BLAST_FLUSH ? MR_BLAST_FLUSHING : MR_BLAST_COMPUTING;
    r->evaluation = b->evaluation;
    r->portion = portion;
    r->since_ns = now_ns;
    mr_vec_push(out, (mr_blast_action){.what = what, .replica = r->id, .evaluation = b->evaluation, .portion = portion,
                                       .lane = r->lane, .keep = r->keep});
    r->keep = false;
}

/* Orders a flush. A replica gets its lane with its first flush: a spare one, or a new one. */
static void give_flush(mr_blast *b, mr_blast_replica *r, int64_t now_ns, mr_blast_actions *out)
{
    if (r->lane < 0)
        r->lane = b->spare.n ? mr_vec_pop(&b->spare) : b->n_lanes++;
    give_order(b, r, MR_BLAST_FLUSH, -1, now_ns, out);
}

/* When a replica got its present order; 0: there is no such replica. */
static int64_t since_of(mr_blast *b, int64_t id)
{
    const mr_blast_replica *r = find_replica(b, id);
    return r ? r->since_ns : 0;
}

/* Where another replica that computes the portion is noted: if two already do, in place of the one
 * that has been at it longer. */
static int place_in(mr_blast *b, const mr_blast_portion *p)
{
    if (p->by[0] < 0 || p->by[1] < 0)
        return p->by[0] < 0 ? 0 : 1;
    return since_of(b, p->by[0]) <= since_of(b, p->by[1]) ? 0 : 1;
}

/* A portion may be given to a second replica, if the first one is slow. */
static void give_portion(mr_blast *b, mr_blast_replica *r, int at, int64_t now_ns, mr_blast_actions *out)
{
    mr_blast_portion *p = &b->portions[at];
    MR_ASSERT(p->holding == MR_BLAST_FREE || p->holding == MR_BLAST_GIVEN);
    if (p->holding == MR_BLAST_FREE)
        b->n_free--;
    else
        b->given_twice++;
    p->holding = MR_BLAST_GIVEN;
    p->by[place_in(b, p)] = r->id;
    give_order(b, r, MR_BLAST_COMPUTE, at, now_ns, out);
}

static int find_free(const mr_blast *b)
{
    for (int i = 0; i < b->o.portions; i++)
        if (b->portions[i].holding == MR_BLAST_FREE)
            return i;
    return -1;
}

/* When the last replica that has the portion got it; 0: none has it. */
static int64_t given_since(mr_blast *b, const mr_blast_portion *p)
{
    return MR_MAX(since_of(b, p->by[0]), since_of(b, p->by[1]));
}

/* A portion that only one replica computes, or that two have been computing for longer than
 * patience: of those the one that was given out first. */
static int find_second(mr_blast *b, int64_t now_ns)
{
    int best = -1;
    for (int i = 0; i < b->o.portions; i++) {
        const mr_blast_portion *p = &b->portions[i];
        if (p->holding != MR_BLAST_GIVEN)
            continue;
        bool alone = p->by[0] < 0 || p->by[1] < 0;
        if (!alone && now_ns - given_since(b, p) < b->o.patience_ns)
            continue;
        if (best < 0 || given_since(b, p) < given_since(b, &b->portions[best]))
            best = i;
    }
    return best;
}

/* The next order of an idle replica. Before it takes one of the last portions it flushes: if it
 * turns out to be slow, only that portion has to be computed again. */
static void give_work(mr_blast *b, mr_blast_replica *r, int64_t now_ns, mr_blast_actions *out)
{
    if (!b->running || r->state != MR_BLAST_IDLE || r->disowned)
        return;
    int at = find_free(b);
    if (r->unflushed > 0 && b->n_free <= b->replicas.n) {
        give_flush(b, r, now_ns, out);
        return;
    }
    if (at < 0)
        at = find_second(b, now_ns);
    if (at >= 0)
        give_portion(b, r, at, now_ns, out);
}

/* ---- slow and lost replicas ---- */

static bool has_idle_replica(const mr_blast *b)
{
    for (int i = 0; i < b->replicas.n; i++)
        if (b->replicas.p[i].state == MR_BLAST_IDLE && !b->replicas.p[i].disowned)
            return true;
    return false;
}

/* From now on the lane is in doubt, until the replica reports that it was flushed. */
static void abandon_lane(mr_blast_replica *r)
{
    r->flushed = false;
}

/* Only a replica that holds sums which others need is disowned. A portion that is merely being
 * computed is given to another replica as well. */
static void disown_slow(mr_blast *b, int64_t now_ns)
{
    for (int i = 0; i < b->replicas.n; i++) {
        mr_blast_replica *r = &b->replicas.p[i];
        bool here = r->state != MR_BLAST_IDLE && r->evaluation == b->evaluation && !r->disowned;
        if (!here || now_ns - r->since_ns < b->o.patience_ns)
            continue;
        bool holds = r->state == MR_BLAST_FLUSHING || r->unflushed > 0;
        if (!holds)
            continue;
        r->disowned = true;
        b->disowned++;
        take_away(b, r, r->state == MR_BLAST_FLUSHING);
        if (r->state == MR_BLAST_FLUSHING)
            abandon_lane(r);
    }
}

static bool all_disowned(const mr_blast *b)
{
    for (int i = 0; i < b->replicas.n; i++)
        if (!b->replicas.p[i].disowned)
            return false;
    return b->replicas.n > 0;
}

/* If nothing is under way, the lane is quiet and may serve another replica, but not while it still
 * counts. */
static void lose_replica(mr_blast *b, mr_blast_replica *r)
{
    bool flushing = r->state == MR_BLAST_FLUSHING, counts = r->flushed && !flushing;
    b->lost++;
    if (b->running)
        take_away(b, r, flushing && r->evaluation == b->evaluation);
    if (r->lane >= 0 && !flushing) {
        if (counts)
            mr_vec_push(&b->resting, r->lane);
        else
            mr_vec_push(&b->spare, r->lane);
    }
    mr_vec_remove_swap(&b->replicas, r - b->replicas.p);
}

/* ---- reports of replicas ---- */

/* A result counts if its portion still needs it; the first of two replicas wins. */
static void take_done(mr_blast *b, mr_blast_replica *r, const mr_blast_event *e)
{
    if (r->state != MR_BLAST_COMPUTING || e->evaluation != r->evaluation || e->portion != r->portion)
        return; /* not what it was ordered to do */
    r->state = MR_BLAST_IDLE;
    r->keep = false;
    mr_blast_portion *p = &b->portions[r->portion];
    if (!b->running || r->evaluation != b->evaluation || r->disowned || p->holding != MR_BLAST_GIVEN) {
        b->dropped++;
        return;
    }
    *p = (mr_blast_portion){.holding = MR_BLAST_KEPT, .by = {r->id, -1}, .loss = e->loss};
    r->unflushed++;
    r->keep = true;
}

/* Everything that the replica kept is now safe in its lane. */
static void take_flushed(mr_blast *b, mr_blast_replica *r, const mr_blast_event *e)
{
    if (r->state != MR_BLAST_FLUSHING || e->evaluation != r->evaluation)
        return;
    r->state = MR_BLAST_IDLE;
    if (!b->running || r->evaluation != b->evaluation || r->disowned)
        return;
    MR_ASSERT(r->lane >= 0);
    r->flushed = true;
    r->unflushed = 0;
    for (int i = 0; i < b->o.portions; i++) {
        mr_blast_portion *p = &b->portions[i];
        if (p->holding == MR_BLAST_KEPT && p->by[0] == r->id) {
            p->holding = MR_BLAST_SAFE;
            p->lane = r->lane;
            b->n_safe++;
        }
    }
}

/* In the order of portions, so that the sum does not depend on which replica computed what. */
static double sum_losses(const mr_blast *b)
{
    double sum = 0;
    for (int i = 0; i < b->o.portions; i++)
        sum += b->portions[i].loss;
    return sum;
}

/* Completes the evaluation, or gives orders to all idle replicas. If replicas idle, slow ones are
 * disowned; if all are, the evaluation starts again. */
static void settle_evaluation(mr_blast *b, int64_t now_ns, mr_blast_actions *out)
{
    if (!b->running)
        return;
    if (b->n_safe == b->o.portions) {
        b->running = false;
        mr_vec_push(out,
                    (mr_blast_action){.what = MR_BLAST_COMPLETE, .evaluation = b->evaluation, .loss = sum_losses(b)});
        return;
    }
    for (int i = 0; i < b->replicas.n; i++)
        give_work(b, &b->replicas.p[i], now_ns, out);
    if (has_idle_replica(b)) {
        disown_slow(b, now_ns);
        for (int i = 0; i < b->replicas.n; i++)
            give_work(b, &b->replicas.p[i], now_ns, out);
    }
    if (all_disowned(b)) {
        b->restarts++;
        begin_evaluation(b);
        for (int i = 0; i < b->replicas.n; i++)
            give_work(b, &b->replicas.p[i], now_ns, out);
    }
}

/* Events of unknown replicas, and answers to other orders than the present one, change nothing; settle_evaluation then
 * gives out all orders that are possible. */
void mr_blast_step(mr_blast *b, const mr_blast_event *e, int64_t now_ns, mr_blast_actions *out)
{
    mr_blast_replica *r = find_replica(b, e->replica);
    switch (e->kind) {
    case MR_BLAST_EVALUATE: begin_evaluation(b); break; /* an evaluation that still runs is given up */
    case MR_BLAST_JOIN:
        if (!r && e->replica >= 0)
            mr_vec_push(&b->replicas, (mr_blast_replica){.id = e->replica, .lane = -1});
        break;
    case MR_BLAST_DONE:
        if (r)
            take_done(b, r, e);
        break;
    case MR_BLAST_FLUSHED:
        if (r)
            take_flushed(b, r, e);
        break;
    case MR_BLAST_LOST:
        if (r)
            lose_replica(b, r);
        break;
    case MR_BLAST_TICK: break;
    }
    settle_evaluation(b, now_ns, out);
}
