/* ops/nn/conv.cl -- convolutions.
 *
 * Two-dimensional convolutions with channels last are matrix products: conv_spread writes each window of the image as a
 * row, conv_gather adds such rows back to an image.  All others (3-D, groups, channels first) are summed directly, one
 * item per result. */
kernel void conv_spread(const long n, P(float, col), P(float, image), const long ih, const long iw, const long channels,
                        const long oh, const long ow, const long kh, const long kw, const long sh, const long sw,
                        const long dh, const long dw, const long ph, const long pw)
{
    long i = get_global_id(0);
    if (i >= n)
        return;
    const long at = i;
    const long c = i % channels, kx = i / channels % kw, ky = i / channels / kw % kh;
    i /= channels * kw * kh;
    const long ox = i % ow, oy = i / ow % oh, b = i / ow / oh;
    const long y = oy * sh - ph + ky * dh, x = ox * sw - pw + kx * dw;
    const bool inside = y >= 0 && y < ih && x >= 0 && x < iw;
    AT(float, col)[at] = inside ? AT(float, image)[((b * ih + y) * iw + x) * channels + c] : 0;
}

kernel void conv_gather(const long n, P(float, image), P(float, col), const long ih, const long iw, const long channels,
                        const long oh, const long ow, const long kh, const long kw, const long sh, const long sw,
                        const long dh, const long dw, const long ph, const long pw)
{
    const long i = get_global_id(0);
    if (i >= n)
        return;
    const long c = i % channels, x = i / channels % iw, y = i / channels / iw % ih, b = i / channels / iw / ih;
    float sum = 0;
    for (long ky = 0; ky < kh; ky++) {
        const long ty = y + ph - ky * dh, oy = ty / sh;
        if (ty < 0 || ty % sh != 0 || oy >= oh)
            continue;
        for (long kx = 0; kx < kw; kx++) {
            const long tx = x + pw - kx * dw, ox = tx / sw;
            if (tx >= 0 && tx % sw == 0 && ox < ow)
                sum += AT(float, col)[((((b * oh + oy) * ow + ox) * kh + ky) * kw + kx) * channels + c];
        }
    }
    AT(float, image)[i] = sum;
}

/* ---- any geometry ---- */
#define CONV                                                                                                        \
    const long first, const long batch, const long ic, const long oc, const long groups, const long i0, const long i1, \
        const long i2, const long o0, const long o1, const long o2, const long k0, const long k1, const long k2,    \
        const long s0, const long s1, const long s2, const long d0, const long d1, const long d2, const long p0,    \
        const long p1, const long p2
/* The index of an element of an image, with channels first or last. */
#define IMAGE(b, c, z, y, x, channels, n0, n1, n2)                                                                 \
    (first ? (((b) * (channels) + (c)) * (n0) + (z)) * (n1) * (n2) + (y) * (n2) + (x)                               \
           : ((((b) * (n0) + (z)) * (n1) + (y)) * (n2) + (x)) * (channels) + (c))
#define FILTER(z, y, x, c, o) (((((z) * k1 + (y)) * k2 + (x)) * (ic / groups) + (c)) * oc + (o))

/* Splits the index of an image's element into b, c and z, y, x. */
#define APART(i, channels, n0, n1, n2)                                                        \
    long rest = i;                                                                            \
    long c = 0, x, y, z, b;                                                                   \
    if (!first) {                                                                             \
        c = rest % (channels);                                                                \
        rest /= (channels);                                                                   \
    }                                                                                         \
    x = rest % (n2), y = rest / (n2) % (n1), z = rest / (n2) / (n1) % (n0), rest = rest / (n2) / (n1) / (n0); \
    if (first) {                                                                              \
        c = rest % (channels);                                                                \
        rest /= (channels);                                                                   \
    }                                                                                         \
    b = rest;

kernel void conv_forward(const long n, P(float, out), P(float, image), P(float, filter), CONV)
{
    const long i = get_global_id(0);
    if (i >= n)
        return;
    APART(i, oc, o0, o1, o2)
    const long from = c / (oc / groups) * (ic / groups);
    float sum = 0;
    for (long kz = 0; kz < k0; kz++)
        for (long ky = 0; ky < k1; ky++)
            for (long kx = 0; kx < k2; kx++) {
                const long iz = z * s0 - p0 + kz * d0, iy = y * s1 - p1 + ky * d1, ix = x * s2 - p2 + kx * d2;
                if (iz < 0 || iz >= i0 || iy < 0 || iy >= i1 || ix < 0 || ix >= i2)
                    continue;
                for (long k = 0; k < ic / groups; k++)
                    sum += AT(float, image)[IMAGE(b, from + k, iz, iy, ix, ic, i0, i1, i2)] *
                           AT(float, filter)[FILTER(kz, ky, kx, k, c)];
            }
    AT(float, out)[i] = sum;
}

kernel void conv_input(const long n, P(float, image), P(float, filter), P(float, out), CONV)
{
    const long i = get_global_id(0);
    if (i >= n)
        return;
    APART(i, ic, i0, i1, i2)
    const long group = c / (ic / groups), k = c % (ic / groups), each = oc / groups;
    float sum = 0;
    for (long kz = 0; kz < k0; kz++)
        for (long ky = 0; ky < k1; ky++)
            for (long kx = 0; kx < k2; kx++) {
                const long tz = z + p0 - kz * d0, ty = y + p1 - ky * d1, tx = x + p2 - kx * d2;
                if (tz < 0 || ty < 0 || tx < 0 || tz % s0 || ty % s1 || tx % s2)
                    continue;
                const long oz = tz / s0, oy = ty / s1, ox = tx / s2;
                if (oz >= o0 || oy >= o1 || ox >= o2)
                    continue;
                for (long o = group * each; o < (group + 1) * each; o++)
                    sum += AT(float, out)[IMAGE(b, o, oz, oy, ox, oc, o0, o1, o2)] *
                           AT(float, filter)[FILTER(kz, ky, kx, k, o)];
            }
    AT(float, image)[i] = sum;
}

kernel void conv_filter(const long n, P(float, filter), P(float, image), P(float, out), CONV)
{
    const long i = get_global_id(0);
    if (i >= n)
        return;
    const long each = ic / groups;
    const long o = i % oc, k = i / oc % each, kx = i / oc / each % k2, ky = i / oc / each / k2 % k1,
               kz = i / oc / each / k2 / k1, c = o / (oc / groups) * each + k;
    float sum = 0;
    for (long b = 0; b < batch; b++)
        for (long z = 0; z < o0; z++)
            for (long y = 0; y < o1; y++)
                for (long x = 0; x < o2; x++) {
                    const long iz = z * s0 - p0 + kz * d0, iy = y * s1 - p1 + ky * d1, ix = x * s2 - p2 + kx * d2;
                    if (iz >= 0 && iz < i0 && iy >= 0 && iy < i1 && ix >= 0 && ix < i2)
                        sum += AT(float, image)[IMAGE(b, c, iz, iy, ix, ic, i0, i1, i2)] *
                               AT(float, out)[IMAGE(b, o, z, y, x, oc, o0, o1, o2)];
                }
    AT(float, filter)[i] = sum;
}
