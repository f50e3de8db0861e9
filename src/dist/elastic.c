/* dist/elastic.c -- see elastic.h.
 *
 * A generation works while `members` is not empty. A worker that asks for the next one ends it.
 * The asks wait until all workers have asked, or until none has asked for the settling time; then they
 * become the next generation, and the list is empty again. A worker has at most one ask in the
 * list.
 *
 * An ask is answered exactly once: by the generation that it becomes part of, by an error if it is
 * invalid, by ABORTED when the same worker asks again, or by mr_elastic_end. A caller that has gone is
 * removed without an answer (mr_elastic_leave). */
#include "dist/elastic.h"

#include "base/memory.h"

void mr_elastic_deinit(mr_elastic *e)
{
    mr_vec_deinit(&e->members);
    mr_vec_deinit(&e->asks);
}

/* Takes over st. */
static void refuse_ask(mr_elastic_answers *out, void *caller, mr_status *st)
{
    mr_vec_push(out, (mr_elastic_answer){.caller = caller, .st = st});
}

/* By worker. Insertion sort: there are few, and they are nearly sorted. */
static void sort_asks(mr_elastic *e)
{
    for (int i = 1; i < e->asks.n; i++)
        for (int k = i; k > 0 && e->asks.p[k].worker < e->asks.p[k - 1].worker; k--) {
            mr_elastic_ask t = e->asks.p[k];
            e->asks.p[k] = e->asks.p[k - 1];
            e->asks.p[k - 1] = t;
        }
}

/* Whether as many workers ask as any of them expects. */
static bool is_complete(const mr_elastic *e)
{
    int64_t expected = 1;
    for (int i = 0; i < e->asks.n; i++)
        expected = MR_MAX(expected, e->asks.p[i].n_workers);
    return e->asks.n >= expected;
}

/* How long to wait after the newest ask. The longest wish counts; it is stretched while generations
 * end too soon. */
static int64_t settle_ns(const mr_elastic *e)
{
    int64_t wait = 0;
    for (int i = 0; i < e->asks.n; i++)
        wait = MR_MAX(wait, e->formed_once ? e->asks.p[i].settle_ns : e->asks.p[i].wait_ns);
    return e->formed_once && e->stretch ? wait * e->stretch : wait;
}

/* Numbers wrap around, so that no number a peer names is the last one: b is later if it is less
 * than half a round ahead. */
static bool is_later(int64_t b, int64_t a)
{
    int64_t ahead = (b - a + MR_ELASTIC_MAX_GENERATION) % MR_ELASTIC_MAX_GENERATION;
    return b > 0 && (a == 0 || (ahead > 0 && ahead < MR_ELASTIC_MAX_GENERATION / 2));
}

/* Numbers continue from the latest that any worker names, also after the leader was restarted.
 * The member with the highest step is the source for the others. */
static void form_generation(mr_elastic *e, int64_t now_ns, mr_elastic_answers *out)
{
    MR_ASSERT(e->asks.n > 0);
    int source = 0;
    e->settled_ns = is_complete(e) ? 0 : settle_ns(e); /* a complete generation did not have to wait */
    e->formed_ns = now_ns;
    sort_asks(e);
    e->members.n = 0;
    for (int i = 0; i < e->asks.n; i++) {
        const mr_elastic_ask *a = &e->asks.p[i];
        e->generation = is_later(a->generation, e->generation) ? a->generation : e->generation;
        source = a->step > e->asks.p[source].step ? i : source;
        mr_vec_push(&e->members, a->worker);
    }
    MR_ASSERT(e->generation >= 0 && e->generation <= MR_ELASTIC_MAX_GENERATION);
    e->generation = e->generation % MR_ELASTIC_MAX_GENERATION + 1;
    e->formed_once = true;
    for (int i = 0; i < e->asks.n; i++)
        mr_vec_push(out, (mr_elastic_answer){e->asks.p[i].caller, NULL, e->generation, e->asks.n, i, source});
    e->asks.n = 0;
}

static int64_t due_ns(const mr_elastic *e) { return e->newest_ns + settle_ns(e); }

int64_t mr_elastic_next_ns(const mr_elastic *e) { return e->asks.n ? due_ns(e) : 0; }

void mr_elastic_tick(mr_elastic *e, int64_t now_ns, mr_elastic_answers *out)
{
    if (e->asks.n && (is_complete(e) || now_ns >= due_ns(e)))
        form_generation(e, now_ns, out);
}

/* A generation that ends soon after it was formed did not wait for a worker that was about to join: the
 * next one waits longer. */
static void end_generation(mr_elastic *e, int64_t now_ns)
{
    bool soon = now_ns - e->formed_ns < 4 * e->settled_ns;
    e->stretch = soon ? MR_MIN(MR_MAX(e->stretch, 1) * 2, MR_ELASTIC_MAX_STRETCH) : 1;
    e->members.n = 0;
}

/* The limits also keep sums of times and numbers of generations from overflowing. */
mr_status *mr_elastic_check(const mr_elastic_ask *a)
{
    if (a->worker >= 0 && a->n_workers >= 1 && a->n_workers <= MR_ELASTIC_MAX_WORKERS && a->worker < a->n_workers &&
        a->generation >= 0 && a->generation <= MR_ELASTIC_MAX_GENERATION && a->wait_ns >= 0 && a->settle_ns >= 0 &&
        a->wait_ns <= MR_ELASTIC_MAX_WAIT_NS && a->settle_ns <= MR_ELASTIC_MAX_WAIT_NS)
        return NULL;
    return mr_invalid("worker %lld of %lld asks for the generation after %lld, or its waiting times are out of range",
                      (long long)a->worker, (long long)a->n_workers, (long long)a->generation);
}

/* A worker that asks again replaces its earlier ask. *ends is the generation that this ask ends, or
 * 0: its members must not wait for the worker that asks. */
void mr_elastic_step(mr_elastic *e, const mr_elastic_ask *a, int64_t now_ns, mr_elastic_answers *out, int64_t *ends)
{
    *ends = 0;
    mr_status *st = mr_elastic_check(a);
    if (st) {
        refuse_ask(out, a->caller, st);
        return;
    }
    for (int i = 0; i < e->asks.n; i++)
        if (e->asks.p[i].worker == a->worker) { /* another incarnation of it, or the call was lost */
            refuse_ask(out, e->asks.p[i].caller, mr_error(MR_ABORTED, "worker %lld asked again", (long long)a->worker));
            mr_vec_remove_swap(&e->asks, i);
            break;
        }
    if (e->members.n) {
        *ends = e->generation;
        end_generation(e, now_ns);
    }
    mr_vec_push(&e->asks, *a);
    e->newest_ns = now_ns;
    mr_elastic_tick(e, now_ns, out);
}

/* The generation that the ask ended stays ended: its members have been told. */
void mr_elastic_leave(mr_elastic *e, const void *caller)
{
    for (int i = 0; i < e->asks.n; i++)
        if (e->asks.p[i].caller == caller) {
            mr_vec_remove_swap(&e->asks, i);
            return;
        }
}

bool mr_elastic_is_idle(const mr_elastic *e, int64_t now_ns)
{
    return e->asks.n == 0 && now_ns - e->newest_ns >= MR_ELASTIC_IDLE_NS;
}

int64_t mr_elastic_hand_over(mr_elastic *e, int64_t now_ns)
{
    int64_t ends = e->members.n ? e->generation : 0;
    e->members.n = 0;
    e->formed_once = false;
    e->stretch = 0;
    e->newest_ns = now_ns; /* so that it is not handed over again before its first worker has asked */
    return ends;
}

void mr_elastic_end(mr_elastic *e, const mr_status *why, mr_elastic_answers *out)
{
    for (int i = 0; i < e->asks.n; i++)
        refuse_ask(out, e->asks.p[i].caller, mr_status_copy(why));
    e->asks.n = 0;
}
