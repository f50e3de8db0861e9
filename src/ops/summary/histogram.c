/* ops/summary/histogram.c -- HistogramSummary: counts values in buckets, each a tenth larger than the one
 * before, as TensorFlow does.
 *
 * Bucket i counts the values v with limit[i-1] <= v < limit[i].  The limits are -max, .., -1.1e-12,
 * -1e-12, 0, 1e-12, 1.1e-12, .., max, where max is the largest double: each 1.1 times the one
 * before, from rounded products, so they equal TensorFlow's bit for bit.  Sums are computed in the order
 * of the values for the same reason. */
#include <float.h>
#include <math.h>

#include "graph/infer.h"
#include "ops/summary/summary.h"

enum {
    SIDE = 775, /* limits above 0: 1e-12 * 1.1^k below 1e20, and the largest double */
    LIMITS = 2 * SIDE + 1,
};

typedef struct histogram {
    double limits[LIMITS], counts[LIMITS];
    double min, max, num, sum, sum_squares;
} histogram;

static void histogram_init(histogram *h)
{
    *h = (histogram){.min = DBL_MAX, .max = -DBL_MAX};
    double v = 1.0e-12;
    for (int i = 0; i < SIDE; i++, v *= 1.1) {
        double limit = v < 1.0e20 ? v : DBL_MAX;
        MR_ASSERT((v < 1.0e20) == (i < SIDE - 1));
        h->limits[SIDE + 1 + i] = limit;
        h->limits[SIDE - 1 - i] = -limit;
    }
}

/* The first limit above v; for the largest double, the last limit, because there is none above it. */
static int bucket_of(const histogram *h, double v)
{
    int at = 0, n = LIMITS - 1;
    while (n > 0) { /* limits before `at` are <= v, those from at + n on (but the last) above */
        int half = n / 2;
        if (h->limits[at + half] <= v) {
            at += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return at;
}

static void add_value(histogram *h, double v)
{
    h->counts[bucket_of(h, v)]++;
    h->min = h->min > v ? v : h->min;
    h->max = h->max < v ? v : h->max;
    h->num++;
    h->sum += v;
    h->sum_squares += v * v;
}

static mr_status *add_all(histogram *h, const mr_tensor *t, const char *node)
{
    double block[256];
    mr_dtype type = (mr_dtype)t->dtype;
    for (int64_t at = 0; at < t->n; at += MR_COUNT(block)) {
        int64_t n = MR_MIN(MR_COUNT(block), t->n - at);
        const char *from = (const char *)t->data + (size_t)at * mr_dtype_size(type);
        mr_dtype_convert(type, from, MR_DOUBLE, block, n, false);
        for (int64_t i = 0; i < n; i++) {
            if (!isfinite(block[i]))
                return mr_invalid("%s in summary histogram for: %s",
                                  isnan(block[i]) ? "Nan" : "Infinity", node);
            add_value(h, block[i]);
        }
    }
    return NULL;
}

/* Merges each run of empty buckets to one with the last limit of the run.  Returns how many buckets are left,
 * at the front of both arrays. */
static size_t drop_empty(histogram *h)
{
    size_t n = 0;
    for (int i = 0; i < LIMITS; i++) {
        while (h->counts[i] == 0 && i + 1 < LIMITS && h->counts[i + 1] == 0)
            i++;
        h->limits[n] = h->limits[i];
        h->counts[n++] = h->counts[i];
    }
    return n;
}

static void put_number(mr_pb_writer *w, uint32_t field, double v)
{
    if (v != 0) /* -0 is omitted, too, as in the protobuf library of TensorFlow 2.9 */
        mr_pb_put_double(w, field, v);
}

static void encode_histogram(histogram *h, mr_pb_writer *w)
{
    size_t mark = mr_pb_begin(w, MR_SUMMARY_HISTO), n = drop_empty(h);
    put_number(w, 1, h->min);
    put_number(w, 2, h->max);
    put_number(w, 3, h->num);
    put_number(w, 4, h->sum);
    put_number(w, 5, h->sum_squares);
    mr_pb_put_packed_fixed(w, 6, h->limits, n, sizeof(double));
    mr_pb_put_packed_fixed(w, 7, h->counts, n, sizeof(double));
    mr_pb_end(w, mark);
}

mr_status *mr_summary_put_histogram(mr_pb_writer *w, const mr_tensor *t, const char *name)
{
    histogram h;
    histogram_init(&h);
    MR_TRY(add_all(&h, t, name));
    encode_histogram(&h, w);
    return NULL;
}

static mr_status *histogram_summary(mr_run *r)
{
    const mr_tensor *tag = mr_in(r, 0);
    if (tag->rank != 0)
        return mr_invalid("tags must be scalar, got shape %s", MR_TENSOR_SHAPE(tag));
    mr_summary s;
    mr_summary_init(&s);
    size_t v = mr_summary_begin(&s, mr_tensor_str_at(tag, 0));
    mr_status *st = mr_summary_put_histogram(&s.w, mr_in(r, 1), r->node->name);
    mr_pb_end(&s.w, v);
    if (!st)
        return mr_summary_finish(&s, r);
    mr_str_deinit(&s.bytes);
    return st;
}

MR_OP(HistogramSummary,
    .doc      = "a Summary of how the values are distributed",
    .sig      = "tag: string, values: T -> summary: string",
    .attrs    = "T: realnumbertype = DT_FLOAT",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_scalar,
    .kernels  = MR_KERNELS(MR_CPU_ONE(histogram_summary, MR_REALS)),
    .examples = MR_EXAMPLES(
        "\"a\", 1 -> ?", "\"a\", [[1, 2], [3, 4]] -> ?", "\"\", shape(0) -> ?",
        /* num 1, everything else 0; all below 1e-12, one in there, all above */
        "\"z\", 0 -> \"\\nB\\n\\x01z*=\\x19\\x00\\x00\\x00\\x00\\x00\\x00\\xf0?"
        "2\\x18\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x11\\xea-\\x81\\x99\\x97q="
        "\\xff\\xff\\xff\\xff\\xff\\xff\\xef\\x7f:\\x18\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00"
        "\\x00\\x00\\x00\\x00\\x00\\x00\\xf0?\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\"",
        "T=float: \"a\", [1, nan, inf] -> !INVALID_ARGUMENT Nan in summary histogram for: op",
        "T=float: \"a\", [1, -inf, nan] -> !INVALID_ARGUMENT Infinity in summary histogram for: op",
        "[\"a\"], 1 -> !INVALID_ARGUMENT tags must be scalar"));
