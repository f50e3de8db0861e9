/* tests/fuzz/graph.c -- mutated GraphDefs, imported and run.
 *
 * A rejected graph must leave nothing behind. An accepted one is used completely: a session is opened on it and a few
 * of its nodes are run, with small tensors fed to its placeholders; sometimes it is also differentiated, copied,
 * written and read again. Blocked and endless graphs are ended by a timeout of some milliseconds; a budget limits
 * memory.
 *
 * The mutations are chosen so that about half of the mutants get that far (the share is printed, and less than
 * MIN_SHARE is a failure): op names are mostly changed to ops of the same signature, inputs to existing nodes, and most
 * changes affect values rather than types. */
#include "base/memory.h"
#include "graph/grad.h"
#include "graph/graph_def.h"
#include "graph/infer.h"
#include "proto/graph.pb-c.h"
#include "run/run.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/graphs.h"
#include "tests/fuzz/op_session.h"
#include "tests/fuzz/pb_tree.h"
#include "tests/fuzz/values.h"

enum { MIN_SHARE = 30, MAX_FEEDS = 16 };
enum { IMPORTED, REACHED_RUN, RAN, GRADIENTS, N_COUNTS };

/* ---- words ---- */

typedef struct op_class { /* ops whose nodes could be exchanged */
    const mr_op_def *like;
    MR_VEC(const char *) names;
} op_class;

static MR_VEC(op_class) classes;
static const mr_op_def **ops;
static int n_ops;
static const mr_field *name_field; /* NodeDef.name */

/* Ops that would end the process, or fill the log. */
static bool is_forbidden(const char *op)
{
    return strcmp(op, "Abort") == 0 || strcmp(op, "Print") == 0 || strcmp(op, "PrintV2") == 0;
}

/* The same arguments, and attrs of the same names. */
static bool are_alike(const mr_op_def *a, const mr_op_def *b)
{
    bool alike = a->n_in == b->n_in && a->n_out == b->n_out && a->n_attrs == b->n_attrs;
    for (int i = 0; alike && i < a->n_attrs; i++)
        alike = mr_op_def_attr(b, a->attrs[i].name) != NULL;
    return alike;
}

static op_class *class_of(const mr_op_def *d)
{
    for (int i = 0; i < classes.n; i++)
        if (are_alike(classes.p[i].like, d))
            return &classes.p[i];
    return NULL;
}

static void classify(const mr_op_def *d)
{
    if (d->name[0] == '_' || is_forbidden(d->name))
        return;
    if (!class_of(d))
        mr_vec_push(&classes, (op_class){.like = d});
    mr_vec_push(&class_of(d)->names, d->name);
}

static bool word_for_op(fuzz_rng *r, mr_sv now, mr_sv *out)
{
    const mr_op_def *d = mr_op_find(now);
    op_class *c = d && !fuzz_once_in(r, 10) ? class_of(d) : NULL;
    *out = mr_sv_of(c ? c->names.p[fuzz_below(r, (uint64_t)c->names.n)]
                      : ops[fuzz_below(r, (uint64_t)n_ops)]->name);
    return true;
}

static bool word_for_input(fuzz_rng *r, const fuzz_tree *t, mr_sv *out)
{
    static char buf[300];
    const fuzz_item *node = fuzz_tree_find(r, t, name_field, NULL);
    if (!node || node->bytes.n > 250)
        return false;
    const char *mark = fuzz_once_in(r, 8) ? "^" : "";
    int n = fuzz_once_in(r, 4) ? snprintf(buf, sizeof(buf), "%s%.*s:%d", mark,
                                          MR_SV_ARG(node->bytes), (int)fuzz_below(r, 3))
                               : snprintf(buf, sizeof(buf), "%s%.*s", mark, MR_SV_ARG(node->bytes));
    *out = (mr_sv){buf, (size_t)n};
    return true;
}

static bool word(fuzz_rng *r, const fuzz_tree *t, const fuzz_item *at, mr_sv *out)
{
    static const char *const devices[] = {
        "", "/cpu:0", "/device:CPU:1", "/job:localhost/task:0", "/gpu:0", "x"};
    static const char *const names[] = {"a", "x_1", "while/x", "gradients/y", "_z", "0"};
    if (fuzz_item_is(at, "NodeDef", "op"))
        return word_for_op(r, at->bytes, out);
    if (fuzz_item_is(at, "NodeDef", "input"))
        return word_for_input(r, t, out);
    if (fuzz_item_is(at, "NodeDef", "device"))
        return *out = mr_sv_of(fuzz_pick(r, devices)), true;
    if (fuzz_item_is(at, "NodeDef", "name"))
        return *out = mr_sv_of(fuzz_pick(r, names)), true;
    return false;
}

/* The name or kind of an attr, or a type: with another one a node is rejected at once. */
static bool brittle(const fuzz_item *at, bool value)
{
    return strcmp(at->owner->short_name, "AttrEntry") == 0 || fuzz_item_is(at, "NodeDef", "attr") ||
           (!value && strcmp(at->owner->short_name, "AttrValue") == 0) ||
           fuzz_item_is(at, "AttrValue", "type") || fuzz_item_is(at, "TensorProto", "dtype") ||
           fuzz_item_is(at, "NodeDef", "name") ||
           (!value && strcmp(at->owner->short_name, "NodeDef") == 0);
}

/* Two nodes with the same name are rejected at once. */
static void copied(fuzz_rng *r, fuzz_tree *t, fuzz_item *copy)
{
    if (!fuzz_item_is(copy, "GraphDef", "node") || fuzz_once_in(r, 10))
        return;
    for (fuzz_item *c = copy->child; c; c = c->next)
        if (c->f == name_field && !c->message) {
            char *name = mr_arena_printf(&t->arena, "%.*s_%d", MR_SV_ARG(c->bytes),
                                         (int)fuzz_below(r, 1000));
            c->bytes = mr_sv_of(name);
        }
}

static const fuzz_words words = {word, brittle, copied};

/* ---- preparation ---- */

static mr_status *evaluate(const mr_node *n, mr_tensor *const *in, mr_tensor **out)
{
    return mr_eval_node(n, NULL, in, out);
}

static void prepare(void)
{
    if (ops)
        return;
    fuzz_graphs();
    mr_infer_set_evaluator(evaluate);
    mr_eval_set_patience(10);
    ops = mr_op_all(&n_ops);
    for (int i = 0; i < n_ops; i++)
        classify(ops[i]);
    name_field = mr_field_named(&tensorflow__node_def__descriptor, MR_SV("name"));
}

static int64_t n_runs(void) { return 1000000; }
static int n_counts(void) { return N_COUNTS; }

/* ---- a mutant ---- */

static void mutate(fuzz_rng *r, mr_str *out)
{
    fuzz_tree t, donor;
    static const uint8_t changes[] = {1, 1, 1, 2, 2, 3, 4, 6};
    fuzz_tree_parse(&t, &tensorflow__graph_def__descriptor, mr_str_view(fuzz_pick_graph(r)));
    bool crossed = fuzz_once_in(r, 4);
    if (crossed)
        fuzz_tree_parse(&donor, &tensorflow__graph_def__descriptor,
                        mr_str_view(fuzz_pick_graph(r)));
    for (int k = fuzz_pick(r, changes); k > 0; k--)
        fuzz_tree_change(r, &t, crossed ? &donor : NULL, &words);
    fuzz_tree_write(&t, out);
    for (uint64_t k = fuzz_once_in(r, 12) ? 1 + fuzz_below(r, 3) : 0; k > 0; k--)
        fuzz_damage(r, out);
    if (crossed)
        fuzz_tree_deinit(&donor);
    fuzz_tree_deinit(&t);
}

/* ---- running it ---- */

typedef struct graph_run {
    fuzz_run *r;
    mr_graph *g;
    mr_session *session;
    int n_feeds;
    mr_out feeds[MAX_FEEDS];
    mr_tensor *values[MAX_FEEDS];
} graph_run;

/* A tensor that could have this partly known shape. */
static mr_tensor *value_for(fuzz_rng *r, mr_dtype t, const mr_pshape *p)
{
    mr_shape s;
    if (p->rank < 0 || p->rank > 10) {
        fuzz_shape(r, &s);
    } else {
        s.rank = p->rank;
        for (int i = 0; i < s.rank; i++)
            s.dims[i] = p->dims[i] >= 0 && p->dims[i] < 300 ? p->dims[i] : fuzz_between(r, 1, 3);
    }
    fuzz_shape_limit(&s, 4000);
    return fuzz_tensor(r, t, s.rank, s.dims);
}

static void add_feed(graph_run *x, mr_node *n)
{
    if (x->n_feeds == MAX_FEEDS || n->n_out < 1 || mr_dtype_is_ref(n->out_types[0]) ||
        n->out_types[0] == MR_RESOURCE || n->out_types[0] == MR_VARIANT)
        return;
    x->feeds[x->n_feeds] = (mr_out){n, 0};
    x->values[x->n_feeds++] = value_for(&x->r->rng, (mr_dtype)n->out_types[0], n->out_shapes[0]);
}

static void make_feeds(graph_run *x)
{
    for (int i = 0; i < x->g->nodes.n; i++) {
        mr_node *n = x->g->nodes.p[i];
        bool placeholder = mr_node_is(n, "Placeholder") || mr_node_is(n, "PlaceholderV2");
        if (placeholder ? !fuzz_once_in(&x->r->rng, 40) : fuzz_once_in(&x->r->rng, 60))
            add_feed(x, n);
    }
}

static mr_node *some_node(graph_run *x)
{
    fuzz_rng *r = &x->r->rng;
    uint64_t n = (uint64_t)x->g->nodes.n;
    /* The last ones depend on most of the others. */
    return x->g->nodes
        .p[fuzz_once_in(r, 2) ? n - 1 - fuzz_below(r, MR_MIN(n, 4)) : fuzz_below(r, n)];
}

static void run_once(graph_run *x)
{
    fuzz_rng *r = &x->r->rng;
    mr_out fetches[3];
    mr_tensor *got[3] = {NULL};
    mr_node *target = some_node(x);
    mr_str metadata = {0};
    mr_run_args a = {.feeds = x->feeds,
                     .feed_values = x->values,
                     .n_feeds = x->n_feeds,
                     .fetches = fetches,
                     .fetched = got,
                     .targets = &target,
                     .n_targets = fuzz_once_in(r, 2)};
    for (uint64_t k = 1 + fuzz_below(r, 3); k > 0; k--) {
        mr_node *n = some_node(x);
        if (n->n_out > 0)
            fetches[a.n_fetches++] = (mr_out){n, (int)fuzz_below(r, (uint64_t)n->n_out)};
    }
    if (a.n_fetches == 0)
        a.n_targets = 1;
    mr_run_options o = {.timeout_ms = fuzz_once_in(r, 100) ? 200 : 8,
                        .trace_level = fuzz_once_in(r, 20) ? 3 : 0,
                        .output_partition_graphs = fuzz_once_in(r, 20)};
    mr_status *st = mr_session_run(x->session, &a, &o, fuzz_once_in(r, 10) ? &metadata : NULL);
    fuzz_say(x->r, "run: %s %s", mr_code_name(mr_status_code(st)), mr_status_message(st));
    for (int i = 0; i < a.n_fetches; i++) {
        if (!st && (!got[i] || got[i]->dtype != mr_dtype_base(mr_out_type(fetches[i]))))
            fuzz_fail("fetch %s:%d is %s", fetches[i].node->name, fetches[i].index,
                      got[i] ? mr_dtype_name(got[i]->dtype) : "missing");
        mr_tensor_unref(got[i]);
    }
    x->r->counts[RAN] += !st;
    mr_status_free(st);
    mr_str_deinit(&metadata);
}

static bool may_run(const mr_graph *g)
{
    for (int i = 0; i < g->nodes.n; i++)
        if (is_forbidden(g->nodes.p[i]->def->name))
            return false;
    return g->nodes.n > 0;
}

static void run_graph(fuzz_run *r, mr_graph *g)
{
    graph_run x = {.r = r, .g = g};
    mr_session_config c = fuzz_session_config(&r->rng);
    fuzz_must(mr_direct_session_new(g, NULL, &c, &x.session), "session");
    make_feeds(&x);
    r->counts[REACHED_RUN]++;
    for (uint64_t k = 1 + fuzz_below(&r->rng, 2); k > 0; k--)
        run_once(&x);
    for (int i = 0; i < x.n_feeds; i++)
        mr_tensor_unref(x.values[i]);
    mr_session_free(x.session);
}

/* ---- everything else one does with a graph ---- */

static mr_out some_output(fuzz_rng *r, const mr_graph *g)
{
    for (int tries = 0; tries < 10; tries++) {
        mr_node *n = g->nodes.p[fuzz_below(r, (uint64_t)g->nodes.n)];
        if (n->n_out > 0)
            return (mr_out){n, (int)fuzz_below(r, (uint64_t)n->n_out)};
    }
    return MR_NO_OUT;
}

/* Checks that edges come from existing nodes, whatever was added. */
static void check_edges(const mr_graph *g)
{
    for (int i = 0; i < g->nodes.n; i++) {
        const mr_node *n = g->nodes.p[i];
        for (int k = 0; n && k < n->n_in + n->n_ctrl; k++) {
            const mr_node *src = k < n->n_in ? n->in[k].node : n->ctrl[k - n->n_in];
            if (src && (src->id >= g->nodes.n || g->nodes.p[src->id] != src))
                fuzz_fail("an edge comes from a removed node; %s of %s", src->name, n->name);
        }
    }
}

static void differentiate(fuzz_run *r, mr_graph *g)
{
    mr_out y = some_output(&r->rng, g), x[2] = {some_output(&r->rng, g), some_output(&r->rng, g)};
    mr_gradient dx[2];
    if (!y.node || !x[0].node || !x[1].node)
        return;
    mr_status *st = mr_graph_gradients(g, &y, 1, x, 2, NULL, dx);
    fuzz_say(r, "gradients: %s", mr_status_message(st));
    check_edges(g);
    r->counts[GRADIENTS] += !st;
    mr_status_free(st);
}

/* An accepted graph is accepted again, and stays the same. */
static void round_trip(const mr_graph *g)
{
    mr_graph *copy, *again = mr_graph_new();
    mr_str bytes = {0}, twice = {0};
    mr_import_options o = {.no_validate_colocation = true};
    fuzz_must(mr_graph_copy(g, NULL, &copy, NULL), "a copy");
    fuzz_must(mr_graph_export(copy, &bytes), "export");
    fuzz_must(mr_graph_import(again, mr_str_view(&bytes), &o, NULL), "import of what was exported");
    fuzz_must(mr_graph_export(again, &twice), "export");
    if (again->nodes.n == copy->nodes.n && again->versions.producer == copy->versions.producer &&
        bytes.n != twice.n)
        fuzz_fail("exported twice, %zu and %zu bytes differ", bytes.n, twice.n);
    mr_str_deinit(&bytes);
    mr_str_deinit(&twice);
    mr_graph_unref(copy);
    mr_graph_unref(again);
}

static void try_bytes(fuzz_run *r, mr_sv bytes)
{
    mr_graph *g = mr_graph_new();
    mr_import_options o = {.prefix = fuzz_once_in(&r->rng, 10) ? "p" : NULL,
                           .no_validate_colocation = fuzz_once_in(&r->rng, 2)};
    mr_sv exact = fuzz_exact(bytes);
    mr_status *st = mr_graph_import(g, exact, &o, NULL);
    fuzz_say(r, "import of %zu bytes: %s", bytes.n, mr_status_message(st));
    if (st && g->nodes.n > 0)
        fuzz_fail("a rejected graph left %d nodes behind", g->nodes.n);
    if (!st) {
        r->counts[IMPORTED]++;
        if (fuzz_once_in(&r->rng, 20))
            round_trip(g);
        if (fuzz_once_in(&r->rng, 12) && g->nodes.n > 0)
            differentiate(r, g);
        if (may_run(g))
            run_graph(r, g);
    }
    mr_status_free(st);
    mr_graph_unref(g);
    mr_free((void *)(uintptr_t)exact.p);
}

static void run(fuzz_run *r)
{
    mr_str bytes = {0};
    mutate(&r->rng, &bytes);
    fuzz_note(r, mr_str_view(&bytes));
    try_bytes(r, mr_str_view(&bytes));
    mr_str_deinit(&bytes);
}

static void replay(fuzz_run *r, mr_sv input)
{
    for (int i = 0; i < 200; i++) /* other nodes, feeds and settings each time */
        try_bytes(r, input);
}

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    double reached = 100.0 * (double)counts[REACHED_RUN] / (double)runs;
    fprintf(out,
            "imported_percent %.1f reached_run_percent %.1f steps_succeeded %lld gradients %lld",
            100.0 * (double)counts[IMPORTED] / (double)runs, reached, (long long)counts[RAN],
            (long long)counts[GRADIENTS]);
    if (reached < MIN_SHARE && err)
        fprintf(err, "fuzz graph: less than %d %% of the mutants reach Run\n", MIN_SHARE);
    return reached >= MIN_SHARE;
}

const fuzz_target fuzz_graph = {.name = "graph",
                                .about = "mutated GraphDefs, imported and run",
                                .prepare = prepare,
                                .n_runs = n_runs,
                                .n_counts = n_counts,
                                .run = run,
                                .replay = replay,
                                .summary = summary};
