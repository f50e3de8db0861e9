/* base/vec.c -- growth of mr_vec: by doubling, so pushing n elements copies at most 2 n. */
#include "base/vec.h"

#include <limits.h>

void mr_vec_grow(void **p, int *cap, int want, size_t elem_bytes)
{
    int grown = *cap > INT_MAX / 2 ? INT_MAX : *cap * 2;
    int new_cap = MR_MAX(MR_MAX(want, grown), 8);
    size_t bytes = SIZE_MAX; /* the size overflows: the allocation will fail */
    (void)mr_size_mul((size_t)new_cap, elem_bytes, &bytes);
    *p = mr_realloc(*p, bytes);
    *cap = new_cap;
}
