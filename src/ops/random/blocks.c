/* ops/random/blocks.c -- the loops of blocks.h.
 *
 * TensorFlow computes its normal numbers with the C library's logf, sinf and cosf, whose last bits therefore belong to
 * the values that a seed stands for. glibc computes these functions in double, by the polynomials and the table of
 * Arm's Optimized Routines (MIT license); the same coefficients in the same order of operations give the same floats.
 * The arguments have few values (u and the angle 2^23 each), and blocks_test.c compares all of them. */
#include "ops/random/blocks.h"

#include "base/simd.h"
#include "base/vmath.h"

enum { LANES = 32, PAIRS = 128 };

/* ---- blocks ---- */

/* The block whose counter is c0, c1, c2, c3. */
MR_INLINE void philox_block(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t k0, uint32_t k1, uint32_t *out)
{
    _Pragma("GCC unroll 10")
    for (uint32_t round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(b >> 32) ^ c1 ^ (k0 + round * 0x9E3779B9u);
        uint32_t n2 = (uint32_t)(a >> 32) ^ c3 ^ (k1 + round * 0xBB67AE85u);
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        c0 = n0;
        c2 = n2;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

/* LANES blocks, between which the lowest word of the counter does not wrap. */
MR_CLONES static void philox_lanes(const mr_philox *p, uint32_t *out)
{
    uint32_t c0 = p->counter[0], c1 = p->counter[1], c2 = p->counter[2], c3 = p->counter[3];
    uint32_t k0 = p->key[0], k1 = p->key[1];
    MR_IVDEP
    for (uint32_t i = 0; i < LANES; i++)
        philox_block(c0 + i, c1, c2, c3, k0, k1, out + 4 * i);
}

void mr_philox_blocks(mr_philox p, int64_t n, uint32_t *out)
{
    while (n > 0)
        if (n >= LANES && p.counter[0] <= UINT32_MAX - LANES) {
            philox_lanes(&p, out);
            mr_philox_skip(&p, LANES);
            out += 4 * LANES;
            n -= LANES;
        } else {
            mr_philox_next(&p, out);
            out += 4;
            n--;
        }
}

/* ---- normal numbers ---- */

/* About 1 / c, and log c, for centers c of sixteenths of the mantissas. */
static const double log_inverse[16] = {
    0x1.661ec79f8f3bep+0, 0x1.571ed4aaf883dp+0, 0x1.49539f0f010bp+0, 0x1.3c995b0b80385p+0,
    0x1.30d190c8864a5p+0, 0x1.25e227b0b8eap+0, 0x1.1bb4a4a1a343fp+0, 0x1.12358f08ae5bap+0,
    0x1.0953f419900a7p+0, 0x1p+0, 0x1.e608cfd9a47acp-1, 0x1.ca4b31f026aap-1,
    0x1.b2036576afce6p-1, 0x1.9c2d163a1aa2dp-1, 0x1.886e6037841edp-1, 0x1.767dcf5534862p-1};
static const double log_center[16] = {
    -0x1.57bf7808caadep-2, -0x1.2bef0a7c06ddbp-2, -0x1.01eae7f513a67p-2, -0x1.b31d8a68224e9p-3,
    -0x1.6574f0ac07758p-3, -0x1.1aa2bc79c81p-3, -0x1.a4e76ce8c0e5ep-4, -0x1.1973c5a611cccp-4,
    -0x1.252f438e10c1ep-5, 0, 0x1.aa5aa5df25984p-5, 0x1.c5e53aa362eb4p-4,
    0x1.526e57720db08p-3, 0x1.bc2860d22477p-3, 0x1.1058bc8a07ee1p-2, 0x1.4043057b6ee09p-2};

/* The argument is a normal number of 0 to 1. */
MR_INLINE float log_of_glibc(float x)
{
    uint32_t bits = mr_float_bits(x), off = bits - 0x3f330000;
    uint32_t i = off >> 19 & 15;
    double r = (double)mr_float_of_bits(bits - (off & 0xff800000)) * log_inverse[i] - 1;
    double y0 = log_center[i] + (double)((int32_t)off >> 23) * 0x1.62e42fefa39efp-1;
    double rr = r * r;
    double y = 0x1.5575b0be00b6ap-2 * r + -0x1.ffffef20a4123p-2;
    y = -0x1.00ea348b88334p-2 * rr + y;
    return (float)(y * rr + (y0 + r));
}

/* sin and cos of an angle from 0 to 2 pi. */
MR_INLINE void sin_cos_of_glibc(float angle, float *sin_out, float *cos_out)
{
    double x = (double)angle;
    int32_t turns = ((int32_t)(x * 0x1.45F306DC9C883p+23) + 0x800000) >> 24; /* quarters, rounded */
    x = x - (double)turns * 0x1.921FB54442D18p0;
    double z = x * x, xz = x * z, zz = z * z;
    double s = (x + xz * -0x1.555545995a603p-3) + xz * z * (0x1.1107605230bc4p-7 + z * -0x1.994eb3774cf24p-13);
    double c = ((1 + z * -0x1.ffffffd0c621cp-2) + zz * 0x1.55553e1068f19p-5) +
               zz * z * (-0x1.6c087e89a359dp-10 + z * 0x1.99343027bf8c3p-16);
    uint32_t sine = mr_float_bits((float)s), cosine = mr_float_bits((float)c), n = (uint32_t)turns;
    *sin_out = mr_float_of_bits((n & 1 ? cosine : sine) ^ (n & 2) << 30);
    *cos_out = mr_float_of_bits((n & 1 ? sine : cosine) ^ ((n + 1) & 2) << 30);
}

/* Stage by stage, so that each is a loop that the compiler vectorises. */
MR_CLONES static void normal_pairs(int n, const uint32_t *words, float *out)
{
    float u[PAIRS], angle[PAIRS], sine[PAIRS], cosine[PAIRS];
    for (int i = 0; i < n; i++) {
        float v = mr_philox_float(words[2 * i]);
        u[i] = v < 1.0e-7f ? 1.0e-7f : v;
        angle[i] = (float)(2.0f * M_PI * mr_philox_float(words[2 * i + 1]));
    }
    for (int i = 0; i < n; i++)
        u[i] = log_of_glibc(u[i]);
    for (int i = 0; i < n; i++)
        sin_cos_of_glibc(angle[i], &sine[i], &cosine[i]);
    for (int i = 0; i < n; i++) {
        float r = sqrtf(-2.0f * u[i]);
        out[2 * i] = sine[i] * r;
        out[2 * i + 1] = cosine[i] * r;
    }
}

void mr_philox_normals(int64_t n, const uint32_t *words, float *out)
{
    for (int64_t at = 0; at < n; at += PAIRS)
        normal_pairs((int)(n - at < PAIRS ? n - at : PAIRS), words + 2 * at, out + 2 * at);
}
