/* capi/ps_filters_test.c -- what filters and codecs of millrace/ps.h do to pushes and pulls, through a server. */
#include "millrace/ps.h"

#include "base/memory.h"
#include "tests/harness/test.h"

typedef struct bench {
    TF_Status *s;
    mr_ps *ps;
} bench;

static void check_ok(bench *b)
{
    if (TF_GetCode(b->s) != TF_OK)
        mr_test_fail(__FILE__, __LINE__, "%s", TF_Message(b->s));
}

static void begin(bench *b, mr_ps_options o)
{
    o.struct_size = sizeof o;
    b->s = TF_NewStatus();
    b->ps = mr_ps_connect(&o, b->s);
    check_ok(b);
}

static void end(bench *b)
{
    mr_ps_free(b->ps);
    TF_DeleteStatus(b->s);
}

static int table(bench *b, mr_ps_table_options o)
{
    o.struct_size = sizeof o;
    int t = mr_ps_table(b->ps, "w", &o, b->s);
    check_ok(b);
    return t;
}

static void push(bench *b, int t, const uint64_t *keys, size_t n, const float *v, mr_ps_call c)
{
    c.struct_size = sizeof c;
    mr_ps_task k = mr_ps_push(b->ps, t, keys, n, v, &c, b->s);
    check_ok(b);
    mr_ps_wait(b->ps, k, b->s);
    check_ok(b);
}

static void pull(bench *b, int t, const uint64_t *keys, size_t n, float *v)
{
    mr_ps_task k = mr_ps_pull(b->ps, t, keys, n, v, NULL, b->s);
    check_ok(b);
    mr_ps_wait(b->ps, k, b->s);
    check_ok(b);
}

static mr_ps_stats stats(bench *b)
{
    mr_ps_stats st = {.struct_size = sizeof st};
    mr_ps_get_stats(b->ps, &st);
    return st;
}

MR_TEST(ps_filters_kkt_leaves_out_what_stays_zero)
{
    bench b;
    begin(&b, (mr_ps_options){0});
    int t = table(&b, (mr_ps_table_options){.num_keys = 100, .update = MR_PS_PROXIMAL, .l1 = 1});
    const uint64_t keys[4] = {3, 50, 51, 99};
    float w[4] = {0};
    push(&b, t, keys, 4, (const float[]){0.2f, 1, 3, 1, -0.3f, 1, -3, 2}, (mr_ps_call){.kkt = w, .kkt_threshold = 0.9f});
    MR_CHECK_INT(stats(&b).rows_sent, 2);
    MR_CHECK_INT(stats(&b).rows_offered, 4);
    pull(&b, t, keys, 4, w);
    MR_CHECK(w[0] == 0 && w[2] == 0);
    MR_CHECK_NEAR(w[1], -2, 1e-6);
    MR_CHECK_NEAR(w[3], 1, 1e-6);
    push(&b, t, keys, 4, (const float[]){0.2f, 1, 0.2f, 1, 0, 1, 0.2f, 2}, (mr_ps_call){.kkt = w, .kkt_threshold = 0.9f});
    MR_CHECK_INT(stats(&b).rows_sent, 4); /* weights that are not 0 are always sent */
    end(&b);
}

MR_TEST(ps_filters_modified_and_flushed_is_all_that_was_pushed)
{
    enum { N = 200, ROUNDS = 20 };
    bench b;
    begin(&b, (mr_ps_options){.cache_keys = 1, .compress = 1});
    int t = table(&b, (mr_ps_table_options){.num_keys = N, .update = MR_PS_ADD});
    uint64_t keys[N];
    float v[N], got[N], want[N] = {0};
    for (uint64_t i = 0; i < N; i++)
        keys[i] = i;
    for (int r = 0; r < ROUNDS; r++) {
        for (int i = 0; i < N; i++) { /* multiples of 1/1024: sums are exact */
            v[i] = (float)((int)(mr_test_random() % 256) - 100) / 1024;
            want[i] += v[i];
        }
        push(&b, t, keys, N, v, (mr_ps_call){.modified = 0.25f});
    }
    MR_CHECK(stats(&b).rows_sent < ROUNDS * N / 2);
    mr_ps_task k = mr_ps_flush(b.ps, t, b.s);
    check_ok(&b);
    mr_ps_wait(b.ps, k, b.s);
    check_ok(&b);
    pull(&b, t, keys, N, got);
    MR_CHECK(memcmp(got, want, sizeof got) == 0);
    MR_CHECK(mr_ps_flush(b.ps, t, b.s) == 0);
    check_ok(&b);
    end(&b);
}

MR_TEST(ps_filters_random_skip_keeps_the_mean)
{
    enum { N = 20000 };
    bench b;
    begin(&b, (mr_ps_options){0});
    int t = table(&b, (mr_ps_table_options){.num_keys = N, .update = MR_PS_ADD});
    static uint64_t keys[N];
    static float v[N];
    for (uint64_t i = 0; i < N; i++)
        keys[i] = i, v[i] = 1;
    push(&b, t, keys, N, v, (mr_ps_call){.keep = 0.25f});
    pull(&b, t, keys, N, v);
    double sum = 0;
    for (int i = 0; i < N; i++) {
        MR_CHECK(v[i] == 0 || v[i] == 4);
        sum += (double)v[i];
    }
    MR_CHECK_NEAR(sum / N, 1, 0.08);
    MR_CHECK_NEAR((double)stats(&b).rows_sent / N, 0.25, 0.02);
    end(&b);
}

/* Values come back as the form can say them, whatever else is switched on. */
static void values_travel(mr_ps_options o, double tolerance)
{
    enum { N = 3000, W = 3 };
    bench b;
    begin(&b, o);
    int t = table(&b, (mr_ps_table_options){.num_keys = 10 * N, .width = W, .update = MR_PS_ASSIGN});
    static uint64_t keys[N];
    static float v[N * W], got[N * W];
    for (uint64_t i = 0; i < N; i++)
        keys[i] = i * 10 + mr_test_random() % 10;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N * W; i++)
            v[i] = i % 7 ? (float)((double)(int64_t)mr_test_random() * 0x1p-63) : 0;
        push(&b, t, keys, N, v, (mr_ps_call){0});
        pull(&b, t, keys, N, got);
        for (int i = 0; i < N * W; i++)
            MR_CHECK_NEAR(got[i], v[i], tolerance);
    }
    mr_ps_stats st = stats(&b);
    MR_CHECK(!o.cache_keys || st.key_hits >= st.key_lists - 2); /* a list is sent once, to one server */
    end(&b);
}

MR_TEST(ps_filters_values_travel_in_every_form)
{
    for (int cache = 0; cache < 2; cache++)
        for (int compress = 0; compress < 2; compress++) {
            mr_ps_options o = {.cache_keys = (unsigned char)cache, .compress = (unsigned char)compress};
            values_travel(o, 0);
            o.half = 1;
            values_travel(o, 0x1p-7);
            o.half = 2;
            values_travel(o, 3.0 / 32767);
        }
}
