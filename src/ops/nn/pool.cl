/* ops/nn/pool.cl -- pools, with the geometry of conv.cl.
 *
 * Each item computes one element, so that no two items write the same one: a gradient sums over all windows that contain
 * the element.  As on the CPU, a NaN is never the maximum, and the first of equal maxima gets the gradient; a NaN gets it
 * if it is the first of its window. */
#define WINDOW(z, y, x)                                                                                   \
    const long z0 = max((z) * s0 - p0, 0L), z1 = min((z) * s0 - p0 + k0, i0);                             \
    const long y0 = max((y) * s1 - p1, 0L), y1 = min((y) * s1 - p1 + k1, i1);                             \
    const long x0 = max((x) * s2 - p2, 0L), x1 = min((x) * s2 - p2 + k2, i2);

kernel void max_pool(const long n, P(float, out), P(float, image), CONV)
{
    const long i = get_global_id(0);
    if (i >= n)
        return;
    APART(i, oc, o0, o1, o2)
    WINDOW(z, y, x)
    float most = -FLT_MAX;
    for (long iz = z0; iz < z1; iz++)
        for (long iy = y0; iy < y1; iy++)
            for (long ix = x0; ix < x1; ix++) {
                const float v = AT(float, image)[IMAGE(b, c, iz, iy, ix, ic, i0, i1, i2)];
                most = v > most ? v : most;
            }
    AT(float, out)[i] = most;
}

/* The pixel that gets the gradient of an out pixel's window; -1 if there is none. */
long first_most(global const float *image, long b, long c, long z, long y, long x, CONV)
{
    WINDOW(z, y, x)
    float most = 0;
    long best = -1;
    for (long iz = z0; iz < z1; iz++)
        for (long iy = y0; iy < y1; iy++)
            for (long ix = x0; ix < x1; ix++) {
                const long at = IMAGE(b, c, iz, iy, ix, ic, i0, i1, i2);
                if (best < 0 || image[at] > most) {
                    most = image[at];
                    best = at;
                }
            }
    return best;
}

/* The out pixels whose window contains a pixel. */
#define REACHED(z, y, x)                                                                     \
    const long oz0 = max(((z) + p0 - k0 + s0) / s0, 0L), oz1 = min(((z) + p0) / s0 + 1, o0); \
    const long oy0 = max(((y) + p1 - k1 + s1) / s1, 0L), oy1 = min(((y) + p1) / s1 + 1, o1); \
    const long ox0 = max(((x) + p2 - k2 + s2) / s2, 0L), ox1 = min(((x) + p2) / s2 + 1, o2);
#define CONV_ARGS first, batch, ic, oc, groups, i0, i1, i2, o0, o1, o2, k0, k1, k2, s0, s1, s2, d0, d1, d2, p0, p1, p2

kernel void max_pool_grad(const long n, P(float, out), P(float, image), P(float, grad), CONV)
{
    const long i = get_global_id(0);
    if (i >= n)
        return;
    APART(i, ic, i0, i1, i2)
    REACHED(z, y, x)
    float sum = 0;
    for (long oz = oz0; oz < oz1; oz++)
        for (long oy = oy0; oy < oy1; oy++)
            for (long ox = ox0; ox < ox1; ox++)
                if (first_most(AT(float, image), b, c, oz, oy, ox, CONV_ARGS) == i)
                    sum += AT(float, grad)[IMAGE(b, c, oz, oy, ox, oc, o0, o1, o2)];
    AT(float, out)[i] = sum;
}

kernel void avg_pool(const long n, P(float, out), P(float, image), CONV)
{
    const long i = get_global_id(0);
    if (i >= n)
        return;
    APART(i, oc, o0, o1, o2)
    WINDOW(z, y, x)
    float sum = 0;
    for (long iz = z0; iz < z1; iz++)
        for (long iy = y0; iy < y1; iy++)
            for (long ix = x0; ix < x1; ix++)
                sum += AT(float, image)[IMAGE(b, c, iz, iy, ix, ic, i0, i1, i2)];
    AT(float, out)[i] = sum / ((z1 - z0) * (y1 - y0) * (x1 - x0));
}

kernel void avg_pool_grad(const long n, P(float, out), P(float, grad), CONV)
{
    const long i = get_global_id(0);
    if (i >= n)
        return;
    APART(i, ic, i0, i1, i2)
    REACHED(z, y, x)
    float sum = 0;
    for (long oz = oz0; oz < oz1; oz++)
        for (long oy = oy0; oy < oy1; oy++)
            for (long ox = ox0; ox < ox1; ox++) {
                WINDOW(oz, oy, ox)
                sum += AT(float, grad)[IMAGE(b, c, oz, oy, ox, oc, o0, o1, o2)] / ((z1 - z0) * (y1 - y0) * (x1 - x0));
            }
    AT(float, out)[i] = sum;
}
