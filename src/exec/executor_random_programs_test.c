/* exec/executor_random_programs_test.c -- random programs, run by a session and line by line.
 *
 * graph/random_program_fixture.h writes a program with loops, conditionals and calls in one another as
 * nodes; random_program_values_fixture.c runs the same lines on plain numbers, with derivatives. Value
 * and gradients must agree, and however a program is spread over devices and optimised, not a bit
 * may change.  A failing program's number is printed. */
#include <stdio.h>

#include "exec/session.h"
#include "graph/grad.h"
#include "graph/graph_def.h"
#include "graph/random_program_fixture.h"
#include "passes/passes.h"
#include "tests/harness/test.h"

void mr_ops_register(void); /* ops/table.h, above this layer */

enum { N_IN = MR_RANDOM_PROGRAM_INPUTS, WIDTH = MR_RANDOM_PROGRAM_WIDTH, N_OUT = N_IN + 1 };

#ifdef MR_DEBUG /* sanitizers take their time */
enum { SHARE = 10 };
#else
enum { SHARE = 1 };
#endif

typedef struct trial {
    uint64_t seed;
    mr_random_options o;
    mr_arena arena;
    mr_program_block lines;
    int width;
    double values[N_IN][WIDTH];
    mr_graph *g;
    mr_out x[N_IN], out[N_OUT]; /* out: the result, then the gradients; no node: no gradient */
} trial;

typedef struct results {
    double v[N_OUT][WIDTH]; /* 0 where there is no gradient */
} results;

static void differentiate(trial *t)
{
    mr_gradient dx[N_IN];
    mr_gradient_options o = {.colocate = t->seed % 3 == 0};
    mr_status *st = mr_graph_gradients(t->g, t->out, 1, t->x, N_IN, &o, dx);
    if (st)
        mr_test_fail(__FILE__, __LINE__, "program %d: %s", (int)t->seed, mr_status_message(st));
    for (int i = 0; i < N_IN; i++)
        t->out[1 + i] = dx[i].dense;
}

static void write_program(trial *t, uint64_t seed)
{
    mr_ops_register();
    *t = (trial){
        .seed = seed, .o = {seed % 2, true}, .width = seed % 2 ? WIDTH : 1, .g = mr_graph_new()};
    mr_arena_init(&t->arena, 0);
    t->lines = mr_random_lines(&t->arena, seed, t->o);
    for (int i = 0; i < N_IN; i++)
        for (int j = 0; j < t->width; j++)
            t->values[i][j] = 0.3 + 0.4 * sin((double)(j + 3 * i) + (double)seed);
    mr_fb b;
    mr_fb_init(&b, t->g);
    b.lazy = seed / 2 % 2;
    for (int i = 0; i < N_IN; i++)
        t->x[i] = mr_placeholder(&b.s, MR_DOUBLE, "x", t->o.vectors ? NULL : &mr_pshape_scalar);
    t->out[0] = mr_random_emit(&b, &t->lines, t->x, t->o);
    mr_fb_deinit(&b);
}

static void forget(trial *t)
{
    mr_graph_unref(t->g);
    mr_arena_deinit(&t->arena);
}

static mr_tensor *feed_of(const trial *t, int i)
{
    mr_tensor *v;
    MR_CHECK_OK(mr_tensor_new(NULL, MR_DOUBLE, t->o.vectors, (const int64_t[]){WIDTH}, &v));
    memcpy(MR_DATA(double, v), t->values[i], (size_t)t->width * sizeof(double));
    return v;
}

static void take(const trial *t, mr_tensor *v, double *to)
{
    if (v->rank != t->o.vectors || v->n != t->width)
        mr_test_fail(__FILE__, __LINE__, "program %d: shape %s", (int)t->seed, MR_TENSOR_SHAPE(v));
    memcpy(to, MR_DATA(double, v), (size_t)t->width * sizeof(double));
    mr_tensor_unref(v);
}

static results run(trial *t, const mr_session_config *c)
{
    mr_session *s;
    mr_out fetches[N_OUT];
    mr_tensor *feeds[N_IN], *got[N_OUT] = {0};
    int n = 0, from[N_OUT];
    for (int i = 0; i < N_OUT; i++)
        if (t->out[i].node) {
            from[n] = i;
            fetches[n++] = t->out[i];
        }
    for (int i = 0; i < N_IN; i++)
        feeds[i] = feed_of(t, i);
    MR_CHECK_OK(mr_direct_session_new(t->g, NULL, c, &s));
    mr_run_args a = {.feeds = t->x,
                     .feed_values = feeds,
                     .n_feeds = N_IN,
                     .fetches = fetches,
                     .n_fetches = n,
                     .fetched = got};
    mr_status *st = mr_session_run(s, &a, NULL, NULL);
    if (st)
        mr_test_fail(__FILE__, __LINE__, "program %d: %s", (int)t->seed, mr_status_message(st));
    results r = {{{0}}};
    for (int i = 0; i < n; i++)
        take(t, got[i], r.v[from[i]]);
    for (int i = 0; i < N_IN; i++)
        mr_tensor_unref(feeds[i]);
    mr_session_free(s);
    return r;
}

static void check_number(const trial *t, const char *what, double got, double expected)
{
    if (!(fabs(got - expected) < 1e-9 * (1 + fabs(expected))))
        mr_test_fail(__FILE__, __LINE__, "program %d: %s is %.17g, line by line %.17g",
                     (int)t->seed, what, got, expected);
}

/* Where a comparison stands on an edge, rounding may decide otherwise. */
static void check_values(trial *t, const results *r)
{
    double margin;
    mr_dual y = mr_random_values(&t->lines, t->values, t->width, &margin);
    if (margin < 1e-9)
        return;
    for (int j = 0; j < t->width; j++)
        check_number(t, "the value", r->v[0][j], y.v[j]);
    for (int i = 0; i < N_IN; i++)
        for (int j = 0; j < t->width; j++) {
            double d = 0;
            for (int k = 0; k < t->width; k++)
                d += y.d[k][i * WIDTH + j];
            check_number(t, "a gradient", r->v[1 + i][j], d);
        }
}

static void check_same(const trial *t, const char *what, const results *a, const results *b)
{
    if (memcmp(a, b, sizeof(*a)) == 0)
        return;
    for (int i = 0; i < N_OUT; i++)
        for (int j = 0; j < t->width; j++)
            if (a->v[i][j] != b->v[i][j])
                mr_test_fail(__FILE__, __LINE__, "program %d, %s: output %d is %.17g, not %.17g",
                             (int)t->seed, what, i, b->v[i][j], a->v[i][j]);
}

/* Any node goes anywhere, control flow too.  What must stay together does (soft placement). */
static void scatter(trial *t, int n_devices)
{
    uint64_t random = t->seed * 2862933555777941757u + 3037000493u;
    for (int i = 0; i < t->g->nodes.n; i++) {
        char device[32];
        random = random * 6364136223846793005u + 1442695040888963407u;
        snprintf(device, sizeof(device), "/device:CPU:%d",
                 (int)((random >> 33) % (uint64_t)n_devices));
        mr_node_set_device(t->g->nodes.p[i], device);
    }
}

static const mr_session_config one_device = {.inter_threads = -1, .intra_threads = 1};

/* The next program of a test, and what one device makes of it, all passes on. */
static results begin(trial *t, uint64_t seed)
{
    write_program(t, seed);
    differentiate(t);
    return run(t, &one_device);
}

MR_TEST(random_programs_give_what_their_lines_give)
{
    mr_test_deadline(300);
    uint64_t first = mr_test_random() % 100000;
    for (uint64_t seed = first; seed < first + 2000 / SHARE; seed++) {
        trial t;
        results r = begin(&t, seed);
        check_values(&t, &r);
        forget(&t);
    }
}

MR_TEST(random_programs_give_the_same_over_three_devices)
{
    mr_test_deadline(300);
    uint64_t first = mr_test_random() % 100000;
    for (uint64_t seed = first; seed < first + 500 / SHARE; seed++) {
        trial t;
        results one = begin(&t, seed);
        mr_session_config c = {
            .n_cpus = 3, .inter_threads = 2, .intra_threads = 1, .soft_placement = true};
        c.inter_threads = seed % 5 ? -1 : 2;
        c.no_fold = seed / 8 % 2;
        c.no_cse = seed / 4 % 2;
        c.no_fuse = seed / 32 % 2;
        c.no_simplify = seed / 64 % 2;
        c.schedule = seed / 16 % 2 ? MR_SCHEDULE_ALL : MR_SCHEDULE_REMOTE;
        scatter(&t, c.n_cpus);
        results three = run(&t, &c);
        check_same(&t, "over three devices", &one, &three);
        forget(&t);
    }
}

/* The gradient is asked for after the devices, and goes where its forward nodes are. */
MR_TEST(random_programs_on_two_devices_give_what_their_lines_give)
{
    mr_test_deadline(300);
    uint64_t first = mr_test_random() % 100000;
    for (uint64_t seed = first; seed < first + 300 / SHARE; seed++) {
        trial t;
        write_program(&t, seed);
        scatter(&t, 2);
        differentiate(&t);
        mr_session_config c = {.n_cpus = 2,
                               .inter_threads = seed % 5 ? -1 : 2,
                               .intra_threads = 1,
                               .soft_placement = true};
        results r = run(&t, &c);
        check_values(&t, &r);
        forget(&t);
    }
}

MR_TEST(random_programs_give_the_same_without_passes_and_with_any_threads)
{
    mr_test_deadline(300);
    uint64_t first = mr_test_random() % 100000;
    for (uint64_t seed = first; seed < first + 200 / SHARE; seed++) {
        trial t;
        results plain = begin(&t, seed);
        mr_session_config c[] = {{.inter_threads = -1, .no_fold = true},
                                 {.inter_threads = 1, .no_cse = true},
                                 {.inter_threads = 4, .no_fold = true, .no_cse = true},
                                 {.inter_threads = -1, .no_fuse = true},
                                 {.inter_threads = -1, .no_simplify = true},
                                 {.inter_threads = 2, .no_fold = true, .no_fuse = true}};
        for (int i = 0; i < MR_COUNT(c); i++) {
            results r = run(&t, &c[i]);
            check_same(&t, "with other settings", &plain, &r);
        }
        forget(&t);
    }
}

/* The same program in a graph that was read from a GraphDef. */
static void import(const trial *t, trial *out)
{
    mr_str bytes = {0};
    mr_import_map want[N_IN + 1];
    mr_import_options o = {.returns = want, .n_returns = N_IN + 1};
    mr_import_results got;
    for (int i = 0; i <= N_IN; i++) {
        mr_out from = i < N_IN ? t->x[i] : t->out[0];
        want[i] = (mr_import_map){from.node->name, from.index, MR_NO_OUT};
    }
    *out = *t;
    out->g = mr_graph_new();
    MR_CHECK_OK(mr_graph_export(t->g, &bytes));
    MR_CHECK_OK(mr_graph_import(out->g, mr_str_view(&bytes), &o, &got));
    memcpy(out->x, got.returns, sizeof(out->x));
    out->out[0] = got.returns[N_IN];
    mr_import_results_deinit(&got);
    mr_str_deinit(&bytes);
}

MR_TEST(random_programs_differentiate_after_import)
{
    mr_test_deadline(300);
    uint64_t first = mr_test_random() % 100000;
    for (uint64_t seed = first; seed < first + 300 / SHARE; seed++) {
        trial t, imported;
        write_program(&t, seed);
        import(&t, &imported);
        differentiate(&t);
        differentiate(&imported);
        results built = run(&t, &one_device), read = run(&imported, &one_device);
        check_same(&t, "imported", &built, &read);
        mr_graph_unref(imported.g);
        forget(&t);
    }
}

/* ---- damaged programs ---- */
static uint64_t random_state;

static int pick(int n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int)((random_state >> 33) % (uint64_t)n);
}

static void damage(mr_graph *g)
{
    mr_node *n = g->nodes.p[pick(g->nodes.n)], *src = g->nodes.p[pick(g->nodes.n)];
    if (pick(4) == 0)
        mr_node_add_control(n, src);
    else if (n->n_in > 0 && src->n_out > 0) /* refused when the types differ */
        mr_status_free(mr_node_set_input(n, pick(n->n_in), (mr_out){src, pick(src->n_out)}));
}

/* Runs what may be anything: an error, a result, or nothing until the time is over. */
static void run_anyhow(const trial *t)
{
    mr_session *s;
    mr_session_config c = {.n_cpus = 1 + pick(3),
                           .inter_threads = pick(2) ? -1 : 2,
                           .intra_threads = 1,
                           .soft_placement = true,
                           .timeout_ms = 30};
    mr_tensor *feeds[N_IN], *got = NULL;
    for (int i = 0; i < N_IN; i++)
        feeds[i] = feed_of(t, i);
    mr_out y = pick(3) && t->out[1].node ? t->out[1] : t->out[0];
    mr_run_args a = {.feeds = t->x,
                     .feed_values = feeds,
                     .n_feeds = N_IN,
                     .fetches = &y,
                     .fetched = &got,
                     .n_fetches = 1};
    MR_CHECK_OK(mr_direct_session_new(t->g, NULL, &c, &s));
    mr_status_free(mr_session_run(s, &a, NULL, NULL));
    mr_tensor_unref(got);
    for (int i = 0; i < N_IN; i++)
        mr_tensor_unref(feeds[i]);
    mr_session_free(s);
}

MR_TEST(random_programs_that_are_damaged_do_no_harm)
{
    mr_test_deadline(300);
    random_state = mr_test_random();
    for (int i = 0; i < 150; i++) {
        trial t;
        write_program(&t, (uint64_t)pick(1000000));
        bool after = pick(2);
        for (int k = pick(3); !after && k >= 0; k--)
            damage(t.g);
        mr_gradient dx;
        mr_status *st = mr_graph_gradients(t.g, t.out, 1, t.x, 1, NULL, &dx);
        t.out[1] = st ? MR_NO_OUT : dx.dense;
        mr_status_free(st);
        for (int k = pick(3); after && k >= 0; k--)
            damage(t.g);
        scatter(&t, 3);
        run_anyhow(&t);
        forget(&t);
    }
}
