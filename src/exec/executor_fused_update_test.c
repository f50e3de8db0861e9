/* exec/executor_fused_update_test.c -- optimizers' updates that run as one node (ops/optim/fused_update.c): the same values
 * and errors as without. */
#include <stdio.h>

#include "base/memory.h"
#include "exec/session.h"
#include "graph/scope.h"
#include "tests/harness/test.h"

void mr_ops_register(void); /* ops/table.h, above this layer */

enum { N = 6, WIDTH = 5 };

typedef struct model {
    mr_graph *g;
    mr_scope s;
    mr_out grads[N]; /* fed */
    mr_out vars[N], slots[N];
    mr_node *init[2 * N], *train;
} model;

static mr_out variable(model *m, const char *name, const mr_pshape *shape)
{
    return mr_emit0_with(mr_as(&m->s, name), "VariableV2", MR_ATTRS({"shape", mr_a_shape(shape)}, {"dtype", mr_a_type(MR_FLOAT)}));
}

static mr_out vector(model *m, double first)
{
    mr_tensor *t;
    int64_t dims[] = {WIDTH};
    MR_CHECK_OK(mr_tensor_new(NULL, MR_FLOAT, 1, dims, &t));
    for (int i = 0; i < WIDTH; i++)
        MR_DATA(float, t)[i] = (float)(first + i);
    return mr_const(&m->s, t); /* which takes it over */
}

static mr_out scalar(model *m, float v)
{
    mr_tensor *t;
    MR_CHECK_OK(mr_tensor_new(NULL, MR_FLOAT, 0, NULL, &t));
    *MR_DATA(float, t) = v;
    return mr_const(&m->s, t); /* which takes it over */
}

/* Half of the variables by Momentum, half by GradientDescent. The shape of the placeholders is only said to be that of the
 * variables. */
static void write_model(model *m)
{
    mr_ops_register();
    *m = (model){.g = mr_graph_new()};
    mr_scope_init(&m->s, m->g, "");
    mr_pshape *shape = mr_arena_alloc(&m->g->arena, sizeof *shape + sizeof(int64_t));
    shape->rank = 1;
    shape->dims[0] = WIDTH;
    mr_out rate = scalar(m, 0.1f), momentum = scalar(m, 0.9f);
    m->train = mr_emit0(mr_as(&m->s, "train"), "NoOp").node;
    for (int i = 0; i < N; i++) {
        char name[32];
        snprintf(name, sizeof name, "update%d", i);
        m->grads[i] = mr_placeholder(&m->s, MR_FLOAT, "p", shape);
        m->vars[i] = variable(m, "v", shape);
        m->slots[i] = variable(m, "slot", shape);
        m->init[2 * i] = mr_emit(&m->s, "Assign", m->vars[i], vector(m, i)).node;
        m->init[2 * i + 1] = mr_emit(&m->s, "Assign", m->slots[i], vector(m, 2 * i)).node;
        mr_out u = i % 2 ? mr_emit(mr_as(&m->s, name), "ApplyMomentum", m->vars[i], m->slots[i], rate, m->grads[i], momentum)
                         : mr_emit(mr_as(&m->s, name), "ApplyGradientDescent", m->vars[i], rate, m->grads[i]);
        mr_node_add_control(m->train, u.node);
    }
    MR_CHECK_OK(mr_scope_status(&m->s));
}

static void forget(model *m)
{
    mr_scope_deinit(&m->s);
    mr_graph_unref(m->g);
}

static mr_session *open_session(model *m, bool plain)
{
    mr_session *s;
    mr_session_config c = {.inter_threads = -1, .no_fuse = plain};
    MR_CHECK_OK(mr_direct_session_new(m->g, NULL, &c, &s));
    return s;
}

/* The gradients have `width` elements, except the one of `odd`, which has one more. */
static mr_status *train(model *m, mr_session *s, int odd)
{
    mr_tensor *fed[N];
    for (int i = 0; i < N; i++) {
        int64_t dims[] = {WIDTH + (i == odd)};
        MR_CHECK_OK(mr_tensor_new(NULL, MR_FLOAT, 1, dims, &fed[i]));
        for (int k = 0; k < dims[0]; k++)
            MR_DATA(float, fed[i])[k] = (float)(i - k) / 3;
    }
    mr_run_args a = {.feeds = m->grads, .feed_values = fed, .n_feeds = N, .targets = &m->train, .n_targets = 1};
    mr_status *st = mr_session_run(s, &a, NULL, NULL);
    for (int i = 0; i < N; i++)
        mr_tensor_unref(fed[i]);
    return st;
}

static void initialize(model *m, mr_session *s, int n)
{
    mr_run_args a = {.targets = m->init, .n_targets = n};
    MR_CHECK_OK(mr_session_run(s, &a, NULL, NULL));
}

MR_TEST(executor_fused_updates_give_the_same_bits)
{
    model m;
    mr_tensor *got[2][2 * N];
    write_model(&m);
    for (int plain = 0; plain < 2; plain++) {
        mr_session *s = open_session(&m, plain);
        initialize(&m, s, 2 * N);
        for (int i = 0; i < 4; i++)
            MR_CHECK_OK(train(&m, s, -1));
        mr_out all[2 * N];
        memcpy(all, m.vars, sizeof m.vars);
        memcpy(all + N, m.slots, sizeof m.slots);
        mr_run_args a = {.fetches = all, .fetched = got[plain], .n_fetches = 2 * N};
        MR_CHECK_OK(mr_session_run(s, &a, NULL, NULL));
        mr_session_free(s);
    }
    for (int i = 0; i < 2 * N; i++) {
        MR_CHECK(mr_tensor_equal(got[0][i], got[1][i]));
        mr_tensor_unref(got[0][i]);
        mr_tensor_unref(got[1][i]);
    }
    forget(&m);
}

/* Runs with and without fusion; both fail alike, with this text. */
static void check_failure(model *m, int n_init, int odd, const char *text, const char *node)
{
    mr_status *st[2];
    for (int plain = 0; plain < 2; plain++) {
        mr_session *s = open_session(m, plain);
        initialize(m, s, n_init);
        st[plain] = train(m, s, odd);
        mr_session_free(s);
    }
    MR_CHECK_STR(mr_status_message(st[0]), mr_status_message(st[1]));
    MR_CHECK(strstr(mr_status_message(st[0]), text) != NULL);
    MR_CHECK(strstr(mr_status_message(st[0]), node) != NULL);
    mr_status_free(st[0]);
    mr_status_free(st[1]);
}

MR_TEST(executor_fused_updates_fail_as_the_node_that_was_fused)
{
    model m;
    write_model(&m);
    check_failure(&m, 2 * N, 3, "var and grad do not have the same shape", "{{node update3}}");
    check_failure(&m, 2 * N - 1, -1, "Attempting to use uninitialized value slot_5", "{{node update5}}");
    forget(&m);
}

MR_TEST(executor_fused_updates_are_traced_with_what_they_consist_of)
{
    model m;
    mr_str metadata = {0};
    const char *label = "_FusedUpdate[", *one = "update1:ApplyMomentum";
    write_model(&m);
    mr_session *s = open_session(&m, false);
    initialize(&m, s, 2 * N);
    mr_tensor *fed[N];
    for (int i = 0; i < N; i++)
        MR_CHECK_OK(mr_tensor_zeros(NULL, MR_FLOAT, 1, (int64_t[]){WIDTH}, &fed[i]));
    mr_run_args a = {.feeds = m.grads, .feed_values = fed, .n_feeds = N, .targets = &m.train, .n_targets = 1};
    MR_CHECK_OK(mr_session_run(s, &a, &(mr_run_options){.trace_level = MR_FULL_TRACE}, &metadata));
    MR_CHECK(memmem(metadata.p, metadata.n, label, strlen(label)) && memmem(metadata.p, metadata.n, one, strlen(one)));
    for (int i = 0; i < N; i++)
        mr_tensor_unref(fed[i]);
    mr_str_deinit(&metadata);
    mr_session_free(s);
    forget(&m);
}
