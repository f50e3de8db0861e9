/* ops/nn/row.h -- sums and maxima over n packed elements, in vector lanes: FN(row_sum) and so on, for
 * float and double.  Typed files include this; the functions are inlined into code that is compiled
 * for several CPUs.
 *
 * Addition is not associative, so the compiler does not spread a sum over lanes by itself.  Four
 * vectors at once keep the adders busy, and each lane adds only every (4 LANES)-th element, which is
 * also more accurate than one long chain. */

MR_INLINE T FN(lanes_sum)(const T *lanes)
{
    T s = 0;
    for (int j = 0; j < LANES; j++)
        s += lanes[j];
    return s;
}

MR_INLINE T FN(row_sum)(const T *x, int64_t n)
{
    V a = {0}, b = {0}, c = {0}, d = {0};
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        a += *(const V *)(x + i);
        b += *(const V *)(x + i + LANES);
        c += *(const V *)(x + i + 2 * LANES);
        d += *(const V *)(x + i + 3 * LANES);
    }
    for (; i + LANES <= n; i += LANES)
        a += *(const V *)(x + i);
    a = (a + b) + (c + d);
    T s = FN(lanes_sum)((const T *)&a);
    for (; i < n; i++)
        s += x[i];
    return s;
}

/* The sum of x[i] y[i]. */
MR_INLINE T FN(row_dot)(const T *x, const T *y, int64_t n)
{
    V a = {0}, b = {0};
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        a += *(const V *)(x + i) * *(const V *)(y + i);
        b += *(const V *)(x + i + LANES) * *(const V *)(y + i + LANES);
    }
    a += b;
    T s = FN(lanes_sum)((const T *)&a);
    for (; i < n; i++)
        s += x[i] * y[i];
    return s;
}

/* -inf for an empty row; NaNs are ignored. */
MR_INLINE T FN(row_max)(const T *x, int64_t n)
{
    T top = -INFINITY;
    V a = top - (V){0}, b = a;
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        V p = *(const V *)(x + i), q = *(const V *)(x + i + LANES);
        MASK pick_p = p > a, pick_q = q > b;
        a = (V)(((MASK)p & pick_p) | ((MASK)a & ~pick_p));
        b = (V)(((MASK)q & pick_q) | ((MASK)b & ~pick_q));
    }
    for (int j = 0; j < LANES; j++) {
        T larger = a[j] > b[j] ? a[j] : b[j];
        top = larger > top ? larger : top;
    }
    for (; i < n; i++)
        top = x[i] > top ? x[i] : top;
    return top;
}
