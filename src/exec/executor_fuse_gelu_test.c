/* exec/executor_fuse_gelu_test.c -- passes/fuse_gelu.c: spellings of GELU and their gradients, and what is none. */
#include <math.h>

#include "exec/fuse_fixture.h"

typedef mr_fuse_fixture net;

static const int64_t dims[2] = {3, 37};

static mr_out num(net *n, double v) { return mr_fuse_fixture_num(n, (float)v); }
static mr_out mul(net *n, mr_out a, mr_out b) { return mr_emit(&n->s, "Mul", a, b); }
static mr_out add(net *n, mr_out a, mr_out b) { return mr_emit(&n->s, "Add", a, b); }
static mr_out call(net *n, const char *op, mr_out x) { return mr_emit(&n->s, op, x); }
static mr_out cube(net *n, mr_out x) { return mr_emit(&n->s, "Pow", x, num(n, 3)); }
static mr_out root(net *n) { return num(n, sqrt(2 / M_PI)); }

/* As BERT and GPT-2 have it. */
static mr_out as_published(net *n, mr_out x)
{
    mr_out t = call(n, "Tanh", mul(n, root(n), add(n, x, mul(n, num(n, 0.044715), cube(n, x)))));
    return mul(n, x, mul(n, num(n, 0.5), add(n, num(n, 1), t)));
}
static mr_out with_products(net *n, mr_out x)
{
    mr_out t = call(n, "Tanh", mul(n, add(n, x, mul(n, mul(n, mul(n, x, x), x), num(n, 0.044715))), root(n)));
    return mul(n, mul(n, num(n, 0.5), x), add(n, t, num(n, 1)));
}
static mr_out factored_out(net *n, mr_out x)
{
    mr_out inner = add(n, num(n, 1), mul(n, num(n, 0.044715), call(n, "Square", x)));
    return mul(n, mul(n, x, add(n, num(n, 1), call(n, "Tanh", mul(n, mul(n, root(n), x), inner)))), num(n, 0.5));
}
static mr_out exact(net *n, mr_out x)
{
    mr_out e = call(n, "Erf", mr_emit(&n->s, "RealDiv", x, num(n, sqrt(2))));
    return mul(n, x, mul(n, num(n, 0.5), add(n, num(n, 1), e)));
}
static mr_out exact_by_product(net *n, mr_out x)
{
    mr_out e = call(n, "Erf", mul(n, x, num(n, sqrt(0.5))));
    return mul(n, mul(n, num(n, 0.5), x), add(n, num(n, 1), e));
}
static mr_out quick(net *n, mr_out x) { return mul(n, x, call(n, "Sigmoid", mul(n, num(n, 1.702), x))); }
static mr_out swish(net *n, mr_out x) { return mul(n, call(n, "Sigmoid", x), x); }

static const struct spelling {
    mr_out (*make)(net *n, mr_out x);
    const char *op, *grad;
    bool overflows; /* where the cube of a finite number is infinite, the order of products matters */
} spellings[] = {
    {as_published, "_GeluTanh", "_GeluTanhGuardedGrad", true},
    {with_products, "_GeluTanh", "_GeluTanhGrad", false},
    {factored_out, "_GeluTanh", "_GeluTanhGrad", false},
    {exact, "_GeluErf", "_GeluErfGrad", true},
    {exact_by_product, "_GeluErf", "_GeluErfGrad", true},
    {quick, "_GeluSigmoid", "_GeluSigmoidGrad", true},
    {swish, "_Swish", "_SwishGrad", true},
};

MR_TEST(fuse_gelu_takes_each_spelling_and_its_gradient)
{
    for (int i = 0; i < MR_COUNT(spellings); i++) {
        net n;
        mr_fuse_fixture_init(&n);
        mr_out x = mr_fuse_fixture_input(&n, 2, dims, -5, 5, true), y = spellings[i].make(&n, x);
        mr_out fetches[] = {y, mr_fuse_fixture_gradient(&n, y, x)};
        MR_CHECK_INT(mr_fuse_fixture_count(&n, fetches, 2, spellings[i].op), 1);
        MR_CHECK_INT(mr_fuse_fixture_count(&n, fetches, 2, spellings[i].grad), 1);
        MR_CHECK_INT(mr_fuse_fixture_count(&n, fetches, 2, "_FusedElementwise"), 0);
        MR_CHECK_INT(mr_fuse_fixture_count(&n, fetches, 2, "Mul"), 0);
        mr_fuse_fixture_check(&n, fetches, 2);
        const float specials[] = {0, -0.0f, INFINITY, -INFINITY, NAN, spellings[i].overflows ? 1e25f : 1e3f, -1e3f};
        memcpy(n.feed[0]->data, specials, sizeof specials);
        mr_fuse_fixture_check(&n, fetches, 2);
        mr_fuse_fixture_deinit(&n);
    }
}

MR_TEST(fuse_gelu_keeps_what_is_fetched_and_adds_other_gradients)
{
    for (int i = 0; i < MR_COUNT(spellings); i++) {
        net n;
        mr_fuse_fixture_init(&n);
        mr_out x = mr_fuse_fixture_input(&n, 2, dims, -5, 5, true);
        mr_out before = mul(&n, x, num(&n, 1.5)); /* algebra that is not part of the formula */
        mr_out y = spellings[i].make(&n, before);
        mr_out after = add(&n, mul(&n, y, x), call(&n, "Sin", before));
        mr_out step = y.node->in[0].node == before.node ? y.node->in[1] : y.node->in[0];
        mr_out fetches[] = {after, mr_fuse_fixture_gradient(&n, after, x), y, step};
        MR_CHECK_INT(mr_fuse_fixture_count(&n, fetches, 4, spellings[i].op), 1);
        MR_CHECK_INT(mr_fuse_fixture_count(&n, fetches, 4, spellings[i].grad), 1);
        mr_fuse_fixture_check(&n, fetches, 4);
        mr_fuse_fixture_deinit(&n);
    }
}

MR_TEST(fuse_gelu_leaves_other_numbers_alone)
{
    net n;
    mr_fuse_fixture_init(&n);
    mr_out x = mr_fuse_fixture_input(&n, 2, dims, -5, 5, true);
    mr_out y = mul(&n, x, call(&n, "Sigmoid", mul(&n, num(&n, 1.7), x)));
    mr_out t = call(&n, "Tanh", mul(&n, root(&n), add(&n, x, mul(&n, num(&n, 0.04), cube(&n, x)))));
    mr_out z = mul(&n, x, mul(&n, num(&n, 0.5), add(&n, num(&n, 1), t)));
    mr_out w = mul(&n, y, call(&n, "Sigmoid", x));
    mr_out fetches[] = {y, z, w};
    MR_CHECK_INT(mr_fuse_fixture_count(&n, fetches, 3, "_GeluTanh"), 0);
    MR_CHECK_INT(mr_fuse_fixture_count(&n, fetches, 3, "_GeluSigmoid"), 0);
    MR_CHECK_INT(mr_fuse_fixture_count(&n, fetches, 3, "_Swish"), 0);
    mr_fuse_fixture_check(&n, fetches, 3);
    mr_fuse_fixture_deinit(&n);
}

MR_TEST(fuse_gelu_moves_a_reshape_after_it)
{
    net n;
    mr_fuse_fixture_init(&n);
    const int64_t rows[2] = {6, 4}, filter[2] = {4, 8}, bias[1] = {8};
    mr_out x = mr_fuse_fixture_input(&n, 2, rows, -1, 1, true), w = mr_fuse_fixture_input(&n, 2, filter, -1, 1, true);
    mr_out b = mr_fuse_fixture_input(&n, 1, bias, -1, 1, true);
    mr_out y = mr_emit(&n.s, "BiasAdd", mr_emit(&n.s, "MatMul", x, w), b);
    y = as_published(&n, mr_emit(&n.s, "Reshape", y, mr_const_vec_i32(&n.s, 3, (int32_t[]){2, 3, 8})));
    MR_CHECK_INT(mr_fuse_fixture_count(&n, &y, 1, "_FusedMatMul"), 1);
    MR_CHECK_INT(mr_fuse_fixture_count(&n, &y, 1, "_GeluTanh"), 0);
    mr_fuse_fixture_check(&n, &y, 1);
    mr_fuse_fixture_deinit(&n);
}
