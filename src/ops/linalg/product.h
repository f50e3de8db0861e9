/* ops/linalg/product.h -- one product of matrices of any type in one thread. */
#ifndef MR_OPS_LINALG_PRODUCT_H
#define MR_OPS_LINALG_PRODUCT_H

#include <stddef.h>

#include "ops/linalg/tiles.h"
#include "tensor/dtype.h"

enum { MR_PRODUCT_BLOCK_BYTES = 384 << 10 }; /* a packed block of A stays in the second-level cache */

/* The algorithm; pieces of a product take that of the whole. */
typedef enum mr_product_way {
    MR_PRODUCT_BLOCKS,
    MR_PRODUCT_NARROW, /* few columns */
    MR_PRODUCT_THIN,   /* few rows, or one column */
    MR_PRODUCT_LONG,   /* few rows and few columns */
} mr_product_way;

/* C = op(A) op(B), or the product is added to C or subtracted; all row-major: op(A) is m x k, op(B) is k x n, none
 * of them empty. ld is the distance between rows as stored, in elements. */
typedef struct mr_product {
    mr_dtype type;       /* float, double, int16, int32, int64, complex64, complex128 */
    bool ta, tb;         /* A is stored k x m, B is stored n x k */
    bool conj_a, conj_b; /* and conjugated; only for complex types */
    mr_product_way way;  /* mr_product_choose of the whole product */
    mr_to_c how;
    int64_t m, n, k;
    const void *a, *b;
    void *c;
    int64_t lda, ldb, ldc;
} mr_product;

bool mr_product_has(mr_dtype type);
mr_product_way mr_product_choose(const mr_product *p);
/* Bytes of memory, aligned to 64, that the product needs; parts of it do not need more. */
size_t mr_product_room(const mr_product *p);
/* Pieces of a product give the same bits as the whole, because the order of a sum depends only on k and `way`. For
 * floats, mr_sgemm_run is better unless the product is narrow or long. */
void mr_product_run(const mr_product *p, void *room);
/* An upper limit of mr_product_room for products with dimensions up to `longest` of elements of `size` bytes. */
static inline size_t mr_product_most_room(size_t size, int64_t longest)
{
    size_t n = (size_t)longest;
    size_t kc = n < 256 ? n + 8 : 256, a = n * kc * size < MR_PRODUCT_BLOCK_BYTES ? n * kc * size : MR_PRODUCT_BLOCK_BYTES;
    size_t b = (n < 512 ? n + 64 : 512) * kc * size;
    return a + 48 * kc * size + b + 65 * 512 * size + n * size + 256;
}
/* Selects the loops for another kind of CPU, as mr_tiles_use does. For tests. */
bool mr_product_use(const char *kind);

#endif
