/* ops/linalg/product_types.h -- the inner loops of all element types for one kind of CPU; included once for each.
 *
 * The including file defines KIND(name), LANES_OF_2 (of vectors of numbers of 2 bytes), LANES_OF_4 and LANES_OF_8, and
 * the macros of product_kind.h that depend on the CPU. Integers are unsigned, because overflow must wrap. */

#define TIMES(x, y) ((x) * (y))
#define NAME KIND(f32)
#define T float
#define R float
#define PARTS 1
#define LANES LANES_OF_4
#include "ops/linalg/product_kind.h"
#undef T
#undef R
#undef PARTS
#undef LANES

#define NAME KIND(f64)
#define T double
#define R double
#define PARTS 1
#define LANES LANES_OF_8
#include "ops/linalg/product_kind.h"
#undef T
#undef R
#undef PARTS
#undef LANES

#define NAME KIND(i16)
#define T uint16_t
#define R uint16_t
#undef TIMES
#define TIMES(x, y) (R)((unsigned)(x) * (unsigned)(y)) /* an int could overflow */
#define PARTS 1
#define LANES LANES_OF_2
#include "ops/linalg/product_kind.h"
#undef T
#undef R
#undef PARTS
#undef LANES

#define NAME KIND(i32)
#undef TIMES
#define TIMES(x, y) ((x) * (y))
#define T uint32_t
#define R uint32_t
#define PARTS 1
#define LANES LANES_OF_4
#include "ops/linalg/product_kind.h"
#undef T
#undef R
#undef PARTS
#undef LANES

#define NAME KIND(i64)
#define T uint64_t
#define R uint64_t
#define PARTS 1
#define LANES LANES_OF_8
#include "ops/linalg/product_kind.h"
#undef T
#undef R
#undef PARTS
#undef LANES

#define NAME KIND(c64)
#define T mr_c64
#define R float
#define PARTS 2
#define LANES LANES_OF_4
#include "ops/linalg/product_kind.h"
#undef T
#undef R
#undef PARTS
#undef LANES

#define NAME KIND(c128)
#define T mr_c128
#define R double
#define PARTS 2
#define LANES LANES_OF_8
#include "ops/linalg/product_kind.h"
#undef T
#undef R
#undef PARTS
#undef LANES

static const kind KIND(kind) = {
    &KIND(f32_loops), &KIND(f64_loops), &KIND(i16_loops), &KIND(i32_loops),
    &KIND(i64_loops), &KIND(c64_loops), &KIND(c128_loops),
};

#undef TIMES
#undef KIND
#undef LANES_OF_2
#undef LANES_OF_4
#undef LANES_OF_8
#undef TARGET
#undef ROWS_HIGH
#undef ROWS_LOW
#undef N_HIGH
#undef N_LOW
#undef ROWS_NARROW
#undef N_NARROW
