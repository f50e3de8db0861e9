/* exec/partial_use.c -- which feeds and fetches a partial run has used, and which it may use next.
 *
 * The state is one flag per feed and fetch of the setup; a flag that is set is never cleared. The texts of
 * errors are TensorFlow's. */
#include "exec/partial_use.h"

#include "base/memory.h"

void mr_partial_use_init(mr_partial_use *u, const mr_run_signature *sig)
{
    *u = (mr_partial_use){sig, mr_new_array(bool, sig->n_feeds + 1), mr_new_array(bool, sig->n_fetches + 1)};
}

void mr_partial_use_deinit(mr_partial_use *u)
{
    mr_free(u->fed);
    mr_free(u->fetched);
    *u = (mr_partial_use){0};
}

/* Linear: a signature has few feeds and fetches. */
int mr_outs_find(const mr_out *o, int n, mr_out want)
{
    for (int i = 0; i < n; i++)
        if (mr_out_eq(o[i], want))
            return i;
    return -1;
}

/* ---- once each ---- */

/* A feed or fetch must be named in the setup and not used yet. */
static mr_status *check_one(const char *what, const mr_out *named, int n, const bool *used, mr_out o, const char *done)
{
    int i = o.node ? mr_outs_find(named, n, o) : -1;
    if (i < 0)
        return mr_invalid("The %s %s:%d was not specified in partial_run_setup.", what, o.node ? o.node->name : "?", o.index);
    if (used[i])
        return mr_invalid("The %s %s:%d has already been %s.", what, o.node->name, o.index, done);
    return NULL;
}

/* A feed may not be listed twice in one call; a fetch may. */
mr_status *mr_partial_use_check(const mr_partial_use *u, const mr_partial_call *c)
{
    const mr_run_signature *sig = u->sig;
    for (int i = 0; i < c->n_feeds; i++) {
        MR_TRY(check_one("feed", sig->feeds, sig->n_feeds, u->fed, c->feeds[i], "fed"));
        if (mr_outs_find(c->feeds, i, c->feeds[i]) >= 0)
            return mr_invalid("The feed %s:%d has already been fed.", c->feeds[i].node->name, c->feeds[i].index);
    }
    for (int i = 0; i < c->n_fetches; i++)
        MR_TRY(check_one("fetch", sig->fetches, sig->n_fetches, u->fetched, c->fetches[i], "fetched"));
    return NULL;
}

/* Everything that the call names is used now, even if the call fails later: a failed call ends the partial run. */
void mr_partial_use_mark(mr_partial_use *u, const mr_partial_call *c)
{
    const mr_run_signature *sig = u->sig;
    MR_ASSERT(u->fed && u->fetched);
    for (int i = 0; i < sig->n_feeds; i++)
        u->fed[i] |= mr_outs_find(c->feeds, c->n_feeds, sig->feeds[i]) >= 0;
    for (int i = 0; i < sig->n_fetches; i++)
        u->fetched[i] |= mr_outs_find(c->fetches, c->n_fetches, sig->fetches[i]) >= 0;
}

static bool all_used(const bool *used, int n)
{
    for (int i = 0; i < n; i++)
        if (!used[i])
            return false;
    return true;
}

/* True also for a setup without feeds and fetches. */
bool mr_partial_use_all(const mr_partial_use *u)
{
    return all_used(u->fed, u->sig->n_feeds) && all_used(u->fetched, u->sig->n_fetches);
}

/* ---- what follows from what ---- */

/* True if the output is a feed of the setup that has not been fed and is not fed by this call. */
static bool is_missing(const mr_partial_use *u, const mr_partial_call *c, mr_out o, bool *is_feed)
{
    int i = mr_outs_find(u->sig->feeds, u->sig->n_feeds, o);
    *is_feed = i >= 0;
    return i >= 0 && !u->fed[i] && mr_outs_find(c->feeds, c->n_feeds, o) < 0;
}

typedef MR_VEC(mr_node *) node_vec;

/* Walks back from a fetch, stopping at feeds. Returns false if it reaches a feed that is missing. */
static bool fetch_follows(const mr_partial_use *u, const mr_partial_call *c, mr_node *from, bool *seen)
{
    node_vec todo = {0};
    bool ok = true, is_feed;
    mr_vec_push(&todo, from);
    while (ok && todo.n > 0) {
        mr_node *n = mr_vec_pop(&todo);
        if (seen[n->id])
            continue;
        seen[n->id] = true;
        for (int i = 0; ok && i < n->n_in; i++) {
            ok = !is_missing(u, c, n->in[i], &is_feed);
            if (ok && !is_feed)
                mr_vec_push(&todo, n->in[i].node);
        }
        for (int i = 0; ok && i < n->n_ctrl; i++) {
            ok = n->ctrl[i]->n_out != 1 || !is_missing(u, c, (mr_out){n->ctrl[i], 0}, &is_feed);
            mr_vec_push(&todo, n->ctrl[i]);
        }
    }
    mr_vec_deinit(&todo);
    return ok;
}

/* Visits the graph once per fetch, so that the error names the fetch that fails. */
mr_status *mr_partial_use_follow(const mr_partial_use *u, const mr_graph *g, const mr_partial_call *c)
{
    for (int i = 0; i < c->n_fetches; i++) {
        bool *seen = mr_new_array(bool, g->nodes.n + 1);
        bool ok = fetch_follows(u, c, c->fetches[i].node, seen);
        mr_free(seen);
        if (!ok)
            return mr_invalid("Fetch %s:%d can't be computed from the feeds that have been fed so far.",
                              c->fetches[i].node->name, c->fetches[i].index);
    }
    return NULL;
}
