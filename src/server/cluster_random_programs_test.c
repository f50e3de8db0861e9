/* server/cluster_random_programs_test.c -- random programs over the tasks of a cluster: loops, conditionals and calls in one another, with
 * their gradients, whose nodes are anywhere.  Not a bit may differ from one device (exec/executor_random_programs_test.c proves
 * that right). */
#include <stdio.h>

#include "base/memory.h"
#include "graph/grad.h"
#include "graph/random_program_fixture.h"
#include "server/cluster_fixture.h"

enum { N_IN = MR_RANDOM_PROGRAM_INPUTS, WIDTH = MR_RANDOM_PROGRAM_WIDTH, N_OUT = N_IN + 1 };

#ifdef MR_DEBUG /* sanitizers take their time */
enum { PROGRAMS = 10 };
#else
enum { PROGRAMS = 60 };
#endif

typedef struct program {
    uint64_t seed;
    mr_out x[N_IN], out[N_OUT]; /* the result, then the gradients */
    int n_out;
} program;

static void write_program(mr_graph *g, uint64_t seed, program *p)
{
    mr_arena arena;
    mr_gradient dx[N_IN];
    mr_random_options o = {seed % 2, true};
    *p = (program){.seed = seed};
    mr_arena_init(&arena, 0);
    mr_program_block lines = mr_random_lines(&arena, seed, o);
    mr_fb b;
    mr_fb_init(&b, g);
    for (int i = 0; i < N_IN; i++)
        p->x[i] = mr_placeholder(&b.s, MR_DOUBLE, "x", o.vectors ? NULL : &mr_pshape_scalar);
    p->out[p->n_out++] = mr_random_emit(&b, &lines, p->x, o);
    mr_fb_deinit(&b);
    mr_arena_deinit(&arena);
    MR_CHECK_OK(mr_graph_gradients(g, p->out, 1, p->x, N_IN, NULL, dx));
    for (int i = 0; i < N_IN; i++)
        if (dx[i].dense.node)
            p->out[p->n_out++] = dx[i].dense;
}

static bool has_handle(const mr_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (mr_dtype_base(n->in_types[i]) == MR_RESOURCE)
            return true;
    for (int i = 0; i < n->n_out; i++)
        if (mr_dtype_base(n->out_types[i]) == MR_RESOURCE)
            return true;
    return false;
}

/* Any node anywhere, but for those that must be with others: by a stack or an array that they share, or by their wish. */
static void scatter(mr_graph *g, uint64_t random)
{
    static const char *const tasks[] = {"/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0"};
    for (int i = 0; i < g->nodes.n; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        if (!mr_node_attr(g->nodes.p[i], "_class") && !has_handle(g->nodes.p[i]))
            mr_node_set_device(g->nodes.p[i], tasks[(random >> 33) % 3]);
    }
}

typedef struct results {
    double v[N_OUT][WIDTH];
} results;

static void run(mr_session *s, const program *p, results *r)
{
    mr_tensor *feeds[N_IN], *got[N_OUT] = {0};
    int64_t width[] = {p->seed % 2 ? WIDTH : 1};
    for (int i = 0; i < N_IN; i++) {
        MR_CHECK_OK(mr_tensor_new(NULL, MR_DOUBLE, p->seed % 2, width, &feeds[i]));
        for (int j = 0; j < width[0]; j++)
            MR_DATA(double, feeds[i])[j] = 0.3 + 0.4 * sin((double)(j + 3 * i) + (double)p->seed);
    }
    mr_run_args a = {.feeds = p->x, .feed_values = feeds, .n_feeds = N_IN, .fetches = p->out, .n_fetches = p->n_out, .fetched = got};
    mr_status *st = mr_session_run(s, &a, NULL, NULL);
    if (st)
        mr_test_fail(__FILE__, __LINE__, "program %d: %s", (int)p->seed, mr_status_message(st));
    memset(r, 0, sizeof *r);
    for (int i = 0; i < p->n_out; i++) {
        MR_CHECK_INT(got[i]->n, width[0]);
        memcpy(r->v[i], MR_DATA(double, got[i]), (size_t)width[0] * sizeof(double));
        mr_tensor_unref(got[i]);
    }
    for (int i = 0; i < N_IN; i++)
        mr_tensor_unref(feeds[i]);
}

static void compare(const program *p, const results *one, const results *many)
{
    for (int i = 0; i < p->n_out; i++)
        for (int j = 0; j < WIDTH; j++)
            if (one->v[i][j] != many->v[i][j])
                mr_test_fail(__FILE__, __LINE__, "program %d: output %d is %.17g, on one device %.17g", (int)p->seed, i,
                             many->v[i][j], one->v[i][j]);
}

MR_TEST(server_programs_give_the_same_over_three_tasks)
{
    mr_test_deadline(300);
    cluster_fixture b;
    uint64_t first = mr_test_random() % 100000;
    cluster_fixture_begin(&b, 2, 1);
    mr_graph *none = b.g;
    for (uint64_t seed = first; seed < first + PROGRAMS; seed++) {
        program p;
        results one, many;
        mr_session *direct;
        b.g = mr_graph_new();
        write_program(b.g, seed, &p);
        MR_CHECK_OK(mr_direct_session_new(b.g, NULL, &(mr_session_config){.inter_threads = -1, .intra_threads = 1}, &direct));
        run(direct, &p, &one);
        mr_session_free(direct);
        scatter(b.g, seed * 2862933555777941757u + 3037000493u);
        run(cluster_fixture_session_of(&b), &p, &many);
        compare(&p, &one, &many);
        cluster_fixture_end_session(&b);
        mr_graph_unref(b.g);
    }
    b.g = none;
    cluster_fixture_end(&b);
}
