/* ops/summary/histogram_test.c -- reads the output of HistogramSummary back as a message. */
#include <float.h>

#include "ops/kernel_fixture.h"
#include "proto/event.pb-c.h"
#include "tests/harness/test.h"
#include "wire/message.h"

/* The Summary of some doubles; free it with mr_message_free. */
static Tensorflow__Summary *summary_of(const double *values, int64_t n)
{
    mr_kernel_fixture b;
    ProtobufCMessage *m;
    mr_tensor *in[] = {mr_tensor_scalar_str(MR_SV("tag")), mr_tensor_of(MR_DOUBLE, 1, &n, values)};
    mr_tensor *out;
    mr_kernel_fixture_init(&b, 1, "HistogramSummary", NULL, 0, 2, (mr_dtype[]){MR_STRING, MR_DOUBLE});
    MR_CHECK_OK(mr_kernel_fixture_run(&b, in, &out));
    MR_CHECK_OK(mr_message_unpack(&tensorflow__summary__descriptor, mr_tensor_str_at(out, 0),
                                  "Summary", &m));
    mr_tensor_unref(out);
    mr_kernel_fixture_deinit(&b);
    return (Tensorflow__Summary *)m;
}

static void check_buckets(const double *values, int64_t n, int n_buckets, const double *limits,
                          const double *counts)
{
    Tensorflow__Summary *s = summary_of(values, n);
    MR_CHECK_INT(s->n_value, 1);
    MR_CHECK_STR(s->value[0]->tag, "tag");
    Tensorflow__HistogramProto *h = s->value[0]->histo;
    MR_CHECK_INT(h->n_bucket_limit, n_buckets);
    MR_CHECK_INT(h->n_bucket, n_buckets);
    for (int i = 0; i < n_buckets; i++) {
        MR_CHECK_NEAR(h->bucket_limit[i], limits[i], 1e-9 * fabs(limits[i]));
        MR_CHECK_NEAR(h->bucket[i], counts[i], 0);
    }
    mr_message_free(&s->base);
}

/* The limits around 1 are 1e-12 * 1.1^289 and 1e-12 * 1.1^290. */
MR_TEST(histogram_merges_runs_of_empty_buckets)
{
    double low = 1e-12 * pow(1.1, 289), high = 1e-12 * pow(1.1, 290);
    check_buckets((double[]){1, 1}, 2, 3, (double[]){low, high, DBL_MAX}, (double[]){0, 2, 0});
    check_buckets((double[]){-1, 1}, 2, 5, (double[]){-high, -low, low, high, DBL_MAX},
                  (double[]){0, 1, 0, 1, 0});
}

MR_TEST(histogram_of_nothing_is_one_empty_bucket)
{
    check_buckets(NULL, 0, 1, (double[]){DBL_MAX}, (double[]){0});
}

MR_TEST(histogram_takes_the_largest_doubles)
{
    check_buckets((double[]){DBL_MAX, 1e300}, 2, 2,
                  (double[]){1e-12 * pow(1.1, 773), DBL_MAX}, (double[]){0, 2});
    check_buckets((double[]){-DBL_MAX, -1e300}, 2, 3,
                  (double[]){-DBL_MAX, -1e-12 * pow(1.1, 773), DBL_MAX}, (double[]){0, 2, 0});
}

/* A value equal to a limit belongs to the bucket above it. */
MR_TEST(histogram_buckets_hold_their_lower_limit)
{
    check_buckets((double[]){0, 1e-12}, 2, 4, (double[]){0, 1e-12, 1.1e-12, DBL_MAX},
                  (double[]){0, 1, 1, 0});
    check_buckets((double[]){-1e-12}, 1, 3, (double[]){-1e-12, 0, DBL_MAX}, (double[]){0, 1, 0});
}

MR_TEST(histogram_sums_its_values)
{
    Tensorflow__Summary *s = summary_of((double[]){1, -2, 4}, 3);
    Tensorflow__HistogramProto *h = s->value[0]->histo;
    MR_CHECK_NEAR(h->min, -2, 0);
    MR_CHECK_NEAR(h->max, 4, 0);
    MR_CHECK_NEAR(h->num, 3, 0);
    MR_CHECK_NEAR(h->sum, 3, 0);
    MR_CHECK_NEAR(h->sum_squares, 21, 0);
    mr_message_free(&s->base);
}
