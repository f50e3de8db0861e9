/* passes/cost.c -- what nodes and transfers cost, guessed from types and shapes.
 *
 * For decisions where a wrong guess costs time and never a result.  Guesses lean to one side: computing is taken
 * to be as fast as it can be, a size that is not known counts as 1; lines are taken to be slow, and a tensor of unknown
 * size to be large.  Who waits for the end of a computation to begin a transfer is then rather too early. */
#include <math.h>

#include "passes/passes.h"

#define START_NS 100         /* of any kernel */
#define NS_PER_BYTE 0.05     /* read or written: 20 GB/s */
#define NS_PER_PRODUCT 0.01  /* a multiplication with its addition: 100 of them in 1 ns, all cores together */
#define LATENCY_NS 200000    /* of a line between tasks */
#define LINE_NS_PER_BYTE 2.0 /* 0.5 GB/s */
#define UNKNOWN_BYTES (1 << 20)
#define LONGEST_NS 1e12      /* so that sums of them fit */

static double n_elements(const mr_pshape *s)
{
    double n = 1;
    for (int i = 0; i < s->rank; i++)
        n *= s->dims[i] > 0 ? (double)s->dims[i] : 1;
    return n;
}

static double bytes(mr_out o) { return n_elements(mr_out_shape(o)) * (double)mr_dtype_size(mr_dtype_base(mr_out_type(o))); }

int64_t mr_cost_bytes(mr_out o)
{
    bool known = mr_pshape_full(mr_out_shape(o)) && mr_dtype_is_plain(mr_dtype_base(mr_out_type(o)));
    return known && bytes(o) < 1e18 ? (int64_t)bytes(o) : -1;
}

/* Matrix products and convolutions: of the three operands of m x k, k x n and m x n elements the root of the product is
 * just the number of multiplications.  For convolutions it is a bit too small. */
static double n_products(const mr_node *n)
{
    static const char *const ops[] = {"MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Conv2D", "Conv3D",
                                      "Conv2DBackpropInput", "Conv2DBackpropFilter"};
    double first = 1, second = 1; /* the two largest inputs */
    bool is = false;
    for (int i = 0; i < MR_COUNT(ops) && !is; i++)
        is = mr_node_is(n, ops[i]);
    for (int i = 0; is && i < n->n_in; i++) {
        double e = n_elements(mr_out_shape(n->in[i]));
        second = MR_MAX(second, MR_MIN(first, e));
        first = MR_MAX(first, e);
    }
    return is ? sqrt(first * second * n_elements(n->out_shapes[0])) : 0;
}

int64_t mr_cost_node_ns(const mr_node *n)
{
    double ns = START_NS + NS_PER_PRODUCT * n_products(n);
    for (int i = 0; i < n->n_in && n->n_out > 0; i++)
        ns += NS_PER_BYTE * bytes(n->in[i]);
    if (n->n_in == 0 || mr_node_is_control_flow(n)) /* constants, variables: nothing moves */
        ns = START_NS;
    return (int64_t)MR_MIN(ns, LONGEST_NS);
}

int64_t mr_cost_transfer_ns(mr_out o)
{
    int64_t n = mr_cost_bytes(o);
    return (int64_t)MR_MIN(LATENCY_NS + LINE_NS_PER_BYTE * (double)(n < 0 ? UNKNOWN_BYTES : n), LONGEST_NS);
}
