/* base/str_test.c */
#include "base/str.h"

#include "base/memory.h"
#include "tests/harness/test.h"

MR_TEST(str_appends_and_stays_terminated)
{
    mr_str s = {0};
    MR_CHECK_STR(mr_str_z(&s), "");
    MR_CHECK_INT(mr_str_view(&s).n, 0);
    for (int i = 0; i < 1000; i++)
        mr_str_appendc(&s, (char)('a' + i % 26));
    MR_CHECK_INT(s.n, 1000);
    MR_CHECK_INT(strlen(mr_str_z(&s)), 1000);
    mr_str_clear(&s);
    mr_str_appendz(&s, "x");
    mr_str_append(&s, "\0y", 2);
    mr_str_append(&s, NULL, 0);
    mr_str_printf(&s, "%d", 42);
    MR_CHECK(mr_sv_eq(mr_str_view(&s), (mr_sv){"x\0y42", 5}));
    mr_str_deinit(&s);
}

MR_TEST(str_appends_a_part_of_itself)
{
    mr_str s = {0};
    mr_str_appendz(&s, "0123456789");
    for (int i = 0; i < 8; i++)
        mr_str_append(&s, s.p, s.n);
    MR_CHECK_INT(s.n, 2560);
    for (size_t i = 0; i < s.n; i++)
        MR_CHECK_INT(s.p[i], '0' + (int)(i % 10));
    mr_str_deinit(&s);
}

MR_TEST(str_try_append_leaves_s_as_it_was_without_memory)
{
    mr_str s = {0};
    mr_str_appendz(&s, "kept");
    char big[100] = {0};
    mr_memory_fail_after(1);
    MR_CHECK(mr_str_try_append(&s, big, 27)); /* still fits */
    MR_CHECK(mr_str_try_append(&s, big, 10)); /* doubling fails, a tight fit does not */
    mr_memory_fail_after(1);
    MR_CHECK(!mr_str_try_append(&s, big, sizeof(big)));
    MR_CHECK_INT(s.n, 41);
    mr_memory_fail_after(0);
    MR_CHECK(!mr_str_try_append(&s, big, SIZE_MAX - 3));
    MR_CHECK_STR(mr_str_z(&s), "kept");
    mr_str_deinit(&s);
}

MR_TEST(str_take_hands_over_the_buffer)
{
    mr_str s = {0};
    char *empty = mr_str_take(&s);
    MR_CHECK_STR(empty, "");
    mr_str_appendz(&s, "abc");
    char *p = mr_str_take(&s);
    MR_CHECK_STR(p, "abc");
    MR_CHECK(s.p == NULL && s.n == 0);
    mr_free(p);
    mr_free(empty);
    p = mr_printf("%s-%03d", "a", 7);
    MR_CHECK_STR(p, "a-007");
    mr_free(p);
}

MR_TEST(sv_to_i64_reads_whole_numbers_only)
{
    int64_t v = 0;
    MR_CHECK(mr_sv_to_i64(MR_SV("9223372036854775807"), &v) && v == INT64_MAX);
    MR_CHECK(mr_sv_to_i64(MR_SV("-9223372036854775808"), &v) && v == INT64_MIN);
    MR_CHECK(mr_sv_to_i64(MR_SV("+12"), &v) && v == 12);
    v = 5;
    /* clang-format off */
    static const char *const bad[] = {
        "", "-", "+", "1 ", " 1", "0x1", "1e3", "--1", "9223372036854775808",
        "-9223372036854775809", "99999999999999999999999"};
    /* clang-format on */
    for (int i = 0; i < MR_COUNT(bad); i++)
        MR_CHECK(!mr_sv_to_i64(mr_sv_of(bad[i]), &v));
    MR_CHECK_INT(v, 5);
    MR_CHECK(!mr_sv_to_i64((mr_sv){NULL, 0}, &v));
}

MR_TEST(sv_cut_gives_all_parts_even_empty_ones)
{
    mr_sv rest = MR_SV("a,,bc,"), part;
    mr_str joined = {0};
    while (mr_sv_cut(&rest, ',', &part))
        mr_str_printf(&joined, "[%.*s]", MR_SV_ARG(part));
    MR_CHECK_STR(mr_str_z(&joined), "[a][][bc][]");
    MR_CHECK(rest.p == NULL);
    mr_str_deinit(&joined);
    rest = MR_SV("");
    MR_CHECK(mr_sv_cut(&rest, ',', &part) && part.n == 0);
    MR_CHECK(!mr_sv_cut(&rest, ',', &part));
}

MR_TEST(sv_trim_and_starts)
{
    MR_CHECK(mr_sv_is(mr_sv_trim(MR_SV(" \t a b\r\n")), "a b"));
    MR_CHECK_INT(mr_sv_trim(MR_SV(" \n ")).n, 0);
    MR_CHECK(mr_sv_starts(MR_SV("abc"), "ab"));
    MR_CHECK(mr_sv_starts(MR_SV("abc"), ""));
    MR_CHECK(!mr_sv_starts(MR_SV("a"), "ab"));
    MR_CHECK(mr_sv_starts((mr_sv){NULL, 0}, ""));
    MR_CHECK(mr_sv_eq((mr_sv){NULL, 0}, MR_SV("")));
}

/* Numbers of MurmurHash64A with TensorFlow's seed, from an independent implementation. */
MR_TEST(hash64_is_that_of_tensorflow)
{
    static const struct {
        const char *text;
        uint64_t hash;
    } known[] = {
        {"", 0x81769421199f9e3bu},
        {"a", 0x29962dc026eac9fcu},
        {"1234567", 0xe3991a8391b16debu},
        {"12345678", 0x05d826b62696d2b7u},
        {"123456789", 0xc68ee0a8608359cbu},
        {"/job:worker/replica:0/task:0;edge_7_x", 0x8cbaf041ca87d263u},
        {"\xff\xfe\x80", 0x3fea684a6e37091au},
    };
    for (int i = 0; i < MR_COUNT(known); i++)
        MR_CHECK_INT(mr_hash64(known[i].text, strlen(known[i].text)), known[i].hash);
}
