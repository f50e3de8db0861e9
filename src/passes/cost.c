/* passes/cost.c -- rough costs of nodes and transfers, estimated from types and shapes.
 *
 * For decisions where a wrong estimate costs time but never changes a result. The estimates are biased on purpose:
 * computing is assumed to be as fast as possible, and an unknown dimension counts as 1; lines are assumed to be
 * slow, and a tensor of unknown size to be large. So a transfer that is scheduled to start with the estimated end
 * of a computation starts rather too early than too late. */
#include "passes/effort.h"
#include "passes/passes.h"

#define START_NS 100         /* of any kernel */
#define NS_PER_BYTE 0.05     /* read or written: 20 GB/s */
#define NS_PER_FLOP 0.005    /* all cores together */
#define LATENCY_NS 200000    /* of a line between tasks */
#define LINE_NS_PER_BYTE 2.0 /* 0.5 GB/s */
#define UNKNOWN_BYTES (1 << 20)
#define LONGEST_NS 1e12      /* so that sums of them fit */

/* In doubles, because the dimensions of a hostile graph could overflow a product of integers. */
int64_t mr_cost_bytes(mr_out o)
{
    mr_dtype type = mr_dtype_base(mr_out_type(o));
    double bytes = (double)mr_dtype_size(type);
    if (!mr_pshape_full(mr_out_shape(o)) || !mr_dtype_is_plain(type))
        return -1;
    for (int i = 0; i < mr_out_shape(o)->rank; i++)
        bytes *= (double)mr_out_shape(o)->dims[i];
    return bytes < 1e18 ? (int64_t)bytes : -1;
}

int64_t mr_cost_node_ns(const mr_node *n)
{
    mr_effort e = mr_effort_of(n, 1);
    return (int64_t)MR_MIN(START_NS + MR_MAX(NS_PER_FLOP * e.flops, NS_PER_BYTE * e.bytes), LONGEST_NS);
}

int64_t mr_cost_transfer_ns(mr_out o)
{
    int64_t n = mr_cost_bytes(o);
    return (int64_t)MR_MIN(LATENCY_NS + LINE_NS_PER_BYTE * (double)(n < 0 ? UNKNOWN_BYTES : n), LONGEST_NS);
}
