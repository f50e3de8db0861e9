/* ops/linalg/tiles_thin.h -- a vector times a matrix; included once for each kind of CPU.
 *
 * Each entry of B is used once, so packing would cost more than it saves: B is streamed from memory. The including
 * file defines FN(name), TARGET and LANES, and includes tiles_pack.h first. */

/* c += a B, k rows of B stored by rows; 8 of them are used at a time, so that c is accessed rarely. */
TARGET static void FN(thin_rows)(int64_t n, int64_t k, const float *a, const float *b, int64_t ldb,
                                 float *c)
{
    for (; k >= 8; k -= 8, a += 8, b += 8 * ldb) {
        const float *r[8];
        for (int i = 0; i < 8; i++)
            r[i] = b + i * ldb;
        MR_IVDEP
        for (int64_t j = 0; j < n; j++) {
            float v = c[j];
            v += a[0] * r[0][j];
            v += a[1] * r[1][j];
            v += a[2] * r[2][j];
            v += a[3] * r[3][j];
            v += a[4] * r[4][j];
            v += a[5] * r[5][j];
            v += a[6] * r[6][j];
            v += a[7] * r[7][j];
            c[j] = v;
        }
    }
    for (; k > 0; k--, a++, b += ldb) {
        MR_IVDEP
        for (int64_t j = 0; j < n; j++)
            c[j] += a[0] * b[j];
    }
}

TARGET MR_INLINE float FN(dot)(int64_t k, const float *a, const float *b)
{
    FN(vec) s[4] = {{0}};
    float sum = 0;
    for (; k >= 4 * LANES; k -= 4 * LANES, a += 4 * LANES, b += 4 * LANES)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            s[i] += *(const FN(loose) *)(a + i * LANES) * *(const FN(loose) *)(b + i * LANES);
    for (int64_t i = 0; i < k; i++)
        sum += a[i] * b[i];
    s[0] += s[1] + (s[2] + s[3]);
    for (int i = 0; i < LANES; i++)
        sum += s[0][i];
    return sum;
}

/* The same for B stored by columns. */
TARGET static void FN(thin_cols)(int64_t n, int64_t k, const float *a, const float *b, int64_t ldb,
                                 float *c)
{
    for (int64_t j = 0; j < n; j++)
        c[j] += FN(dot)(k, a, b + j * ldb);
}
