/* ops/linalg/einsum_spec.h -- the parsed equation of an Einsum: "ab...,bc...->ac...".
 *
 * A letter is a label 0 .. 51; the dimensions of an ellipsis are labels from MR_EINSUM_DOTS on, counted from the
 * right, so that those of two inputs correspond as in broadcasting. */
#ifndef MR_OPS_LINALG_EINSUM_SPEC_H
#define MR_OPS_LINALG_EINSUM_SPEC_H

#include "tensor/shape.h"

enum {
    MR_EINSUM_DOTS = 52,
    MR_EINSUM_LABELS = MR_EINSUM_DOTS + MR_MAX_RANK,
};

typedef struct mr_einsum_term {
    int n;         /* letters, in order */
    int letters[MR_MAX_RANK];
    int dots;      /* number of letters before the ellipsis; -1: there is none */
} mr_einsum_term;

typedef struct mr_einsum_spec {
    int n_in; /* 1 or 2 */
    mr_einsum_term in[2], out;
} mr_einsum_spec;

/* INVALID_ARGUMENT with TensorFlow's message.  If only the output has an ellipsis, it covers no dimension. */
mr_status *mr_einsum_parse(mr_sv equation, int n_inputs, mr_einsum_spec *out);
/* The labels of all dimensions of an input of this rank; INVALID_ARGUMENT, with the number `input`, if it does not
 * fit. */
mr_status *mr_einsum_labels(const mr_einsum_term *t, int input, int rank, int *labels);
/* The text of a term. */
void mr_einsum_print(const mr_einsum_term *t, mr_str *out);

#endif
