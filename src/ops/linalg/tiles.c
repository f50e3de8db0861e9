/* ops/linalg/tiles.c -- the inner loops of products of floats, for each kind of CPU.
 *
 * Their source is in tiles_pack.h, tiles_thin.h and tiles_sum.h, written with the compiler's vectors. There are two
 * heights of tiles, so that little is computed beyond the last row. */
#include "ops/linalg/tiles.h"

#include <stdatomic.h>
#include <string.h>

#include "base/memory.h"
#include "base/simd.h"

#define ROWS_4(M) M(0) M(1) M(2) M(3)
#define ROWS_6(M) ROWS_4(M) M(4) M(5)
#define ROWS_8(M) ROWS_6(M) M(6) M(7)
#define ROWS_12(M) ROWS_8(M) M(8) M(9) M(10) M(11)

#if defined(__x86_64__)
#define FN(name) avx512_##name
#define TARGET __attribute__((target("avx512f,fma")))
#define LANES 16
#include "ops/linalg/tiles_pack.h"
#include "ops/linalg/tiles_thin.h"
#define HIGH(name) avx512_12_##name
#define N_ROWS 12
#define ROWS ROWS_12
#include "ops/linalg/tiles_sum.h"
#define HIGH(name) avx512_8_##name
#define N_ROWS 8
#define ROWS ROWS_8
#include "ops/linalg/tiles_sum.h"
#undef FN
#undef TARGET
#undef LANES
static const mr_tiles avx512 = {
    32,
    &avx512_12_height,
    &avx512_8_height,
    avx512_pack_rows,
    avx512_pack_cols,
    avx512_thin_rows,
    avx512_thin_cols,
};

#define FN(name) avx2_##name
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#include "ops/linalg/tiles_pack.h"
#include "ops/linalg/tiles_thin.h"
#define HIGH(name) avx2_6_##name
#define N_ROWS 6
#define ROWS ROWS_6
#include "ops/linalg/tiles_sum.h"
#define HIGH(name) avx2_4_##name
#define N_ROWS 4
#define ROWS ROWS_4
#include "ops/linalg/tiles_sum.h"
#undef FN
#undef TARGET
#undef LANES
static const mr_tiles avx2 = {
    16,
    &avx2_6_height,
    &avx2_4_height,
    avx2_pack_rows,
    avx2_pack_cols,
    avx2_thin_rows,
    avx2_thin_cols,
};
#endif

#define FN(name) plain_##name
#define TARGET
#define LANES 4
#include "ops/linalg/tiles_pack.h"
#include "ops/linalg/tiles_thin.h"
#define HIGH(name) plain_4_##name
#define N_ROWS 4
#define ROWS ROWS_4
#include "ops/linalg/tiles_sum.h"
#undef FN
#undef TARGET
#undef LANES
static const mr_tiles plain = {
    8,
    &plain_4_height,
    &plain_4_height,
    plain_pack_rows,
    plain_pack_cols,
    plain_thin_rows,
    plain_thin_cols,
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

/* A tile that extends over the edge of C is computed in a buffer. */
static void run_edge(const mr_tiles *p, const mr_tile_height *h, bool by_cols, const mr_tile *t,
                     int64_t cols)
{
    _Alignas(64) float sums[12 * MR_TILE_COLS];
    mr_tile aside = *t;
    aside.c = sums;
    aside.ldc = p->cols;
    aside.how = MR_C_WRITE;
    (by_cols ? h->by_cols : h->by_rows)(&aside);
    for (int64_t i = 0; i < t->rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            float *c = t->c + i * t->ldc + j;
            float v = sums[i * p->cols + j], old = t->how == MR_C_WRITE ? 0 : *c;
            *c = t->how == MR_C_SUBTRACT ? old - v : old + v;
        }
}

void mr_tile_run(const mr_tiles *p, const mr_tile_height *h, bool by_cols, const mr_tile *t,
                 int64_t cols)
{
    if (t->rows < h->rows || cols < p->cols)
        run_edge(p, h, by_cols, t, cols);
    else
        (by_cols ? h->by_cols : h->by_rows)(t);
}
