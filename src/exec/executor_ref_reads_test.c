/* exec/executor_ref_reads_test.c -- what nodes see of ref variables that the same step updates.
 *
 * In graphs of TensorFlow's front end one Identity reads a variable for all its users; those that run after an update
 * see the new value. */
#include "exec/gradient_fixture.h"

typedef struct bench {
    mr_gradient_fixture r;
    mr_scope *s;
    mr_out v, read; /* a variable of value 2, and Identity of it */
} bench;

static void begin(bench *b)
{
    *b = (bench){0};
    mr_gradient_fixture_init(&b->r);
    b->s = &b->r.b.s;
    mr_gradient_fixture_input(&b->r, 0, (const int64_t[]){0}, true);
    mr_named_attr attrs[] = {{"dtype", mr_a_type(MR_DOUBLE)}, {"shape", mr_a_shape(&mr_pshape_scalar)}};
    b->v = mr_emit_n(b->s, "VariableV2", attrs, 2, NULL, 0);
    b->read = mr_emit(b->s, "Identity", b->v);
    MR_CHECK_OK(
        mr_gradient_fixture_target(&b->r, mr_emit(b->s, "Assign", b->v, mr_gradient_fixture_num(&b->r, 2)).node));
}

static void end(bench *b) { mr_gradient_fixture_deinit(&b->r); }

static mr_out add_one(bench *b) { return mr_fb2(&b->r.b, "AssignAdd", b->v, mr_gradient_fixture_num(&b->r, 1)); }

/* A node that computes with x, after another one. */
static mr_out after(bench *b, mr_node *first, mr_out x)
{
    mr_out y = mr_fb2(&b->r.b, "Mul", x, mr_gradient_fixture_num(&b->r, 1));
    mr_node_add_control(y.node, first);
    return y;
}

static void check(bench *b, const mr_out *fetches, int n, const double *want)
{
    mr_tensor *t[4];
    MR_CHECK_OK(mr_gradient_fixture_run(&b->r, fetches, n, t));
    for (int i = 0; i < n; i++) {
        for (int64_t k = 0; k < t[i]->n; k++)
            MR_CHECK_NEAR(MR_DATA(double, t[i])[k], want[i], 0);
        mr_tensor_unref(t[i]);
    }
}
#define CHECK(b, outs, ...) check(b, outs, (const double[]){__VA_ARGS__})

/* The tokens of SyncReplicasOptimizer: the global step after it was raised. */
MR_TEST(ref_reads_see_an_update_that_the_graph_orders_before_them)
{
    bench b;
    begin(&b);
    mr_node *update = mr_emit0(b.s, "NoOp").node;
    mr_node_add_control(update, add_one(&b).node);
    mr_out tokens = mr_emit(b.s, "Fill", mr_const_vec_i32(b.s, 1, (const int32_t[]){3}), b.read);
    mr_node_add_control(tokens.node, update);
    CHECK(&b, MR_OUTS(tokens), 3);
    CHECK(&b, MR_OUTS(tokens), 4);
    end(&b);
}

MR_TEST(ref_reads_see_each_of_several_updates)
{
    bench b;
    begin(&b);
    mr_out before = mr_fb2(&b.r.b, "Mul", b.read, mr_gradient_fixture_num(&b.r, 1));
    mr_out first = add_one(&b);
    mr_node_add_control(first.node, before.node);
    mr_out between = after(&b, first.node, b.read);
    mr_out second = add_one(&b);
    mr_node_add_control(second.node, between.node);
    mr_out last = after(&b, second.node, b.read);
    CHECK(&b, MR_OUTS(before, between, last), 2, 3, 4);
    end(&b);
}

/* Variables that are all updated, and then every step-th of them is used behind all updates. */
static void check_many_updates(int step)
{
    enum { N = 150 };
    bench b;
    mr_out read[N];
    begin(&b);
    mr_node *set = mr_emit0(b.s, "NoOp").node, *train = mr_emit0(b.s, "NoOp").node;
    mr_named_attr attrs[] = {{"dtype", mr_a_type(MR_DOUBLE)}, {"shape", mr_a_shape(&mr_pshape_scalar)}};
    for (int i = 0; i < N; i++) {
        mr_out v = mr_emit_n(b.s, "VariableV2", attrs, 2, NULL, 0);
        read[i] = mr_emit(b.s, "Identity", v);
        mr_node_add_control(set, mr_emit(b.s, "Assign", v, mr_gradient_fixture_num(&b.r, i)).node);
        mr_node_add_control(train, mr_fb2(&b.r.b, "AssignAdd", v, mr_fb2(&b.r.b, "Mul", read[i], read[i])).node);
    }
    MR_CHECK_OK(mr_gradient_fixture_target(&b.r, set));
    mr_out total = after(&b, train, read[0]);
    double sum = 0;
    for (int i = step; i < N; i += step) {
        total = mr_fb2(&b.r.b, "Add", total, after(&b, train, read[i]));
        sum += i + i * i;
    }
    CHECK(&b, MR_OUTS(total), sum);
    end(&b);
}

/* Averages behind an optimizer. */
MR_TEST(ref_reads_see_updates_of_many_variables) { check_many_updates(1); }

/* Updates of variables that nobody uses afterwards are not looked at. */
MR_TEST(ref_reads_see_updates_of_a_few_of_many_variables) { check_many_updates(70); }

/* Through nodes that hand on the memory of what they get, as in TensorFlow. */
MR_TEST(ref_reads_see_updates_through_reshapes)
{
    bench b;
    begin(&b);
    mr_out shape = mr_const_vec_i32(b.s, 1, (const int32_t[]){1});
    mr_out view = mr_emit(b.s, "StopGradient", mr_emit(b.s, "Reshape", b.read, shape));
    mr_out first = add_one(&b), last = after(&b, first.node, view);
    CHECK(&b, MR_OUTS(last), 3);
    end(&b);
}

/* As TensorFlow's kernels of these do, too. */
MR_TEST(ref_reads_see_updates_through_checks)
{
    bench b;
    begin(&b);
    mr_named_attr message[] = {{"message", mr_a_str("")}};
    mr_out checked = mr_emit_n(b.s, "CheckNumerics", message, 1, MR_OUTS(b.read));
    mr_named_attr shape[] = {{"shape", mr_a_shape(&mr_pshape_scalar)}};
    mr_out ensured = mr_emit_n(b.s, "EnsureShape", shape, 1, MR_OUTS(checked));
    mr_out either = mr_emit_n(b.s, "PlaceholderWithDefault", shape, 1, MR_OUTS(ensured));
    mr_out first = add_one(&b), last = after(&b, first.node, either);
    CHECK(&b, MR_OUTS(last), 3);
    end(&b);
}

/* A Snapshot copies what others hold, too: the variable. */
MR_TEST(ref_reads_leave_snapshots_alone)
{
    bench b;
    begin(&b);
    mr_out kept = mr_emit(b.s, "Snapshot", b.read), first = add_one(&b);
    mr_node_add_control(first.node, kept.node);
    CHECK(&b, MR_OUTS(after(&b, first.node, kept)), 2);
    end(&b);
}

/* The value that was computed before is no alias. */
MR_TEST(ref_reads_leave_results_of_kernels_alone)
{
    bench b;
    begin(&b);
    mr_out twice = mr_fb2(&b.r.b, "Add", b.read, b.read), first = add_one(&b);
    mr_node_add_control(first.node, twice.node);
    CHECK(&b, MR_OUTS(after(&b, first.node, twice)), 4);
    end(&b);
}

/* Another variable's update, or one that waits for the user, changes nothing. */
MR_TEST(ref_reads_heed_the_variable)
{
    bench b;
    begin(&b);
    mr_named_attr attrs[] = {{"dtype", mr_a_type(MR_DOUBLE)}, {"shape", mr_a_shape(&mr_pshape_scalar)}};
    mr_out other = mr_emit_n(b.s, "VariableV2", attrs, 2, NULL, 0);
    mr_out set = mr_fb2(&b.r.b, "Assign", other, mr_gradient_fixture_num(&b.r, 8));
    mr_out use = after(&b, set.node, b.read), add = add_one(&b);
    mr_node_add_control(add.node, use.node);
    CHECK(&b, MR_OUTS(use, mr_fb1(&b.r.b, "Identity", add)), 2, 3);
    end(&b);
}

MR_TEST(ref_reads_in_a_branch_see_its_updates)
{
    bench b;
    begin(&b);
    mr_fb *f = &b.r.b;
    mr_out y;
    mr_fb_cond(f, mr_fb2(f, "Less", b.r.x[0], mr_gradient_fixture_num(&b.r, 0.5)));
    mr_out here = after(&b, add_one(&b).node, b.read);
    mr_fb_cond_else(f, &here, 1);
    mr_out none = mr_gradient_fixture_num(&b.r, -1);
    mr_fb_cond_end(f, &none, &y);
    for (int i = 0; i < 2; i++) {
        *MR_DATA(double, b.r.feed[0]) = i == 0 ? 0.3 : 0.9;
        CHECK(&b, MR_OUTS(y), i == 0 ? 3 : -1);
    }
    CHECK(&b, MR_OUTS(b.read), 3);
    end(&b);
}

/* An update before a conditional is seen in it, and only on the side that is taken. */
MR_TEST(ref_reads_in_a_branch_see_updates_before_it)
{
    bench b;
    begin(&b);
    mr_fb *f = &b.r.b;
    mr_out y, pred = mr_fb2(f, "Less", b.r.x[0], mr_gradient_fixture_num(&b.r, 0.5));
    mr_node_add_control(pred.node, add_one(&b).node);
    mr_fb_cond(f, pred);
    mr_out here = mr_fb2(f, "Mul", b.read, mr_gradient_fixture_num(&b.r, 1));
    mr_fb_cond_else(f, &here, 1);
    mr_out none = mr_fb1(f, "Neg", b.read);
    mr_fb_cond_end(f, &none, &y);
    for (int i = 0; i < 2; i++) {
        *MR_DATA(double, b.r.feed[0]) = i == 0 ? 0.3 : 0.9;
        CHECK(&b, MR_OUTS(y), i == 0 ? 3 : -4);
    }
    end(&b);
}

/* for i in 3: v += 1; sum += read, where the read is outside of the loop; then read behind it. */
MR_TEST(ref_reads_in_a_loop_see_each_iteration)
{
    bench b;
    begin(&b);
    mr_fb *f = &b.r.b;
    mr_out all[2] = {MR_NO_OUT, mr_gradient_fixture_num(&b.r, 0)}, *sum = &all[1];
    mr_fb_for(f, mr_gradient_fixture_i32(&b.r, 3), 10, sum, 1);
    mr_out here = after(&b, add_one(&b).node, b.read);
    *sum = mr_fb2(f, "Add", *sum, here);
    mr_fb_end_for(f, sum, 1);
    mr_out behind = after(&b, sum->node, b.read);
    CHECK(&b, MR_OUTS(*sum, behind), 3 + 4 + 5, 5);
    CHECK(&b, MR_OUTS(*sum, behind), 6 + 7 + 8, 8);
    end(&b);
}

/* The same with changes of shape outside of two loops, which are made again inside of them. */
MR_TEST(ref_reads_in_a_loop_see_updates_through_reshapes)
{
    bench b;
    begin(&b);
    mr_fb *f = &b.r.b;
    mr_out shape = mr_const_vec_i32(b.s, 1, (const int32_t[]){1}), scalar = mr_const_vec_i32(b.s, 0, NULL);
    mr_out view = mr_emit(b.s, "ExpandDims", mr_emit(b.s, "Reshape", b.read, shape), mr_gradient_fixture_i32(&b.r, 0));
    mr_out all[2] = {MR_NO_OUT, mr_gradient_fixture_num(&b.r, 0)}, *sum = &all[1];
    mr_fb_for(f, mr_gradient_fixture_i32(&b.r, 2), 10, sum, 1);
    mr_out inner[2] = {MR_NO_OUT, *sum};
    mr_fb_for(f, mr_gradient_fixture_i32(&b.r, 2), 10, &inner[1], 1);
    mr_out here = after(&b, add_one(&b).node, view);
    inner[1] = mr_fb2(f, "Add", inner[1], mr_fb2(f, "Reshape", here, scalar));
    mr_fb_end_for(f, &inner[1], 1);
    *sum = inner[1];
    mr_fb_end_for(f, sum, 1);
    CHECK(&b, MR_OUTS(*sum), 3 + 4 + 5 + 6);
    end(&b);
}
