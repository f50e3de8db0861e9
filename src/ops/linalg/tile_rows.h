/* ops/linalg/tile_rows.h -- ROWS_n(M) is M(0) M(1) .. M(n - 1): the rows of a tile whose sums stay in registers. */
#ifndef MR_OPS_LINALG_TILE_ROWS_H
#define MR_OPS_LINALG_TILE_ROWS_H

#define ROWS_1(M) M(0)
#define ROWS_2(M) ROWS_1(M) M(1)
#define ROWS_3(M) ROWS_2(M) M(2)
#define ROWS_4(M) ROWS_3(M) M(3)
#define ROWS_5(M) ROWS_4(M) M(4)
#define ROWS_6(M) ROWS_5(M) M(5)
#define ROWS_7(M) ROWS_6(M) M(6)
#define ROWS_8(M) ROWS_7(M) M(7)
#define ROWS_9(M) ROWS_8(M) M(8)
#define ROWS_10(M) ROWS_9(M) M(9)
#define ROWS_11(M) ROWS_10(M) M(10)
#define ROWS_12(M) ROWS_11(M) M(11)
#define ROWS_13(M) ROWS_12(M) M(12)
#define ROWS_14(M) ROWS_13(M) M(13)

#endif
