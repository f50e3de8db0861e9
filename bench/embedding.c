/* bench/embedding.c -- whether the time of a training step with a large table depends on the size of the table.
 *
 *     embedding [--mb N]      the larger table; usual: 4096, beside one of 256
 *
 * A step looks up 2048 rows of 64 floats in a table of 4 shards, computes a layer and a loss, and updates the rows it
 * used. The rows are drawn from 16384 rows spread evenly over the whole table, which have all been used before: so both
 * tables are equally warm, and unused memory is never allocated. Both train in turns, so that other activity on the
 * machine affects both equally; figures are medians, that of the ratio over the turns. */
#include <stdio.h>

#include "base/clock.h"
#include "base/memory.h"
#include "exec/session.h"
#include "ops/table.h"
#include "train/table.h"

enum { COLUMNS = 64, SHARDS = 4, BATCH = 2048, USED = 16384, ROUNDS = 101, STEPS = 20 };

typedef struct trained {
    int64_t rows;
    mr_graph *graph;
    mr_nn *net;
    mr_nn_table table;
    mr_out ids;
    mr_node *train;
    mr_session *s;
    uint64_t random;
    double times[ROUNDS];
} trained;

static void must(mr_status *st)
{
    if (!st)
        return;
    fprintf(stderr, "%s\n", mr_status_message(st));
    exit(1);
}

/* The initial value of a shard is memory that was never touched. */
static void assign_shard(trained *t, int shard)
{
    const mr_nn_var *v = &t->net->vars.p[t->table.shards[shard]];
    mr_tensor *zeros;
    must(mr_tensor_new(mr_cpu_allocator(), MR_FLOAT, 2, mr_out_shape(v->value)->dims, &zeros));
    mr_out value = mr_placeholder(&t->net->s, MR_FLOAT, "zeros", mr_out_shape(v->value));
    mr_node *assign = mr_emit(&t->net->s, "AssignVariableOp", v->handle, value).node;
    must(mr_scope_status(&t->net->s));
    must(mr_session_run(t->s, &(mr_run_args){.feeds = &value, .feed_values = &zeros, .n_feeds = 1, .targets = &assign,
                                             .n_targets = 1}, NULL, NULL));
    mr_tensor_unref(zeros);
}

static void begin(trained *t, int64_t mb)
{
    *t = (trained){.rows = mb * (1 << 20) / (COLUMNS * (int64_t)sizeof(float)), .graph = mr_graph_new(), .random = 1};
    t->net = mr_nn_new(t->graph);
    t->ids = mr_nn_input(t->net, "ids", MR_INT64, 1, (int64_t[]){BATCH});
    mr_nn_table_init(t->net, &t->table, "table", t->rows, COLUMNS, SHARDS, MR_NN_DIV, (mr_nn_init){MR_NN_CONSTANT, 0, 0});
    mr_out x = mr_nn_table_rows(t->net, &t->table, t->ids);
    mr_out loss = mr_nn_squared_loss(t->net, mr_nn_dense(t->net, "layer", x, 64, MR_NN_TANH), mr_const_f32(&t->net->s, 0.5f));
    t->train = mr_nn_minimize(t->net, loss, &(mr_nn_optimizer){MR_NN_SGD, 0.1f, MR_NO_OUT, 0, 0, 0, 0});
    must(mr_scope_status(&t->net->s));
    must(mr_direct_session_new(t->graph, NULL, &(mr_session_config){0}, &t->s));
    for (int i = 0; i < t->net->vars.n; i++) { /* everything except the shards as usual */
        bool is_shard = false;
        for (int k = 0; k < SHARDS; k++)
            is_shard |= t->table.shards[k] == i;
        if (!is_shard)
            must(mr_session_run(t->s, &(mr_run_args){.targets = &t->net->vars.p[i].assign, .n_targets = 1}, NULL, NULL));
    }
    for (int k = 0; k < SHARDS; k++)
        assign_shard(t, k);
}

/* The used rows from number `first` on, or random ones. */
static void step(trained *t, int64_t first)
{
    mr_tensor *ids;
    must(mr_tensor_new(mr_cpu_allocator(), MR_INT64, 1, (int64_t[]){BATCH}, &ids));
    for (int i = 0; i < BATCH; i++) {
        t->random = t->random * UINT64_C(6364136223846793005) + 1442695040888963407u;
        int64_t which = first >= 0 ? (first + i) % USED : (int64_t)(t->random >> 33) % USED;
        MR_DATA(int64_t, ids)[i] = which * (t->rows / USED);
    }
    must(mr_session_run(t->s, &(mr_run_args){.feeds = &t->ids, .feed_values = &ids, .n_feeds = 1, .targets = &t->train,
                                             .n_targets = 1}, NULL, NULL));
    mr_tensor_unref(ids);
}

static void measure(trained *t, int round)
{
    int64_t start = mr_now_ns();
    for (int i = 0; i < STEPS; i++)
        step(t, -1);
    t->times[round] = (double)(mr_now_ns() - start) / STEPS / 1e6;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *of)
{
    qsort(of, ROUNDS, sizeof *of, by_size);
    return of[ROUNDS / 2];
}

static void end(trained *t)
{
    mr_session_free(t->s);
    mr_nn_free(t->net);
    mr_graph_unref(t->graph);
}

int main(int argc, char **argv)
{
    int mb = argc == 3 && strcmp(argv[1], "--mb") == 0 ? atoi(argv[2]) : 4096;
    trained small, large;
    mr_ops_register();
    if (mb < 16) {
        fprintf(stderr, "embedding [--mb N]\n");
        return 2;
    }
    begin(&small, 256);
    begin(&large, mb);
    for (int64_t i = 0; i < 2 * USED; i += BATCH) {
        step(&small, i);
        step(&large, i);
    }
    for (int i = 0; i < ROUNDS; i++) {
        measure(i % 2 ? &small : &large, i);
        measure(i % 2 ? &large : &small, i);
    }
    double ratios[ROUNDS];
    for (int i = 0; i < ROUNDS; i++)
        ratios[i] = large.times[i] / small.times[i];
    double a = median(small.times), b = median(large.times), ratio = median(ratios);
    printf("embedding_step_256MB %.3f ms\n", a);
    if (mb == 4096)
        printf("embedding_step_4GB %.3f ms\nembedding_step_4GB_ratio_256MB %.3f times\n", b, ratio);
    else
        printf("embedding_step_%dMB %.3f ms\nembedding_step_%dMB_ratio_256MB %.3f times\n", mb, b, mb, ratio);
    end(&small);
    end(&large);
    return 0;
}
