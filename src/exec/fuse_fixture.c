/* exec/fuse_fixture.c -- a graph of floats run with and without fusing nodes. */
#include "exec/fuse_fixture.h"

#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "passes/passes.h"
#include "run/fused.h"

void mr_ops_register(void); /* ops/table.h, above this layer */

void mr_fuse_fixture_init(mr_fuse_fixture *f)
{
    mr_ops_register();
    *f = (mr_fuse_fixture){.g = mr_graph_new(), .seed = 1};
    mr_scope_init(&f->s, f->g, "");
}

void mr_fuse_fixture_deinit(mr_fuse_fixture *f)
{
    for (int i = 0; i < f->n_x; i++)
        mr_tensor_unref(f->feed[i]);
    mr_scope_deinit(&f->s);
    mr_graph_unref(f->g);
}

mr_out mr_fuse_fixture_input(mr_fuse_fixture *f, int rank, const int64_t *dims, float low, float high, bool known)
{
    char name[16];
    int64_t unknown[8];
    mr_tensor *t;
    MR_CHECK(f->n_x < MR_FUSE_FIXTURE_INPUTS && rank <= 8);
    MR_CHECK_OK(mr_tensor_new(NULL, MR_FLOAT, rank, dims, &t));
    for (int64_t i = 0; i < t->n; i++) {
        f->seed = f->seed * 1664525 + 1013904223;
        MR_DATA(float, t)[i] = low + (high - low) * (float)(f->seed >> 8) / (float)(1 << 24);
    }
    for (int i = 0; i < rank; i++)
        unknown[i] = -1;
    snprintf(name, sizeof name, "x%d", f->n_x);
    f->feed[f->n_x] = t;
    f->x[f->n_x] = mr_placeholder(&f->s, MR_FLOAT, name, mr_pshape_of(&f->g->arena, rank, known ? dims : unknown));
    return f->x[f->n_x++];
}

mr_out mr_fuse_fixture_num(mr_fuse_fixture *f, float v)
{
    mr_tensor *t;
    MR_CHECK_OK(mr_tensor_new(NULL, MR_FLOAT, 0, NULL, &t));
    MR_DATA(float, t)[0] = v;
    return mr_const(&f->s, t);
}

mr_out mr_fuse_fixture_gradient(mr_fuse_fixture *f, mr_out y, mr_out x)
{
    mr_gradient dx = {0};
    const mr_pshape *s = mr_out_shape(y);
    MR_CHECK_OK(mr_scope_status(&f->s));
    MR_CHECK(s->rank >= 0);
    mr_out dy = mr_fuse_fixture_input(f, s->rank, s->dims, -1, 1, true);
    const mr_gradient_options options = {.grad_ys = &(mr_gradient){.dense = dy}};
    MR_CHECK_OK(mr_graph_gradients(f->g, &y, 1, &x, 1, &options, &dx));
    return dx.dense;
}

mr_status *mr_fuse_fixture_run(mr_fuse_fixture *f, bool no_fuse, const mr_out *fetches, int n, mr_tensor **out)
{
    mr_session *session;
    MR_CHECK_OK(mr_scope_status(&f->s));
    MR_CHECK_OK(mr_direct_session_new(f->g, NULL, &(mr_session_config){.no_fuse = no_fuse, .intra_threads = 1}, &session));
    const mr_run_args args = {.feeds = f->x,
                              .feed_values = f->feed,
                              .n_feeds = f->n_x,
                              .fetches = fetches,
                              .fetched = out,
                              .n_fetches = n};
    mr_status *st = mr_session_run(session, &args, NULL, NULL);
    mr_session_free(session);
    return st;
}

static void check_close(const mr_tensor *a, const mr_tensor *b)
{
    float largest = 0;
    MR_CHECK(mr_tensor_same_shape(a, b));
    for (int64_t i = 0; i < b->n; i++)
        if (isfinite(MR_DATA(float, b)[i]))
            largest = fmaxf(largest, fabsf(MR_DATA(float, b)[i]));
    for (int64_t i = 0; i < a->n; i++) {
        float p = MR_DATA(float, a)[i], q = MR_DATA(float, b)[i];
        MR_CHECK((isnan(p) && isnan(q)) || p == q ||
                 fabsf(p - q) <= 4e-6f * (fabsf(q) + (largest < 1e3f ? largest : 1)));
    }
}

void mr_fuse_fixture_check(mr_fuse_fixture *f, const mr_out *fetches, int n)
{
    mr_tensor *fused[MR_FUSE_FIXTURE_FETCHES] = {NULL}, *single[MR_FUSE_FIXTURE_FETCHES] = {NULL};
    MR_CHECK(n <= MR_FUSE_FIXTURE_FETCHES);
    MR_CHECK_OK(mr_fuse_fixture_run(f, false, fetches, n, fused));
    MR_CHECK_OK(mr_fuse_fixture_run(f, true, fetches, n, single));
    for (int i = 0; i < n; i++) {
        check_close(fused[i], single[i]);
        mr_tensor_unref(fused[i]);
        mr_tensor_unref(single[i]);
    }
}

/* Members of a fused node, "name:Op" each, with this op. */
static int count_members(const mr_node *n, const char *op)
{
    const mr_attr *members;
    int count = 0;
    MR_CHECK_OK(mr_node_get_list(n, MR_FUSED_MEMBERS, MR_ATTR_STRING, &members));
    for (int i = 0; i < members->n; i++) {
        const char *colon = memrchr(members->ss[i].p, ':', members->ss[i].n);
        count += mr_sv_is((mr_sv){colon + 1, (size_t)(members->ss[i].p + members->ss[i].n - colon) - 1}, op);
    }
    return count;
}

int mr_fuse_fixture_count(mr_fuse_fixture *f, const mr_out *fetches, int n, const char *op)
{
    mr_device *cpu;
    mr_graph *part = NULL;
    int count = 0;
    MR_CHECK_OK(mr_scope_status(&f->s));
    MR_CHECK_OK(mr_device_new_cpu("/job:localhost/replica:0/task:0/device:CPU:0", NULL, &cpu));
    const mr_run_signature signature = {.feeds = f->x, .n_feeds = f->n_x, .fetches = fetches, .n_fetches = n};
    MR_CHECK_OK(mr_prepare(f->g, &signature, &(mr_prepare_options){.devices = &cpu, .n_devices = 1}, &part));
    for (int i = 0; i < part->nodes.n; i++)
        if (part->nodes.p[i])
            count += mr_node_is(part->nodes.p[i], MR_FUSED_ELEMENTWISE) && strcmp(op, MR_FUSED_ELEMENTWISE) != 0
                         ? count_members(part->nodes.p[i], op)
                         : mr_node_is(part->nodes.p[i], op);
    mr_graph_unref(part);
    mr_device_free(cpu);
    return count;
}
