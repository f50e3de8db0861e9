/* ops/linalg/bf16_product.h -- products of bfloat16 matrices by the CPU's sums of pairs of products (AVX512_BF16).
 *
 * One instruction adds two products of bfloat16 to a float: twice the work of a fused multiply-add of floats. As in
 * the products through floats that gemm.c computes on other CPUs, sums are floats and are rounded to bfloat16 once. The
 * instruction treats denormals as zero, as all threads do during a step (base/simd.h). */
#ifndef MR_OPS_LINALG_BF16_PRODUCT_H
#define MR_OPS_LINALG_BF16_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensor/dtype.h"

/* C = op(A) op(B), all row-major: op(A) is m x k, op(B) is k x n, none of them empty. ld is the distance between rows
 * as stored. */
typedef struct mr_bf16_product {
    bool ta, tb; /* A is stored k x m, B is stored n x k */
    int64_t m, n, k;
    const mr_bf16 *a, *b;
    mr_bf16 *c;
    int64_t lda, ldb, ldc;
} mr_bf16_product;

/* True if this CPU can run such products and n is so large that it pays. */
bool mr_bf16_product_pay(int64_t n);
/* Bytes of memory, aligned to 64, that the product needs; parts of it do not need more. */
size_t mr_bf16_product_room(const mr_bf16_product *p);
/* The order of a sum depends only on k: pieces of a product give the same bits as the whole. */
void mr_bf16_product_run(const mr_bf16_product *p, void *room);
/* False: mr_bf16_product_pay says no. For tests. */
void mr_bf16_product_use(bool use);

#endif
