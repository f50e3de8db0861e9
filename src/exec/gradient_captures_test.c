/* exec/gradient_captures_test.c -- gradients by values that loops and conditionals take from
 * outside.
 *
 * The same program is written with a fed value, a constant, a reference variable and a resource
 * variable in the same place: the gradients must be the same to the bit, and those by what is fed
 * agree with finite differences. */
#include "exec/gradient_fixture.h"

typedef enum capture { FED, CONSTANT, REFERENCE, RESOURCE, N_CAPTURES } capture;

typedef struct bench {
    mr_gradient_fixture r;
    capture kind;
    mr_out w; /* what is captured: value, reference or handle */
    int parallel;
} bench;

static const double w_value = 0.7;

static const mr_named_attr variable_attrs[] = {
    {"dtype", {MR_ATTR_TYPE, .type = MR_DOUBLE}},
    {"shape", {MR_ATTR_SHAPE, .shape = &mr_pshape_scalar}}};

static mr_out new_variable(bench *b, const char *op, const char *assign)
{
    mr_out v = mr_emit_n(&b->r.b.s, op, variable_attrs, 2, NULL, 0);
    mr_out set = mr_emit(&b->r.b.s, assign, v, mr_gradient_fixture_num(&b->r, w_value));
    MR_CHECK_OK(mr_gradient_fixture_target(&b->r, set.node));
    return v;
}

static void begin(bench *b, capture kind, int parallel, int n_cpus)
{
    static const int64_t none[] = {0};
    *b = (bench){.kind = kind, .parallel = parallel};
    mr_gradient_fixture_init(&b->r);
    b->r.config.n_cpus = n_cpus;
    mr_gradient_fixture_input(&b->r, 0, none, true);
    if (n_cpus > 1)
        b->r.b.s.device = "/device:CPU:1";
    switch (kind) {
    case FED:
        b->w = mr_gradient_fixture_input(&b->r, 0, none, true);
        *MR_DATA(double, b->r.feed[1]) = w_value;
        break;
    case CONSTANT: b->w = mr_gradient_fixture_num(&b->r, w_value); break;
    case REFERENCE: b->w = new_variable(b, "VariableV2", "Assign"); break;
    default: b->w = new_variable(b, "VarHandleOp", "AssignVariableOp"); break;
    }
    b->r.b.s.device = "";
}

/* The captured value, where we are. */
static mr_out captured(bench *b)
{
    if (b->kind != RESOURCE)
        return b->w;
    return mr_fb_emit(&b->r.b, "ReadVariableOp", variable_attrs, 1, &b->w, 1);
}

static mr_out times(bench *b, mr_out v) { return mr_fb2(&b->r.b, "Mul", v, captured(b)); }
static mr_out tame(bench *b, mr_out v) { return mr_fb1(&b->r.b, "Tanh", v); }

/* ---- programs ---- */
static mr_out loop(bench *b, int n)
{
    mr_out v[2] = {{0}, b->r.x[0]};
    mr_fb_for(&b->r.b, mr_gradient_fixture_i32(&b->r, n), b->parallel, v + 1, 1);
    v[1] = tame(b, times(b, v[1]));
    mr_fb_end_for(&b->r.b, v + 1, 1);
    return v[1];
}

static mr_out some_rounds(bench *b) { return loop(b, 5); }
static mr_out no_round(bench *b) { return times(b, loop(b, 0)); }

static mr_out nested(bench *b)
{
    mr_out v[2] = {{0}, b->r.x[0]}, u[2];
    mr_fb_for(&b->r.b, mr_gradient_fixture_i32(&b->r, 3), b->parallel, v + 1, 1);
    u[1] = times(b, v[1]);
    mr_fb_for(&b->r.b, v[0], b->parallel, u + 1, 1); /* 0, 1, 2 times */
    u[1] = tame(b, mr_fb2(&b->r.b, "Add", times(b, u[1]), v[1]));
    mr_fb_end_for(&b->r.b, u + 1, 1);
    v[1] = u[1];
    mr_fb_end_for(&b->r.b, v + 1, 1);
    return v[1];
}

/* Small values grow, large ones shrink: both sides are taken. */
static mr_out cond_in_loop(bench *b)
{
    mr_out v[2] = {{0}, b->r.x[0]};
    mr_fb_for(&b->r.b, mr_gradient_fixture_i32(&b->r, 6), b->parallel, v + 1, 1);
    mr_fb_cond(&b->r.b, mr_fb2(&b->r.b, "Less", v[1], mr_gradient_fixture_num(&b->r, 0.5)));
    mr_out more = mr_fb2(&b->r.b, "Add", v[1], captured(b));
    mr_fb_cond_else(&b->r.b, &more, 1);
    mr_out less = tame(b, mr_fb2(&b->r.b, "Mul", v[1], mr_gradient_fixture_num(&b->r, 0.3)));
    mr_fb_cond_end(&b->r.b, &less, &v[1]);
    mr_fb_end_for(&b->r.b, v + 1, 1);
    return v[1];
}

static mr_out loop_in_cond(bench *b, bool taken)
{
    mr_out y, v;
    mr_fb_cond(&b->r.b,
               mr_fb2(&b->r.b, "Less", mr_gradient_fixture_num(&b->r, 0), mr_gradient_fixture_num(&b->r, taken)));
    v = loop(b, 3);
    mr_fb_cond_else(&b->r.b, &v, 1);
    v = times(b, b->r.x[0]);
    mr_fb_cond_end(&b->r.b, &v, &y);
    return times(b, y);
}

static mr_out taken_loop(bench *b) { return loop_in_cond(b, true); }
static mr_out untaken_loop(bench *b) { return loop_in_cond(b, false); }

/* ---- the comparison ---- */
typedef mr_out program(bench *b);

typedef struct slopes {
    double x, w;
} slopes;

static slopes gradients(program *p, capture kind, int parallel, int n_cpus)
{
    bench b;
    mr_gradient dx[2];
    mr_tensor *t[2] = {0};
    begin(&b, kind, parallel, n_cpus);
    mr_out y = p(&b), xs[] = {b.r.x[0], b.w};
    if (kind == FED && n_cpus == 1)
        mr_gradient_fixture_check(&b.r, y);
    MR_CHECK_OK(mr_graph_gradients(b.r.g, &y, 1, xs, 2, NULL, dx));
    MR_CHECK_OK(mr_gradient_fixture_run(&b.r, (mr_out[]){dx[0].dense, dx[1].dense}, 2, t));
    slopes s = {*MR_DATA(double, t[0]), *MR_DATA(double, t[1])};
    mr_tensor_unref(t[0]);
    mr_tensor_unref(t[1]);
    mr_gradient_fixture_deinit(&b.r);
    return s;
}

static void check(program *p)
{
    slopes fed = gradients(p, FED, 10, 1);
    for (int kind = 0; kind < N_CAPTURES; kind++)
        for (int parallel = 1; parallel <= 32; parallel += 31)
            for (int n_cpus = 1; n_cpus <= 2; n_cpus++) {
                slopes s = gradients(p, kind, parallel, n_cpus);
                if (s.x != fed.x || s.w != fed.w)
                    mr_test_fail(__FILE__, __LINE__,
                                 "capture %d, %d iterations at once, %d devices: %.17g and %.17g "
                                 "instead of %.17g and %.17g",
                                 kind, parallel, n_cpus, s.x, s.w, fed.x, fed.w);
            }
}

MR_TEST(captures_in_a_loop) { check(some_rounds); }
MR_TEST(captures_in_a_loop_that_never_runs) { check(no_round); }
MR_TEST(captures_in_nested_loops) { check(nested); }
MR_TEST(captures_in_a_conditional_in_a_loop) { check(cond_in_loop); }
MR_TEST(captures_in_a_loop_on_the_taken_side) { check(taken_loop); }
MR_TEST(captures_in_a_loop_on_the_untaken_side) { check(untaken_loop); }
