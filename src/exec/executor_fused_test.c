/* exec/executor_fused_test.c -- random graphs of element-wise nodes, with and without fusion: not a bit may differ.
 *
 * The graphs mix types, shapes that broadcast, conversions, choices, sums and control edges; some values are fetched
 * from the middle. Inputs include NaN, infinities, zeros of both signs and denormal numbers. */
#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "exec/session.h"
#include "graph/scope.h"
#include "passes/passes.h"
#include "run/fused.h"
#include "tests/harness/test.h"

void mr_ops_register(void); /* ops/table.h, above this layer */

enum { MAX_NODES = 48, MAX_FEEDS = 12, MAX_FETCHES = 8, N_SHAPES = 9 };

#ifdef MR_DEBUG /* sanitizers take their time */
enum { GRAPHS = 150 };
#else
enum { GRAPHS = 1500 };
#endif

typedef struct value {
    mr_out out;
    mr_dtype type;
    int shape; /* in the table of shapes; 0 is the full one */
} value;

typedef struct trial {
    uint64_t random;
    mr_graph *g;
    mr_scope s;
    value values[MAX_NODES];
    int n, n_feeds, n_fetches;
    mr_out feeds[MAX_FEEDS], fetches[MAX_FETCHES];
    int feed_shapes[MAX_FEEDS];
    mr_tensor *fed[MAX_FEEDS];
} trial;

static int pick(trial *t, int n)
{
    t->random = t->random * 6364136223846793005u + 1442695040888963407u;
    return (int)((t->random >> 33) % (uint64_t)n);
}

/* ---- shapes ---- */

/* The shapes that broadcast to [a, b, c]; b may be 1. Several of them may be equal. */
static void shape_of(int which, const int64_t *full, int *rank, int64_t *dims)
{
    static const char *const table[N_SHAPES] = {"abc", "", "c", "1", "b1", "11c", "a1c", "bc", "a11"};
    *rank = (int)strlen(table[which]);
    for (int d = 0; d < *rank; d++)
        dims[d] = table[which][d] == '1' ? 1 : full[table[which][d] - 'a'];
}

/* Whether two of these shapes broadcast to another one of them, and which. */
static int joined_shape(int x, int y)
{
    static const int64_t full[] = {2, 3, 5};
    int rx, ry, rz;
    int64_t dx[3], dy[3], dz[3];
    mr_shape both;
    shape_of(x, full, &rx, dx);
    shape_of(y, full, &ry, dy);
    mr_status_free(mr_shape_broadcast(rx, dx, ry, dy, &both));
    for (int z = 0; z < N_SHAPES; z++) {
        shape_of(z, full, &rz, dz);
        if (mr_shape_eq(both.rank, both.dims, rz, dz))
            return z;
    }
    return -1;
}

/* ---- values ---- */

static double number(trial *t, int i)
{
    static const double odd[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e-40, -1e-310, 1e30, 65504};
    return i % 7 == 3 && pick(t, 4) == 0 ? odd[pick(t, MR_COUNT(odd))] : (double)(pick(t, 4001) - 2000) / 500;
}

static mr_tensor *make_feed(trial *t, mr_dtype type, int shape, const int64_t *full)
{
    int rank;
    int64_t dims[3];
    mr_tensor *v, *out;
    shape_of(shape, full, &rank, dims);
    MR_CHECK_OK(mr_tensor_new(NULL, MR_DOUBLE, rank, dims, &v));
    for (int64_t i = 0; i < v->n; i++)
        MR_DATA(double, v)[i] = number(t, (int)i);
    MR_CHECK_OK(mr_tensor_new(NULL, type, rank, dims, &out));
    MR_CHECK(mr_dtype_convert(MR_DOUBLE, v->data, type, out->data, v->n, false));
    mr_tensor_unref(v);
    return out;
}

static void add_value(trial *t, mr_out out, mr_dtype type, int shape)
{
    if (t->n < MAX_NODES && out.node)
        t->values[t->n++] = (value){out, type, shape};
}

static void add_feed(trial *t, mr_dtype type, int shape)
{
    mr_out p = mr_placeholder(&t->s, type, "p", NULL);
    t->feeds[t->n_feeds] = p;
    t->feed_shapes[t->n_feeds++] = shape;
    add_value(t, p, type, shape);
}

/* Some value of this type (-1: of any) and shape (-1: any); NULL: there is none. */
static const value *some_value(trial *t, int type, int shape)
{
    for (int tries = 0; tries < 40; tries++) {
        const value *v = &t->values[pick(t, t->n)];
        if ((type < 0 || (int)v->type == type) && (shape < 0 || v->shape == shape))
            return v;
    }
    return NULL;
}

static bool is_float(mr_dtype t) { return t == MR_FLOAT || t == MR_DOUBLE || t == MR_HALF || t == MR_BFLOAT16; }

/* ---- nodes ---- */

static void add_unary(trial *t)
{
    static const char *const of_floats[] = {"Neg",  "Exp",  "Tanh",  "Sqrt",     "Square", "Rsqrt", "Sigmoid",     "Relu",
                                            "Abs",  "Floor", "Log1p", "Identity", "Sign",   "Sin",   "StopGradient", "Softplus",
                                            "Erf",  "Elu",  "Inv"};
    static const char *const of_ints[] = {"Neg", "Abs", "Square", "Identity"};
    const value *x = some_value(t, -1, -1);
    if (x->type == MR_BOOL)
        add_value(t, mr_emit(&t->s, "LogicalNot", x->out), MR_BOOL, x->shape);
    else
        add_value(t, mr_emit(&t->s, is_float(x->type) ? of_floats[pick(t, MR_COUNT(of_floats))] : of_ints[pick(t, MR_COUNT(of_ints))], x->out),
                  x->type, x->shape);
}

static void add_binary(trial *t)
{
    static const char *const ops[] = {"Add", "AddV2", "Sub", "Mul", "Maximum", "Minimum", "SquaredDifference"};
    static const char *const more[] = {"RealDiv", "DivNoNan", "MulNoNan", "Pow", "Xdivy"};
    static const char *const tests[] = {"Less", "GreaterEqual", "Equal", "NotEqual", "LogicalOr", "LogicalAnd"};
    const value *x = some_value(t, -1, -1), *y = some_value(t, (int)x->type, -1);
    int z = y ? joined_shape(x->shape, y->shape) : -1;
    if (z < 0)
        return;
    if (x->type == MR_BOOL)
        add_value(t, mr_emit(&t->s, tests[2 + pick(t, 4)], x->out, y->out), MR_BOOL, z);
    else if (pick(t, 5) == 0)
        add_value(t, mr_emit(&t->s, tests[pick(t, 4)], x->out, y->out), MR_BOOL, z);
    else if (is_float(x->type) && pick(t, 3) == 0)
        add_value(t, mr_emit(&t->s, more[pick(t, x->type == MR_BFLOAT16 ? 1 : MR_COUNT(more))], x->out, y->out), x->type, z);
    else
        add_value(t, mr_emit(&t->s, ops[pick(t, MR_COUNT(ops))], x->out, y->out), x->type, z);
}

/* Nodes whose inputs have one shape or one size. */
static void add_strict(trial *t)
{
    static const char *const ops[] = {"TanhGrad", "SigmoidGrad", "ReluGrad", "EluGrad", "SqrtGrad"};
    const value *x = some_value(t, -1, -1), *y = some_value(t, (int)x->type, x->shape), *z = some_value(t, (int)x->type, x->shape);
    if (!y || !z || x->type == MR_BOOL)
        return;
    switch (pick(t, 4)) {
    case 0:
        if (is_float(x->type))
            add_value(t, mr_emit(&t->s, ops[pick(t, MR_COUNT(ops))], x->out, y->out), x->type, x->shape);
        break;
    case 1: {
        mr_out all[] = {x->out, y->out, z->out};
        add_value(t, mr_emit_n(&t->s, "AddN", NULL, 0, all, 1 + pick(t, 3)), x->type, x->shape);
        break;
    }
    case 2: {
        const value *low = some_value(t, (int)x->type, 1), *high = some_value(t, (int)x->type, pick(t, 2) ? 1 : x->shape);
        if (low && high && x->type != MR_BFLOAT16)
            add_value(t, mr_emit(&t->s, "ClipByValue", x->out, low->out, high->out), x->type, x->shape);
        break;
    }
    default: {
        const value *bias = some_value(t, (int)x->type, 2);
        if (bias && (x->shape == 0 || x->shape == 7))
            add_value(t, mr_emit(&t->s, "BiasAdd", x->out, bias->out), x->type, x->shape);
    }
    }
}

static void add_choice(trial *t)
{
    const value *c = some_value(t, MR_BOOL, -1), *x = some_value(t, -1, -1), *y = some_value(t, (int)x->type, -1);
    int z = c && y ? joined_shape(x->shape, y->shape) : -1;
    z = z < 0 ? z : joined_shape(z, c->shape);
    if (z >= 0)
        add_value(t, mr_emit(&t->s, "SelectV2", c->out, x->out, y->out), x->type, z);
    y = some_value(t, (int)x->type, x->shape);
    c = some_value(t, MR_BOOL, pick(t, 2) ? x->shape : 1);
    if (c && y)
        add_value(t, mr_emit(&t->s, "Select", c->out, x->out, y->out), x->type, x->shape);
}

static const mr_dtype types[] = {MR_FLOAT, MR_FLOAT, MR_FLOAT, MR_DOUBLE, MR_HALF, MR_BFLOAT16, MR_INT32, MR_BOOL, MR_UINT8};

static void add_cast(trial *t)
{
    const value *x = some_value(t, -1, -1);
    mr_dtype to = types[pick(t, MR_COUNT(types))];
    if (to == MR_UINT8)
        to = MR_FLOAT;
    add_value(t, mr_emit_with(&t->s, "Cast", MR_ATTRS({"DstT", mr_a_type(to)}), x->out), to, x->shape);
}

static void write_graph(trial *t, uint64_t seed)
{
    mr_ops_register();
    *t = (trial){.random = seed * 2862933555777941757u + 3037000493u, .g = mr_graph_new()};
    mr_scope_init(&t->s, t->g, "");
    int n_types = 1 + pick(t, 3), first = pick(t, 7);
    for (int i = 0; i < 8; i++)
        add_feed(t, types[(first + pick(t, n_types)) % 8], i < 2 ? 0 : pick(t, N_SHAPES));
    for (int i = 0; i < 4 + pick(t, 40); i++)
        switch (pick(t, 9)) {
        case 0:
        case 1:
        case 2: add_unary(t); break;
        case 3:
        case 4:
        case 5: add_binary(t); break;
        case 6: add_strict(t); break;
        case 7: add_choice(t); break;
        default: add_cast(t); break;
        }
    for (int i = pick(t, 3); i > 0; i--) { /* nodes are in the order of their edges, so this closes no cycle */
        int a = pick(t, t->n), b = pick(t, t->n);
        mr_node *x = t->values[MR_MIN(a, b)].out.node, *y = t->values[MR_MAX(a, b)].out.node;
        if (x->id < y->id && !mr_node_is(y, "Placeholder"))
            mr_node_add_control(y, x);
    }
    t->n_fetches = 1 + pick(t, MAX_FETCHES);
    for (int i = 0; i < t->n_fetches; i++)
        t->fetches[i] = t->values[i == 0 ? t->n - 1 : pick(t, t->n)].out;
    MR_CHECK_OK(mr_scope_status(&t->s));
}

static void forget(trial *t)
{
    mr_scope_deinit(&t->s);
    mr_graph_unref(t->g);
}

/* ---- runs ---- */

static mr_status *run(trial *t, mr_session *s, mr_tensor **got)
{
    mr_run_args a = {.feeds = t->feeds, .feed_values = t->fed, .n_feeds = t->n_feeds,
                     .fetches = t->fetches, .fetched = got, .n_fetches = t->n_fetches};
    return mr_session_run(s, &a, NULL, NULL);
}

static void compare_runs(trial *t, uint64_t seed, mr_session *plain, mr_session *fused, const int64_t *full)
{
    mr_tensor *want[MAX_FETCHES] = {0}, *got[MAX_FETCHES] = {0};
    for (int i = 0; i < t->n_feeds; i++)
        t->fed[i] = make_feed(t, (mr_dtype)t->feeds[i].node->out_types[0], t->feed_shapes[i], full);
    mr_status *a = run(t, plain, want), *b = run(t, fused, got);
    if (strcmp(mr_status_message(a), mr_status_message(b)) != 0)
        mr_test_fail(__FILE__, __LINE__, "graph %d: '%s' without fusion, '%s' with it", (int)seed, mr_status_message(a), mr_status_message(b));
    for (int i = 0; !a && i < t->n_fetches; i++) {
        if (!mr_tensor_equal(want[i], got[i]))
            mr_test_fail(__FILE__, __LINE__, "graph %d: fetch %d, %s, differs with fusion", (int)seed, i, t->fetches[i].node->name);
        mr_tensor_unref(want[i]);
        mr_tensor_unref(got[i]);
    }
    mr_status_free(a);
    mr_status_free(b);
    for (int i = 0; i < t->n_feeds; i++)
        mr_tensor_unref(t->fed[i]);
}

MR_TEST(executor_fused_random_graphs_give_the_same_bits)
{
    static const int64_t shapes[][3] = {{3, 4, 5}, {2, 7, 300}, {1, 1, 1}, {5, 1, 700}, {40, 33, 16}, {2, 0, 3}, {1, 3000, 1}};
    mr_test_deadline(300);
    uint64_t first = mr_test_random() % 100000;
    for (uint64_t seed = first; seed < first + GRAPHS; seed++) {
        trial t;
        mr_session *plain, *fused;
        write_graph(&t, seed);
        mr_session_config c = {.inter_threads = seed % 3 ? -1 : 2, .intra_threads = seed % 3 ? 1 : 2};
        MR_CHECK_OK(mr_direct_session_new(t.g, NULL, &c, &fused));
        c.no_fuse = true;
        c.no_simplify = seed % 2;
        MR_CHECK_OK(mr_direct_session_new(t.g, NULL, &c, &plain));
        for (int i = 0; i < 3; i++)
            compare_runs(&t, seed, plain, fused, shapes[i < 2 ? pick(&t, MR_COUNT(shapes)) : pick(&t, 2)]);
        mr_session_free(plain);
        mr_session_free(fused);
        forget(&t);
    }
}

/* ---- single graphs ---- */

/* A chain on two inputs: tanh(exp(x) + y). */
static void write_chain(trial *t)
{
    mr_ops_register();
    *t = (trial){.g = mr_graph_new(), .n_feeds = 2, .n_fetches = 1};
    mr_scope_init(&t->s, t->g, "");
    for (int i = 0; i < 2; i++)
        t->feeds[i] = mr_placeholder(&t->s, MR_FLOAT, "p", NULL);
    mr_out e = mr_emit(mr_as(&t->s, "exp"), "Exp", t->feeds[0]);
    mr_out sum = mr_emit(mr_as(&t->s, "sum"), "AddV2", e, t->feeds[1]);
    t->fetches[0] = mr_emit(mr_as(&t->s, "last"), "Tanh", sum);
    MR_CHECK_OK(mr_scope_status(&t->s));
}

static void feed_vectors(trial *t, int64_t n, int64_t m)
{
    int64_t dims[] = {n, m};
    for (int i = 0; i < 2; i++)
        MR_CHECK_OK(mr_tensor_zeros(NULL, MR_FLOAT, 1, &dims[i], &t->fed[i]));
}

static void drop_feeds(trial *t)
{
    mr_tensor_unref(t->fed[0]);
    mr_tensor_unref(t->fed[1]);
}

MR_TEST(executor_fused_node_fails_as_the_node_that_was_fused)
{
    trial t;
    mr_status *st[2];
    write_chain(&t);
    feed_vectors(&t, 2, 3);
    for (int plain = 0; plain < 2; plain++) {
        mr_session *s;
        mr_tensor *got[MAX_FETCHES];
        mr_session_config c = {.inter_threads = -1, .no_fuse = plain};
        MR_CHECK_OK(mr_direct_session_new(t.g, NULL, &c, &s));
        st[plain] = run(&t, s, got);
        mr_session_free(s);
    }
    MR_CHECK_STR(mr_status_message(st[0]), mr_status_message(st[1]));
    MR_CHECK(strstr(mr_status_message(st[0]), "{{node sum}}") && !strstr(mr_status_message(st[0]), "{{node last}}"));
    MR_CHECK_INT(mr_status_code(st[0]), MR_INVALID_ARGUMENT);
    mr_status_free(st[0]);
    mr_status_free(st[1]);
    drop_feeds(&t);
    forget(&t);
}

MR_TEST(executor_fused_node_is_traced_with_what_it_consists_of)
{
    trial t;
    mr_session *s;
    mr_tensor *got[MAX_FETCHES];
    mr_str metadata = {0};
    const char *label = "last = _FusedElementwise[exp:Exp sum:AddV2 last:Tanh](";
    write_chain(&t);
    feed_vectors(&t, 3, 3);
    MR_CHECK_OK(mr_direct_session_new(t.g, NULL, &(mr_session_config){.inter_threads = -1}, &s));
    mr_run_args a = {.feeds = t.feeds, .feed_values = t.fed, .n_feeds = 2, .fetches = t.fetches, .fetched = got, .n_fetches = 1};
    MR_CHECK_OK(mr_session_run(s, &a, &(mr_run_options){.trace_level = MR_FULL_TRACE}, &metadata));
    MR_CHECK(memmem(metadata.p, metadata.n, label, strlen(label)) != NULL);
    mr_str_deinit(&metadata);
    mr_tensor_unref(got[0]);
    mr_session_free(s);
    drop_feeds(&t);
    forget(&t);
}

/* More shapes than a node keeps schedules for; then the first ones again. */
MR_TEST(executor_fused_node_takes_any_number_of_shapes)
{
    trial t;
    mr_session *s;
    write_chain(&t);
    MR_CHECK_OK(mr_direct_session_new(t.g, NULL, &(mr_session_config){.inter_threads = -1}, &s));
    for (int i = 0; i < 60; i++) {
        mr_tensor *got[MAX_FETCHES];
        feed_vectors(&t, 1 + i % 30, i % 2 ? 1 : 1 + i % 30);
        MR_CHECK_OK(run(&t, s, got));
        MR_CHECK_INT(got[0]->n, 1 + i % 30);
        for (int64_t k = 0; k < got[0]->n; k++)
            MR_CHECK_NEAR(MR_DATA(float, got[0])[k], tanhf(1), 1e-6);
        mr_tensor_unref(got[0]);
        drop_feeds(&t);
    }
    mr_session_free(s);
    forget(&t);
}
