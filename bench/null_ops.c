/* bench/null_ops.c -- the overhead of the executor and the session: kernels that do nothing.
 *
 * Prints `name value unit` lines: nodes a second in a chain of NoOps, one feed-add-fetch through a
 * session, and a thousand scalar additions in one step.  The best of several rounds: others use the
 * machine too. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "exec/session.h"
#include "graph/scope.h"
#include "ops/table.h"

static void must(mr_status *st)
{
    if (!st)
        return;
    fprintf(stderr, "%s\n", mr_status_message(st));
    exit(1);
}

typedef struct setting {
    mr_graph *g;
    mr_scope s;
    mr_session *session;
} setting;

static void open_setting(setting *t)
{
    *t = (setting){.g = mr_graph_new()};
    mr_scope_init(&t->s, t->g, "");
}

static void start(setting *t)
{
    mr_session_config c = {.no_fold = true, .no_cse = true};
    must(mr_scope_status(&t->s));
    must(mr_direct_session_new(t->g, NULL, &c, &t->session));
}

static void close_setting(setting *t)
{
    mr_session_free(t->session);
    mr_scope_deinit(&t->s);
    mr_graph_unref(t->g);
}

/* Seconds a run, the best of `rounds` times `runs`. */
static double best_time(setting *t, const mr_run_args *a, int rounds, int runs)
{
    int64_t best = INT64_MAX;
    for (int r = 0; r < rounds; r++) {
        int64_t begin = mr_now_ns();
        for (int i = 0; i < runs; i++) {
            must(mr_session_run(t->session, a, NULL, NULL));
            for (int k = 0; k < a->n_fetches; k++)
                mr_tensor_unref(a->fetched[k]);
        }
        best = MR_MIN(best, mr_now_ns() - begin);
    }
    return (double)best / runs / 1e9;
}

static void null_ops_chain(void)
{
    enum { N = 10000 };
    setting t;
    open_setting(&t);
    mr_node *last = mr_emit0(&t.s, "NoOp").node;
    for (int i = 1; i < N; i++) {
        mr_node_builder *b = mr_node_begin(t.g, "NoOp", mr_graph_unique_name(t.g, "NoOp"));
        mr_nb_control(b, last);
        must(mr_node_finish(b, &last));
    }
    start(&t);
    double s = best_time(&t, &(mr_run_args){.targets = &last, .n_targets = 1}, 50, 20);
    printf("null_ops_chain_per_s %.0f 1/s\n", N / s);
    close_setting(&t);
}

/* Layers of NoOps, each waiting for all of the previous layer: measures counting pending inputs. */
static void null_ops_layers(void)
{
    enum { LAYERS = 500, WIDTH = 20 };
    setting t;
    open_setting(&t);
    mr_node *layer[WIDTH] = {0}, *join = NULL;
    for (int l = 0; l < LAYERS; l++) {
        for (int i = 0; i < WIDTH; i++) {
            mr_node_builder *b = mr_node_begin(t.g, "NoOp", mr_graph_unique_name(t.g, "NoOp"));
            if (join)
                mr_nb_control(b, join);
            must(mr_node_finish(b, &layer[i]));
        }
        mr_node_builder *b = mr_node_begin(t.g, "NoOp", mr_graph_unique_name(t.g, "join"));
        for (int i = 0; i < WIDTH; i++)
            mr_nb_control(b, layer[i]);
        must(mr_node_finish(b, &join));
    }
    start(&t);
    double s = best_time(&t, &(mr_run_args){.targets = &join, .n_targets = 1}, 50, 20);
    printf("null_ops_layers_per_s %.0f 1/s\n", LAYERS * (WIDTH + 1) / s);
    close_setting(&t);
}

static void feed_add_fetch(void)
{
    setting t;
    open_setting(&t);
    mr_out x = mr_placeholder(&t.s, MR_FLOAT, "x", NULL);
    mr_out y = mr_emit(&t.s, "AddV2", x, mr_const_f32(&t.s, 1));
    start(&t);
    mr_tensor *v = mr_tensor_scalar_f32(1), *got;
    mr_run_args a = {.feeds = &x,
                     .feed_values = &v,
                     .n_feeds = 1,
                     .fetches = &y,
                     .fetched = &got,
                     .n_fetches = 1};
    printf("feed_add_fetch_us %.3f us\n", best_time(&t, &a, 50, 2000) * 1e6);
    mr_tensor_unref(v);
    close_setting(&t);
}

static void scalar_adds(void)
{
    enum { N = 1000 };
    setting t;
    open_setting(&t);
    mr_out x = mr_placeholder(&t.s, MR_FLOAT, "x", NULL), one = mr_const_f32(&t.s, 1), y = x;
    for (int i = 0; i < N; i++)
        y = mr_emit(&t.s, "AddV2", y, one);
    start(&t);
    mr_tensor *v = mr_tensor_scalar_f32(1), *got;
    mr_run_args a = {.feeds = &x,
                     .feed_values = &v,
                     .n_feeds = 1,
                     .fetches = &y,
                     .fetched = &got,
                     .n_fetches = 1};
    printf("scalar_adds_1000_us %.2f us\n", best_time(&t, &a, 50, 100) * 1e6);
    mr_tensor_unref(v);
    close_setting(&t);
}

/* A while loop that counts to 10000. */
static void loop_iterations(void)
{
    enum { N = 10000 };
    setting t;
    open_setting(&t);
    mr_named_attr in[] = {{"frame_name", mr_a_str("w")}, {"is_constant", mr_a_bool(false)}};
    mr_named_attr constant[] = {{"frame_name", mr_a_str("w")}, {"is_constant", mr_a_bool(true)}};
    mr_out zero = mr_const_i32(&t.s, 0), one = mr_const_i32(&t.s, 1), n = mr_const_i32(&t.s, N);
    mr_out start_at = mr_emit_n(&t.s, "Enter", in, 2, &zero, 1),
           step = mr_emit_n(&t.s, "Enter", constant, 2, &one, 1);
    mr_out limit = mr_emit_n(&t.s, "Enter", constant, 2, &n, 1);
    mr_out m = mr_emit(&t.s, "Merge", start_at, start_at);
    mr_out cond = mr_emit(&t.s, "LoopCond", mr_emit(&t.s, "Less", m, limit)),
           sw = mr_emit(&t.s, "Switch", m, cond);
    mr_out next = mr_emit(&t.s, "NextIteration", mr_emit(&t.s, "AddV2", mr_nth(sw, 1), step));
    mr_out out = mr_emit(&t.s, "Exit", sw);
    must(mr_node_set_input(m.node, 1, next));
    start(&t);
    mr_tensor *got;
    mr_run_args a = {.fetches = &out, .fetched = &got, .n_fetches = 1};
    printf("loop_iteration_us %.3f us\n", best_time(&t, &a, 20, 5) * 1e6 / N);
    close_setting(&t);
}

int main(void)
{
    mr_ops_register();
    null_ops_chain();
    null_ops_layers();
    feed_add_fetch();
    scalar_adds();
    loop_iterations();
    return 0;
}
