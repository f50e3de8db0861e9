/* ops/linalg/tiles.c -- the inner loops of products of floats, for each kind of CPU.
 *
 * Their source is in tiles_pack.h, tiles_thin.h, tiles_edge.h, tiles_depth.h and tiles_sum.h, written with the compiler's vectors.
 * There are tiles of every height up to the highest one, so that nothing is computed beyond the last row. */
#include "ops/linalg/tiles.h"

#include <stdatomic.h>
#include <string.h>

#include "base/memory.h"
#include "base/simd.h"
#include "ops/linalg/tile_rows.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define FN(name) avx512_##name
#define TARGET __attribute__((target("avx512f,fma")))
#define LANES 16
#define VMIN(a, b) (FN(vec))_mm512_min_ps((__m512)(a), (__m512)(b))
#define VMAX(a, b) (FN(vec))_mm512_max_ps((__m512)(a), (__m512)(b))
#include "ops/linalg/tiles_pack.h"
#include "ops/linalg/tiles_thin.h"
#include "ops/linalg/tiles_edge.h"
#include "ops/linalg/tiles_depth.h"
#define HIGH(name) avx512_1_##name
#define N_ROWS 1
#define ROWS ROWS_1
#include "ops/linalg/tiles_sum.h"
#define HIGH(name) avx512_2_##name
#define N_ROWS 2
#define ROWS ROWS_2
#include "ops/linalg/tiles_sum.h"
#define HIGH(name) avx512_3_##name
#define N_ROWS 3
#define ROWS ROWS_3
#include "ops/linalg/tiles_sum.h"
#define HIGH(name) avx512_4_##name
#define N_ROWS 4
#define ROWS ROWS_4
#include "ops/linalg/tiles_sum.h"
#define HIGH(name) avx512_5_##name
#define N_ROWS 5
#define ROWS ROWS_5
#include "ops/linalg/tiles_sum.h"
#define HIGH(name) avx512_6_##name
#define N_ROWS 6
#define ROWS ROWS_6
#include "ops/linalg/tiles_sum.h"
#define HIGH(name) avx512_7_##name
#define N_ROWS 7
#define ROWS ROWS_7
#include "ops/linalg/tiles_sum.h"
#define HIGH(name) avx512_8_##name
#define N_ROWS 8
#define ROWS ROWS_8
#include "ops/linalg/tiles_sum.h"
#define HIGH(name) avx512_9_##name
#define N_ROWS 9
#define ROWS ROWS_9
#include "ops/linalg/tiles_sum.h"
#define HIGH(name) avx512_10_##name
#define N_ROWS 10
#define ROWS ROWS_10
#include "ops/linalg/tiles_sum.h"
#define HIGH(name) avx512_11_##name
#define N_ROWS 11
#define ROWS ROWS_11
#include "ops/linalg/tiles_sum.h"
#define HIGH(name) avx512_12_##name
#define N_ROWS 12
#define ROWS ROWS_12
#include "ops/linalg/tiles_sum.h"
#define HIGH(name) avx512_13_##name
#define N_ROWS 13
#define ROWS ROWS_13
#include "ops/linalg/tiles_sum.h"
#define HIGH(name) avx512_14_##name
#define N_ROWS 14
#define ROWS ROWS_14
#include "ops/linalg/tiles_sum.h"
#undef FN
#undef TARGET
#undef LANES
#undef VMIN
#undef VMAX
static const mr_tiles avx512 = {
    32,
    14,
    512,
    140,
    {
     &avx512_1_height, &avx512_2_height, &avx512_3_height, &avx512_4_height, &avx512_5_height,
     &avx512_6_height, &avx512_7_height, &avx512_8_height, &avx512_9_height, &avx512_10_height,
     &avx512_11_height, &avx512_12_height, &avx512_13_height, &avx512_14_height,
    },
    avx512_pack_rows,
    avx512_pack_cols,
    avx512_thin_rows,
    avx512_thin_cols,
    avx512_edge,
    avx512_finish_rows,
    avx512_depth_row,
    avx512_depth_edge,
};

#define FN(name) avx2_##name
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#define VMIN(a, b) (FN(vec))_mm256_min_ps((__m256)(a), (__m256)(b))
#define VMAX(a, b) (FN(vec))_mm256_max_ps((__m256)(a), (__m256)(b))
#include "ops/linalg/tiles_pack.h"
#include "ops/linalg/tiles_thin.h"
#include "ops/linalg/tiles_edge.h"
#include "ops/linalg/tiles_depth.h"
#define HIGH(name) avx2_1_##name
#define N_ROWS 1
#define ROWS ROWS_1
#include "ops/linalg/tiles_sum.h"
#define HIGH(name) avx2_2_##name
#define N_ROWS 2
#define ROWS ROWS_2
#include "ops/linalg/tiles_sum.h"
#define HIGH(name) avx2_3_##name
#define N_ROWS 3
#define ROWS ROWS_3
#include "ops/linalg/tiles_sum.h"
#define HIGH(name) avx2_4_##name
#define N_ROWS 4
#define ROWS ROWS_4
#include "ops/linalg/tiles_sum.h"
#define HIGH(name) avx2_5_##name
#define N_ROWS 5
#define ROWS ROWS_5
#include "ops/linalg/tiles_sum.h"
#define HIGH(name) avx2_6_##name
#define N_ROWS 6
#define ROWS ROWS_6
#include "ops/linalg/tiles_sum.h"
#undef FN
#undef TARGET
#undef LANES
#undef VMIN
#undef VMAX
static const mr_tiles avx2 = {
    16,
    6,
    320,
    144,
    {
     &avx2_1_height, &avx2_2_height, &avx2_3_height, &avx2_4_height, &avx2_5_height, &avx2_6_height,
    },
    avx2_pack_rows,
    avx2_pack_cols,
    avx2_thin_rows,
    avx2_thin_cols,
    avx2_edge,
    avx2_finish_rows,
    avx2_depth_row,
    avx2_depth_edge,
};
#endif

typedef int32_t plain_mask __attribute__((vector_size(16)));
/* a where the mask is set, else b */
#define SELECT(mask, a, b) (plain_vec)(((mask) & (plain_mask)(a)) | (~(mask) & (plain_mask)(b)))
#define FN(name) plain_##name
#define TARGET
#define LANES 4
#define VMIN(a, b) SELECT((plain_mask)((a) < (b)), a, b)
#define VMAX(a, b) SELECT((plain_mask)((a) > (b)), a, b)
#include "ops/linalg/tiles_pack.h"
#include "ops/linalg/tiles_thin.h"
#include "ops/linalg/tiles_edge.h"
#include "ops/linalg/tiles_depth.h"
#define HIGH(name) plain_1_##name
#define N_ROWS 1
#define ROWS ROWS_1
#include "ops/linalg/tiles_sum.h"
#define HIGH(name) plain_2_##name
#define N_ROWS 2
#define ROWS ROWS_2
#include "ops/linalg/tiles_sum.h"
#define HIGH(name) plain_3_##name
#define N_ROWS 3
#define ROWS ROWS_3
#include "ops/linalg/tiles_sum.h"
#define HIGH(name) plain_4_##name
#define N_ROWS 4
#define ROWS ROWS_4
#include "ops/linalg/tiles_sum.h"
#undef FN
#undef TARGET
#undef LANES
#undef VMIN
#undef VMAX
static const mr_tiles plain = {
    8,
    4,
    320,
    144,
    {
     &plain_1_height, &plain_2_height, &plain_3_height, &plain_4_height,
    },
    plain_pack_rows,
    plain_pack_cols,
    plain_thin_rows,
    plain_thin_cols,
    plain_edge,
    plain_finish_rows,
    plain_depth_row,
    plain_depth_edge,
};

/* The available kinds, best first; `runs` is true if this CPU supports it. */
typedef struct kind {
    const char *name;
    const mr_tiles *tiles;
    bool runs;
} kind;

static const mr_tiles *find_tiles(const char *name)
{
    const kind kinds[] = {
#if defined(__x86_64__)
        {"avx512", &avx512, __builtin_cpu_supports("avx512f")},
        {"avx2", &avx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")},
#endif
        {"plain", &plain, true},
    };
    for (int i = 0; i < MR_COUNT(kinds); i++)
        if (kinds[i].runs && (!name || strcmp(kinds[i].name, name) == 0))
            return kinds[i].tiles;
    return NULL;
}

static _Atomic(const mr_tiles *) chosen;

const mr_tiles *mr_tiles_here(void)
{
    const mr_tiles *c = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (!c)
        atomic_store_explicit(&chosen, c = find_tiles(NULL), memory_order_relaxed);
    return c;
}

bool mr_tiles_use(const char *name)
{
    const mr_tiles *c = find_tiles(name);
    if (c)
        chosen = c;
    return c;
}

void mr_tile_run(const mr_tiles *p, const mr_tile_height *h, bool by_cols, const mr_tile *t,
                 int64_t cols)
{
    if (t->rows == h->rows && cols == p->cols)
        (by_cols ? h->by_cols : h->by_rows)(t);
    else if (t->rows == h->rows && 2 * cols == p->cols)
        (by_cols ? h->narrow_by_cols : h->narrow_by_rows)(t);
    else
        p->edge(h, by_cols, t, cols);
}

void mr_tile_finish(const mr_tile_end *end, float *c, int64_t rows, int64_t cols)
{
    mr_tiles_here()->finish_rows(end, c, rows, cols);
}
