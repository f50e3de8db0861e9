/* graph/infer.h -- what a shape function sees.
 *
 * It reads the partly known shapes of the inputs, the values of those that are constant, and the
 * attrs; it writes the shapes of the outputs, all unknown until set.  A contradiction is an
 * INVALID_ARGUMENT.  Everything it makes lives in c->arena, which is the graph's. */
#ifndef MR_GRAPH_INFER_H
#define MR_GRAPH_INFER_H

#include "graph/graph.h"

struct mr_infer {
    const mr_node *node;
    mr_arena *arena;
    int n_in, n_out;
    const mr_pshape **in, **out;
    const mr_handle_info **in_handles, **out_handles; /* entries may be NULL */
    int producer;                                     /* GraphDef producer version */
    /* the rest belongs to infer.c */
    struct mr_known *known; /* values found so far */
    uint8_t *asked;         /* per input: which form of its value was requested, for error messages */
};

/* The value of a constant input, borrowed; NULL if it is not known. Chains of Shape, Pack, Concat, StridedSlice, Cast,
 * Rank, Size and arithmetic on constants are evaluated. */
const mr_tensor *mr_infer_const(mr_infer *c, int i);
/* Input i as a shape: a vector whose known entries are dims (-1 unknown).  Unknown length: unknown
 * rank. */
mr_status *mr_infer_shape_value(mr_infer *c, int i, const mr_pshape **out);
/* A scalar int input: true and the value when known. */
bool mr_infer_int(mr_infer *c, int i, int64_t *out);

/* Checks that return the refined shape; INVALID_ARGUMENT "Shape must be rank 2 but is rank 3". */
mr_status *mr_infer_rank(mr_infer *c, const mr_pshape *s, int rank, const mr_pshape **out);
mr_status *mr_infer_rank_at_least(mr_infer *c, const mr_pshape *s, int rank, const mr_pshape **out);
mr_status *mr_infer_rank_at_most(mr_infer *c, const mr_pshape *s, int rank, const mr_pshape **out);
mr_status *mr_infer_merge(mr_infer *c, const mr_pshape *a, const mr_pshape *b,
                          const mr_pshape **out);
mr_status *mr_infer_merge_dim(int64_t a, int64_t b, int64_t *out);
/* Checks a dimension: INVALID_ARGUMENT "Dimension must be 2 but is 3". */
mr_status *mr_infer_dim_is(int64_t dim, int64_t value);
/* Arithmetic on a dimension, which may be unknown (-1): then the result is.  INVALID_ARGUMENT with TensorFlow's message
 * when the product overflows, the quotient (of a positive divisor) has a remainder, or the difference is negative. */
mr_status *mr_infer_multiply(int64_t dim, int64_t by, int64_t *out);
mr_status *mr_infer_divide(int64_t dim, int64_t by, int64_t *out);
mr_status *mr_infer_subtract(int64_t dim, int64_t less, int64_t *out);
/* Elements of a shape: 0 as soon as one dimension is; -1: not known. */
int64_t mr_infer_elements(const mr_pshape *s);
/* INVALID_ARGUMENT if the variable of handle i is known to have another type than this attr. */
mr_status *mr_infer_handle_type(const mr_infer *c, int i, const char *attr);
/* The shape of the variable that input i refers to, by reference or by handle. */
const mr_pshape *mr_infer_variable(const mr_infer *c, int i);
/* Dimensions start..end; end < 0: from the back; MR_MAX_RANK: all. */
const mr_pshape *mr_infer_sub(mr_infer *c, const mr_pshape *s, int start, int end);
const mr_pshape *mr_infer_concat(mr_infer *c, const mr_pshape *a, const mr_pshape *b);
/* Negative i from the back; -1: unknown. */
static inline int64_t mr_infer_dim(const mr_pshape *s, int i)
{
    return s->rank < 0 ? -1 : s->dims[i < 0 ? i + s->rank : i];
}
/* Sets a scalar or vector. */
void mr_infer_out_scalar(mr_infer *c, int i);
void mr_infer_out_vector(mr_infer *c, int i, int64_t n);

/* ---- values outside of a shape function ---- */
/* The value of an output if it follows from constants (and known shapes) alone: *out is owned, or NULL if it is not
 * known. Values pass through Enter and Switch, whose outputs are either that value or dead. */
mr_status *mr_out_value(mr_out o, mr_tensor **out);
/* Computes one stateless node; in has n->n_in tensors, out gets n->n_out owned ones. */
typedef mr_status *(*mr_eval_fn)(const mr_node *n, mr_tensor *const *in, mr_tensor **out);
/* Set once at start by the layer that has kernels; without it only integer vectors are evaluated. */
void mr_infer_set_evaluator(mr_eval_fn fn);

/* "{{node a}} = Op[T=DT_FLOAT](x, y:1, ^c)", as TensorFlow's errors name a node. */
void mr_node_summary(const mr_node *n, mr_str *out);

/* ---- common shape functions (graph/shape_rules.c), for .shape of an op ---- */
mr_status *mr_shape_unknown(mr_infer *c);     /* all outputs unknown */
mr_status *mr_shape_none(mr_infer *c);        /* no outputs, or nothing is known about them */
mr_status *mr_shape_same(mr_infer *c);        /* output 0 (and all others) like input 0 */
mr_status *mr_shape_scalar(mr_infer *c);      /* all outputs scalar */
mr_status *mr_shape_merge_all(mr_infer *c);   /* all inputs equal shapes; outputs like them */
mr_status *mr_shape_broadcast2(mr_infer *c);  /* inputs 0 and 1 broadcast */
mr_status *mr_shape_from_attr(mr_infer *c);   /* output 0 by attr "shape" */
mr_status *mr_shape_from_input0(mr_infer *c); /* output 0 by the value of input 0 (Fill, random) */
mr_status *mr_shape_reduction(mr_infer *c);   /* Sum and kin: input, axes, attr keep_dims */
/* Broadcast of two partial shapes. */
mr_status *mr_infer_broadcast(mr_infer *c, const mr_pshape *a, const mr_pshape *b,
                              const mr_pshape **out);
/* Window arithmetic as TensorFlow has it; n or the result may be -1 (unknown). */
typedef enum mr_padding { MR_PAD_VALID, MR_PAD_SAME, MR_PAD_EXPLICIT } mr_padding;
mr_status *mr_window_size(int64_t n, int64_t filter, int64_t dilation, int64_t stride,
                          mr_padding padding, int64_t *before, int64_t *after, int64_t *out);
/* The same for shape inference, where TensorFlow rejects every window that is larger than its padded input: a kernel
 * computes an empty output if the window is too large by less than a stride. */
mr_status *mr_infer_window(int64_t n, int64_t filter, int64_t dilation, int64_t stride,
                           mr_padding padding, int64_t before, int64_t after, int64_t *out);

#endif
