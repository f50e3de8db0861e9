/* ops/image/hsv.h -- colors as red, green, blue and as hue, saturation, value, all of them in [0, 1].
 *
 * The value is the largest component, the saturation the relative distance of the smallest from it, the hue the
 * position on a circle of six sectors. A gray has hue 0; a value of 0 or less has saturation 0. */
#ifndef MR_OPS_IMAGE_HSV_H
#define MR_OPS_IMAGE_HSV_H

#include <math.h>

#include "base/memory.h"
#include "base/simd.h"

#define MR_HSV(T, name, abs_of)                                                                  \
    MR_INLINE void mr_rgb_to_hsv_##name(const T *rgb, T *hsv)                                    \
    {                                                                                            \
        T r = rgb[0], g = rgb[1], b = rgb[2];                                                    \
        T v = MR_MAX(MR_MAX(r, g), b), range = v - MR_MIN(MR_MIN(r, g), b), h = 0;               \
        if (range > 0) {                                                                         \
            T norm = (T)1 / ((T)6 * range);                                                      \
            h = r == v ? norm * (g - b) : g == v ? norm * (b - r) + (T)2 / 6 : norm * (r - g) + (T)4 / 6; \
        }                                                                                        \
        hsv[0] = h < 0 ? h + 1 : h;                                                              \
        hsv[1] = v > 0 ? range / v : 0;                                                          \
        hsv[2] = v;                                                                              \
    }                                                                                            \
    /* The amount of a component: 1 around its own corner of the circle, 0 opposite. */          \
    MR_INLINE T mr_ramp_##name(T x) { return x < 0 ? 0 : x > 1 ? 1 : x; }                        \
    MR_INLINE void mr_hsv_to_rgb_##name(const T *hsv, T *rgb)                                    \
    {                                                                                            \
        T at = hsv[0] * 6, s = hsv[1], v = hsv[2], base = 1 - s;                                 \
        rgb[0] = (base + s * mr_ramp_##name(abs_of(at - 3) - 1)) * v;                            \
        rgb[1] = (base + s * mr_ramp_##name(2 - abs_of(at - 2))) * v;                            \
        rgb[2] = (base + s * mr_ramp_##name(2 - abs_of(at - 4))) * v;                            \
    }

MR_HSV(float, float, fabsf)
MR_HSV(double, double, fabs)

#endif
