/* ops/array/matrix_diag.h -- shape inference that MatrixSetDiag and its later versions share. */
#ifndef MR_OPS_ARRAY_MATRIX_DIAG_H
#define MR_OPS_ARRAY_MATRIX_DIAG_H

#include "graph/infer.h"
#include "tensor/tensor.h"

/* The shape of matrices x whose diagonals are set, as TensorFlow infers it: where x is only partly known, the
 * dimensions before the last `inner` ones of the diagonals are those before the last two of x. */
mr_status *mr_infer_set_diag(mr_infer *c, const mr_pshape *x, const mr_pshape *diag, int inner, const mr_pshape **out);
/* Checks that the diagonals for matrices x have this shape. INVALID_ARGUMENT. */
mr_status *mr_check_diag(const mr_tensor *x, const mr_tensor *diag, int rank, const int64_t *dims);

#endif
