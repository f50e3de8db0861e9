/* tests/fuzz/op_session.c -- sessions for fuzzing, and running the graph of a trial in one. */
#include "tests/fuzz/op_session.h"

#include "base/memory.h"
#include "graph/grad.h"
#include "tests/fuzz/fuzz.h"

enum { MOST_FOLDED = 64 << 10, TIMEOUT_MS = 5, MAX_FEEDS = 24, MAX_FETCHES = 16 };

mr_session_config fuzz_session_config(fuzz_rng *r)
{
    mr_session_config c = {.inter_threads = -1,
                           .intra_threads = 1,
                           .memory_limit = FUZZ_MEMORY_LIMIT,
                           .max_folded_bytes = MOST_FOLDED,
                           .soft_placement = !fuzz_once_in(r, 4),
                           .no_fold = fuzz_once_in(r, 4),
                           .no_cse = fuzz_once_in(r, 4),
                           .n_cpus = fuzz_once_in(r, 6) ? 2 : 1};
    if (fuzz_once_in(r, 40))
        c.inter_threads = c.intra_threads = 2;
    return c;
}

typedef struct whole {
    mr_run_args args;
    mr_out feeds[MAX_FEEDS], fetches[MAX_FETCHES];
    mr_tensor *values[MAX_FEEDS], *got[MAX_FETCHES];
    mr_tensor **to[MAX_FETCHES]; /* where it goes; NULL: nowhere */
} whole;

static bool is_fed(const whole *w, mr_out o)
{
    for (int i = 0; i < w->args.n_feeds; i++)
        if (mr_out_eq(w->feeds[i], o))
            return true;
    return false;
}

/* Inputs that are Placeholders; a value twice in a list is one Placeholder or two. */
static void add_feeds(whole *w, const mr_trial_step *s)
{
    for (int i = 0; s->node && i < s->n_in && i < s->node->n_in; i++) {
        mr_out from = s->node->in[i];
        if (!s->in[i] || !from.node || !mr_node_is(from.node, "Placeholder") || is_fed(w, from) ||
            w->args.n_feeds == MAX_FEEDS)
            continue;
        w->feeds[w->args.n_feeds] = from;
        w->values[w->args.n_feeds++] = s->in[i];
    }
}

static void fetch(whole *w, mr_out o, mr_tensor **to)
{
    if (w->args.n_fetches == MAX_FETCHES)
        return;
    w->to[w->args.n_fetches] = to;
    w->fetches[w->args.n_fetches++] = o;
}

/* All outputs of the last step, or one: one output of a Switch is dead, and fetching it is an error. */
static void add_fetches(fuzz_rng *r, whole *w, mr_trial_step *last)
{
    int n = last->node->n_out;
    bool one = mr_node_is_switch(last->node) || fuzz_once_in(r, 4);
    int only = n > 0 ? (int)fuzz_below(r, (uint64_t)n) : 0;
    for (int i = 0; i < n; i++)
        if (!one || i == only)
            fetch(w, (mr_out){last->node, i}, &last->out[i]);
}

/* Earlier steps are sometimes fetched too, or only run. */
static void add_more(fuzz_rng *r, whole *w, const mr_trial *t)
{
    const mr_node *last = t->steps[t->example->n_steps - 1].node;
    if (t->example->n_steps < 2 || !(last->n_out == 0 || fuzz_once_in(r, 6)))
        return;
    mr_node *n = t->steps[fuzz_below(r, (uint64_t)t->example->n_steps - 1)].node;
    if (n->n_out > 0)
        fetch(w, (mr_out){n, (int)fuzz_below(r, (uint64_t)n->n_out)}, NULL);
}

static mr_status *run_args(fuzz_rng *r, mr_session *s, whole *w)
{
    mr_run_options o = {.timeout_ms = TIMEOUT_MS, .trace_level = fuzz_once_in(r, 40) ? 3 : 0};
    mr_status *st = mr_session_run(s, &w->args, &o, NULL);
    for (int i = 0; i < w->args.n_fetches; i++) {
        if (w->to[i] && !st) {
            mr_tensor_unref(*w->to[i]); /* of the run before */
            *w->to[i] = w->got[i];
        } else {
            mr_tensor_unref(w->got[i]);
        }
        w->got[i] = NULL;
    }
    return st;
}

/* ---- gradients ---- */

static bool differentiable(int type)
{
    mr_dtype t = mr_dtype_base(type);
    return !mr_dtype_is_ref(type) && (mr_dtype_is_floating(t) || mr_dtype_is_complex(t));
}

/* What the gradients flow from and to; how many of each. */
static int some_outs(mr_node *n, bool inputs, mr_out *out)
{
    int k = 0;
    for (int i = 0; i < (inputs ? n->n_in : n->n_out) && k < MAX_FETCHES; i++)
        if (differentiable(inputs ? n->in_types[i] : n->out_types[i]))
            out[k++] = inputs ? n->in[i] : (mr_out){n, i};
    return k;
}

/* Ops whose gradients document that they assume shapes to be compatible. */
static bool trusts_shapes(const mr_node *n)
{
    return mr_node_is(n, "PlaceholderWithDefault") ||
           mr_node_is(n, "SoftmaxCrossEntropyWithLogits");
}

/* A gradient must have the type and shape of its tensor. */
static void check_gradient(const mr_trial_step *last, mr_out x, const mr_tensor *dx)
{
    if (trusts_shapes(last->node))
        return;
    for (int i = 0; i < last->n_in && i < last->node->n_in; i++)
        if (mr_out_eq(last->node->in[i], x) && last->in[i] &&
            (dx->dtype != last->in[i]->dtype || !mr_tensor_same_shape(dx, last->in[i])))
            fuzz_fail("%s: gradient of input %d has shape %s; of an input of shape %s",
                      last->node->def->name, i, MR_TENSOR_SHAPE(dx), MR_TENSOR_SHAPE(last->in[i]));
}

/* The gradients of the last step, built into the same graph and run. */
static void run_gradient(fuzz_rng *r, mr_session *s, const whole *forward, mr_trial *t, bool check)
{
    whole w = {.args.n_feeds = forward->args.n_feeds};
    mr_out ys[MAX_FETCHES], xs[MAX_FETCHES];
    mr_tensor *got[MAX_FETCHES] = {NULL};
    mr_gradient dx[MAX_FETCHES];
    int n_y = some_outs(mr_trial_last(t)->node, false, ys);
    int n_x = some_outs(mr_trial_last(t)->node, true, xs);
    mr_status *st = n_y && n_x ? mr_graph_gradients(t->graph, ys, n_y, xs, n_x, NULL, dx) : NULL;
    for (int i = 0; i < n_x && n_y && !st; i++)
        if (dx[i].dense.node)
            fetch(&w, dx[i].dense, &got[i]);
    w.args.feeds = forward->feeds;
    w.args.feed_values = forward->values;
    w.args.fetches = w.fetches;
    w.args.fetched = w.got;
    if (w.args.n_fetches > 0)
        st = run_args(r, s, &w);
    for (int i = 0; i < n_x; i++) {
        if (got[i] && check)
            check_gradient(mr_trial_last(t), xs[i], got[i]);
        mr_tensor_unref(got[i]);
    }
    mr_status_free(st);
}

/* ---- a run ---- */

/* Whether every step got inputs of the declared shapes; otherwise no inferred shape holds. */
static bool fed_as_declared(const whole *w)
{
    mr_arena a;
    bool ok = true;
    mr_arena_init(&a, 0);
    for (int i = 0; i < w->args.n_feeds && ok; i++)
        ok = mr_pshape_compatible(mr_out_shape(w->feeds[i]),
                                  mr_pshape_of(&a, w->values[i]->rank, w->values[i]->dims));
    mr_arena_deinit(&a);
    return ok;
}

mr_status *fuzz_run_whole(fuzz_rng *r, mr_trial *t, bool *as_declared)
{
    whole w = {.args.n_targets = 1};
    mr_trial_step *last = mr_trial_last(t);
    mr_session *s;
    mr_session_config c = fuzz_session_config(r);
    w.args.feeds = w.feeds;
    w.args.feed_values = w.values;
    w.args.fetches = w.fetches;
    w.args.fetched = w.got;
    w.args.targets = &last->node;
    for (int i = 0; i < t->example->n_steps; i++)
        add_feeds(&w, &t->steps[i]);
    add_fetches(r, &w, last);
    add_more(r, &w, t);
    *as_declared = fed_as_declared(&w);
    MR_TRY(mr_direct_session_new(t->graph, NULL, &c, &s));
    mr_status *st = run_args(r, s, &w);
    if (!st && fuzz_once_in(r, 8)) /* state that a step leaves is visible to the next one */
        mr_status_free(run_args(r, s, &w));
    if (!st && fuzz_once_in(r, 2))
        run_gradient(r, s, &w, t, *as_declared);
    mr_session_free(s);
    return st;
}
