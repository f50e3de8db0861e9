/* ops/nn/fused_fast.h -- convolutions and products of floats with what follows them in one pass over memory.
 *
 * The ops of fused.c are defined by a small graph (inside.h), which also serves every type, layout and wrong input.
 * For floats with channels last, the kernels here apply what fused_ops lists to sums while they are in registers. */
#ifndef MR_OPS_NN_FUSED_FAST_H
#define MR_OPS_NN_FUSED_FAST_H

#include "ops/nn/conv.h"
#include "ops/nn/inside.h"

/* What the attr fused_ops of a node asks for: a bias or a normalization, then perhaps an addend, then perhaps an
 * activation. */
typedef struct mr_fused_ops {
    bool known; /* false: only the graph can tell, or it is an error */
    bool norm, add;
    float epsilon;
    mr_conv_end end; /* without the vectors */
} mr_fused_ops;

typedef struct mr_fused_state { /* `inside` is first: mr_inside_run takes the whole for it */
    mr_inside inside;
    mr_conv_state conv; /* only `packed` for products of matrices */
    mr_fused_ops how;
    bool ta, tb;
} mr_fused_state;

mr_status *mr_fused_conv_init(mr_make *m, void *state, mr_inside_fn *fn);
mr_status *mr_fused_matmul_init(mr_make *m, void *state, mr_inside_fn *fn);
void mr_fused_deinit(void *state);
mr_status *mr_fused_conv2d_run(mr_run *r);
mr_status *mr_fused_depthwise_run(mr_run *r);
mr_status *mr_fused_matmul_run(mr_run *r);

#endif
