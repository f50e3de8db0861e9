/* ops/linalg/sgemm.h -- products of float matrices in one thread. */
#ifndef MR_OPS_LINALG_SGEMM_H
#define MR_OPS_LINALG_SGEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/linalg/tiles.h"

/* C = op(A) op(B), or the product is added to C or subtracted; all row-major: op(A) is m x k, op(B) is k x n, none
 * of them empty. ld is the distance between rows as stored. */
typedef struct mr_sgemm {
    bool ta, tb; /* A is stored k x m, B is stored n x k */
    bool thin;   /* computed as vectors times a matrix: mr_sgemm_thin of the whole product */
    mr_to_c how;
    int64_t m, n, k;
    const float *a, *b;
    float *c;
    int64_t lda, ldb, ldc;
    const float *packed_b; /* B packed by mr_sgemm_pack_b, or NULL; not for thin products */
    const mr_sums_end *end; /* what becomes of the sums, or NULL; not for thin products */
    int64_t col;            /* column 0 for `end` */
} mr_sgemm;

/* True if it has so few rows or columns that computing it row by row is better. */
bool mr_sgemm_thin(const mr_sgemm *g);
/* Bytes of memory, aligned to 64, that the product needs. */
size_t mr_sgemm_room(const mr_sgemm *g);
/* The order of a sum depends only on k and `thin`: pieces of a product give the same bits as the whole. */
void mr_sgemm_run(const mr_sgemm *g, void *room);
/* Packs B once for many products of the same n and k: the first function gives the number of floats, which must be
 * aligned to 64 bytes, the second packs. */
int64_t mr_sgemm_packed_size(const mr_sgemm *g);
void mr_sgemm_pack_b(const mr_sgemm *g, float *out);

#endif
