#include "ps/codec.h"

#include "base/memory.h"
#include "tests/harness/test.h"
#include "wire/snappy.h"

static float draw(void) { return (float)((double)(int64_t)mr_test_random() * 0x1p-63); }

/* Packs and unpacks both ways; absent rows are zeros of the dense one.  Returns the bytes. */
static size_t there_and_back(mr_ps_codec c, size_t n_rows, int width, const uint8_t *present, float tolerance)
{
    size_t n = n_rows * (size_t)width, w = (size_t)width;
    float *v = mr_new_array(float, n + 1), *dense = mr_new_array(float, n + 1);
    mr_str s = {0};
    mr_ps_rows rows;
    for (size_t i = 0; i < n; i++)
        v[i] = draw();
    mr_str_appendz(&s, "kept");
    MR_CHECK_OK(mr_ps_values_pack(&c, v, present, n_rows, width, &s));
    mr_sv packed = {s.p + 4, s.n - 4};
    MR_CHECK_OK(mr_ps_values_unpack(packed, n_rows, width, dense));
    MR_CHECK_OK(mr_ps_rows_unpack(packed, n_rows, width, &rows));
    size_t k = 0;
    for (size_t i = 0; i < n_rows; i++) {
        bool is = !present || present[i];
        for (size_t j = 0; j < w; j++)
            MR_CHECK_NEAR(dense[i * w + j], is ? v[i * w + j] : 0, tolerance);
        if (!is)
            continue;
        MR_CHECK(k < rows.n && (!rows.rows || rows.rows[k] == i));
        MR_CHECK(memcmp(rows.values + k * w, dense + i * w, w * sizeof(float)) == 0);
        k++;
    }
    MR_CHECK_INT(rows.n, k);
    mr_ps_rows_deinit(&rows);
    mr_str_deinit(&s);
    mr_free(v), mr_free(dense);
    return packed.n;
}

/* All forms, with and without Snappy, of a width. */
static void all_forms(size_t n_rows, int width, const uint8_t *present)
{
    static const float tolerance[] = {0, 0x1p-8f, 1.01f / 32767};
    for (int form = 0; form < 3; form++)
        for (int snappy = 0; snappy < 2; snappy++)
            there_and_back((mr_ps_codec){(mr_ps_form)form, snappy, 7}, n_rows, width, present, tolerance[form]);
}

MR_TEST(ps_codec_values_come_back)
{
    for (int width = 1; width < 12; width += 2)
        for (size_t n = 0; n < 600; n = n * 2 + 1)
            all_forms(n, width, NULL);
}

MR_TEST(ps_codec_absent_rows_stay_absent)
{
    uint8_t present[1000];
    for (int share = 2; share < 100; share *= 2) {
        for (int i = 0; i < MR_COUNT(present); i++)
            present[i] = mr_test_random() % (unsigned)share == 0;
        all_forms(MR_COUNT(present), 1, present);
        all_forms(MR_COUNT(present) - 3, 2, present);
        all_forms(MR_COUNT(present) - 7, 9, present);
    }
}

MR_TEST(ps_codec_no_row_takes_a_byte)
{
    uint8_t none[500] = {0};
    MR_CHECK_INT(there_and_back((mr_ps_codec){MR_PS_FIXED16, false, 1}, 500, 3, none, 0), 1);
}

MR_TEST(ps_codec_few_rows_take_little)
{
    static uint8_t present[100000];
    for (int i = 0; i < 100000; i += 50)
        present[i] = 1;
    size_t bytes = there_and_back((mr_ps_codec){MR_PS_BFLOAT16, true, 1}, 100000, 1, present, 0x1p-8f);
    MR_CHECK(bytes < 2000 * 3 + 50);
}

MR_TEST(ps_codec_float32_keeps_every_bit)
{
    const float odd[] = {NAN, -NAN, INFINITY, -0.0f, 1e-45f, 0};
    float back[6];
    mr_str s = {0};
    MR_CHECK_OK(mr_ps_values_pack(&(mr_ps_codec){MR_PS_FLOAT32, true, 0}, odd, NULL, 3, 2, &s));
    MR_CHECK_OK(mr_ps_values_unpack(mr_str_view(&s), 3, 2, back));
    MR_CHECK(memcmp(odd, back, sizeof odd) == 0);
    mr_str_deinit(&s);
}

MR_TEST(ps_codec_fixed_point_is_right_in_the_mean)
{
    enum { ROUNDS = 4000 };
    const float v[3] = {1, 0.30001f / 32767, -7.25f / 32767};
    double sum[3] = {0};
    for (uint64_t r = 0; r < ROUNDS; r++) {
        float back[3];
        mr_str s = {0};
        MR_CHECK_OK(mr_ps_values_pack(&(mr_ps_codec){MR_PS_FIXED16, false, r}, v, NULL, 3, 1, &s));
        MR_CHECK_OK(mr_ps_values_unpack(mr_str_view(&s), 3, 1, back));
        for (int i = 0; i < 3; i++)
            sum[i] += (double)back[i] * 32767 / ROUNDS;
        mr_str_deinit(&s);
    }
    MR_CHECK_NEAR(sum[0], 32767, 1e-2);
    MR_CHECK_NEAR(sum[1], 0.3, 0.04); /* five standard errors */
    MR_CHECK_NEAR(sum[2], -7.25, 0.04);
}

MR_TEST(ps_codec_fixed_point_scales_each_run_and_column)
{
    enum { N = 1024 };
    static float v[2 * N], back[2 * N];
    for (int i = 0; i < N; i++) {
        v[2 * i] = 1e6f * draw();
        v[2 * i + 1] = 1e-6f * draw();
    }
    mr_str s = {0};
    MR_CHECK_OK(mr_ps_values_pack(&(mr_ps_codec){MR_PS_FIXED16, false, 1}, v, NULL, N, 2, &s));
    MR_CHECK_OK(mr_ps_values_unpack(mr_str_view(&s), N, 2, back));
    for (int i = 0; i < N; i++)
        MR_CHECK_NEAR(back[2 * i + 1], v[2 * i + 1], 1e-6 / 32000);
    mr_str_deinit(&s);
}

MR_TEST(ps_codec_fixed_point_of_the_least_and_the_largest)
{
    const float v[2][3] = {{1e-45f, -1e-45f, 0}, {3.4e38f, -3.4e38f, 0}};
    for (int k = 0; k < 2; k++) {
        float back[3];
        mr_str s = {0};
        MR_CHECK_OK(mr_ps_values_pack(&(mr_ps_codec){MR_PS_FIXED16, false, 1}, v[k], NULL, 3, 1, &s));
        MR_CHECK_OK(mr_ps_values_unpack(mr_str_view(&s), 3, 1, back));
        for (int i = 0; i < 3; i++)
            MR_CHECK_NEAR(back[i], v[k][i], k ? 2e34 : 2e-45);
        mr_str_deinit(&s);
    }
}

MR_TEST(ps_codec_fixed_point_refuses_what_is_not_finite)
{
    const float v[2] = {1, NAN};
    mr_str s = {0};
    mr_str_appendz(&s, "kept");
    MR_CHECK_ERR(mr_ps_values_pack(&(mr_ps_codec){MR_PS_FIXED16, false, 1}, v, NULL, 2, 1, &s), MR_INVALID_ARGUMENT,
                 "not finite");
    MR_CHECK_STR(mr_str_z(&s), "kept");
    mr_str_deinit(&s);
}

MR_TEST(ps_codec_nonzero_rows)
{
    const float v[8] = {0, 0, 0, 1, -0.0f, 0, NAN, 0};
    uint8_t present[4];
    MR_CHECK_INT(mr_ps_values_nonzero(v, 4, 2, present), 2);
    MR_CHECK(!present[0] && present[1] && !present[2] && present[3]);
}

/* ---- strangers ---- */

static void refuses(mr_sv in, size_t n_rows, int width, const char *text)
{
    float values[64];
    mr_ps_rows rows;
    MR_CHECK_ERR(mr_ps_values_unpack(in, n_rows, width, values), MR_INVALID_ARGUMENT, text);
    MR_CHECK_ERR(mr_ps_rows_unpack(in, n_rows, width, &rows), MR_INVALID_ARGUMENT, text);
    MR_CHECK(!rows.values && !rows.rows);
}

/* A thousand bytes that say they are of four rows. */
MR_TEST(ps_codec_lets_nothing_out_that_is_more_than_its_rows)
{
    mr_str body = {0}, s = {0};
    float values[4];
    for (int i = 0; i < 1000; i++)
        mr_str_append(&body, "", 1);
    mr_str_append(&s, "\x04", 1); /* Snappy, all rows, float32 */
    MR_CHECK_OK(mr_snappy_compress(mr_str_view(&body), &s));
    MR_CHECK_ERR(mr_ps_values_unpack(mr_str_view(&s), 4, 1, values), MR_INVALID_ARGUMENT, "1000 bytes are more than 4 rows");
    mr_str_deinit(&body);
    mr_str_deinit(&s);
}

MR_TEST(ps_codec_refuses_what_is_not_packed)
{
    refuses(MR_SV(""), 1, 1, "no bytes");
    refuses(MR_SV("\x03"), 1, 1, "unknown form 0x03");
    refuses(MR_SV("\x20"), 1, 1, "unknown form 0x20");
    refuses(MR_SV("\0abc"), 1, 1, "3 bytes, but 1 rows of 1 floats take 4");
    refuses(MR_SV("\0abcde"), 1, 1, "5 bytes, but 1 rows of 1 floats take 4");
    refuses(MR_SV("\x08\xff"), 9, 1, "truncated");
    refuses(MR_SV("\x08\xff\xff"), 9, 1, "beyond the last");
    refuses(MR_SV("\x10\x02\x00\x00"), 1, 1, "more rows");
    refuses(MR_SV("\x10\x01\x05"), 5, 1, "not below 5");
    refuses(MR_SV("\x10\x02\x01\x03"), 5, 1, "not below 5");
    refuses(MR_SV("\x10\x02\x01"), 5, 1, "not below 5");
    refuses(MR_SV("\x18x"), 5, 1, "1 bytes, but 0 rows of 1 floats take 0");
    refuses(MR_SV("\0"), 0, 0, "too many");
    refuses(MR_SV("\0"), (size_t)1 << 33, 1, "too many");
}

MR_TEST(ps_codec_refuses_broken_snappy)
{
    float values[4];
    MR_CHECK_ERR(mr_ps_values_unpack(MR_SV("\x04\x10\x01"), 4, 1, values), MR_DATA_LOSS, "values: snappy");
}

MR_TEST(ps_codec_survives_no_memory)
{
    float v[64], back[64];
    uint8_t present[64];
    mr_str whole = {0};
    for (int i = 0; i < 64; i++)
        v[i] = draw(), present[i] = i % 3 == 0;
    mr_ps_codec c = {MR_PS_BFLOAT16, true, 1};
    MR_CHECK_OK(mr_ps_values_pack(&c, v, present, 64, 1, &whole));
    for (int64_t k = 1; k < 8; k++) {
        mr_str s = {0};
        mr_memory_fail_after(k);
        mr_status *st = mr_ps_values_pack(&c, v, present, 64, 1, &s);
        MR_CHECK(!st || mr_status_code(st) == MR_RESOURCE_EXHAUSTED);
        mr_status_free(st);
        mr_memory_fail_after(k);
        st = mr_ps_values_unpack(mr_str_view(&whole), 64, 1, back);
        mr_memory_fail_after(0);
        MR_CHECK(!st || mr_status_code(st) == MR_RESOURCE_EXHAUSTED);
        mr_status_free(st);
        mr_str_deinit(&s);
    }
    mr_str_deinit(&whole);
}
