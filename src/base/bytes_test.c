/* base/bytes_test.c -- messages as lists of pieces. */
#include "base/bytes.h"
#include "tests/harness/test.h"

static void count_drop(void *n) { ++*(int *)n; }

static mr_piece piece(const char *text, int *drops)
{
    return (mr_piece){text, strlen(text), count_drop, drops};
}

static void check_text(mr_bytes *b, const char *text)
{
    mr_sv v;
    MR_CHECK_OK(mr_bytes_flat(b, &v));
    MR_CHECK_INT(v.n, strlen(text));
    MR_CHECK(mr_sv_is(v, text));
}

MR_TEST(bytes_drop_each_piece_once)
{
    mr_bytes b = {0};
    int a = 0, c = 0;
    mr_bytes_add(&b, piece("ab", &a));
    mr_bytes_add(&b, piece("c", &c));
    mr_bytes_add(&b, (mr_piece){"static", 6});
    MR_CHECK_INT(b.n, 9);
    MR_CHECK_INT(a + c, 0);
    mr_bytes_deinit(&b);
    MR_CHECK_INT(a, 1);
    MR_CHECK_INT(c, 1);
    MR_CHECK_INT(b.n + (size_t)b.pieces.n, 0);
    mr_bytes_deinit(&b);
    MR_CHECK_INT(a, 1);
}

MR_TEST(bytes_hold_no_empty_piece)
{
    mr_bytes b = {0};
    int drops = 0;
    mr_str empty = {0};
    mr_bytes_add(&b, piece("", &drops));
    mr_bytes_add_str(&b, &empty);
    MR_CHECK(mr_bytes_add_copy(&b, NULL, 0));
    MR_CHECK_INT(drops, 1);
    MR_CHECK_INT(b.pieces.n, 0);
    check_text(&b, "");
}

MR_TEST(bytes_take_over_a_string)
{
    mr_bytes b = {0};
    mr_str s = {0};
    mr_str_appendz(&s, "tensor");
    const char *p = s.p;
    mr_bytes_add_str(&b, &s);
    MR_CHECK(!s.p && s.n == 0);
    MR_CHECK(b.pieces.p[0].data == p);
    check_text(&b, "tensor");
    mr_bytes_deinit(&b);
}

MR_TEST(bytes_flat_joins_once_and_drops_what_it_joined)
{
    mr_bytes b = {0};
    int drops = 0;
    mr_sv first, second;
    mr_bytes_add(&b, piece("mill", &drops));
    mr_bytes_add(&b, piece("race", &drops));
    MR_CHECK_OK(mr_bytes_flat(&b, &first));
    MR_CHECK(mr_sv_is(first, "millrace"));
    MR_CHECK_INT(drops, 2);
    MR_CHECK_OK(mr_bytes_flat(&b, &second));
    MR_CHECK(first.p == second.p);
    mr_bytes_deinit(&b);
}

MR_TEST(bytes_flat_of_one_piece_is_that_piece)
{
    mr_bytes b = {0};
    int drops = 0;
    const char *text = "here";
    mr_sv v;
    mr_bytes_add(&b, piece(text, &drops));
    MR_CHECK_OK(mr_bytes_flat(&b, &v));
    MR_CHECK(v.p == text);
    mr_bytes_deinit(&b);
}

MR_TEST(bytes_flat_copies_what_others_can_write)
{
    mr_bytes b = {0};
    char memory[] = "good";
    mr_sv v;
    mr_bytes_add(&b, (mr_piece){memory, 4, .shared = true});
    MR_CHECK_OK(mr_bytes_flat(&b, &v));
    memory[0] = 'f';
    MR_CHECK(mr_sv_is(v, "good"));
    MR_CHECK(!b.pieces.p[0].shared);
    mr_bytes_deinit(&b);
}

MR_TEST(bytes_bear_refused_memory)
{
    mr_bytes b = {0};
    int drops = 0;
    mr_sv v;
    mr_bytes_add(&b, piece("one", &drops));
    mr_bytes_add(&b, piece("two", &drops));
    mr_memory_fail_after(1);
    MR_CHECK(!mr_bytes_add_copy(&b, "three", 5));
    mr_memory_fail_after(1);
    MR_CHECK_ERR(mr_bytes_flat(&b, &v), MR_RESOURCE_EXHAUSTED, "6 bytes");
    MR_CHECK_INT(drops, 0);
    check_text(&b, "onetwo");
    mr_bytes_deinit(&b);
    MR_CHECK_INT(drops, 2);
}

MR_TEST(bytes_append_moves_all_pieces)
{
    mr_bytes a = {0}, b = {0};
    int drops = 0;
    mr_bytes_add(&b, piece("x", &drops));
    mr_bytes_append(&a, &b);
    MR_CHECK_INT(b.n, 0);
    mr_bytes_add(&b, piece("y", &drops));
    mr_bytes_add(&b, piece("z", &drops));
    mr_bytes_append(&a, &b);
    MR_CHECK_INT(a.n, 3);
    MR_CHECK_INT(b.n, 0);
    mr_bytes_deinit(&b);
    MR_CHECK_INT(drops, 0);
    check_text(&a, "xyz");
    mr_bytes_deinit(&a);
    MR_CHECK_INT(drops, 3);
}

MR_TEST(bytes_read_across_pieces)
{
    mr_bytes b = {0};
    char out[8] = "";
    mr_bytes_add(&b, (mr_piece){"ab", 2});
    mr_bytes_add(&b, (mr_piece){"cde", 3});
    mr_bytes_add(&b, (mr_piece){"f", 1});
    MR_CHECK(mr_bytes_read(&b, 1, out, 4));
    MR_CHECK_STR(out, "bcde");
    MR_CHECK(mr_bytes_read(&b, 6, out, 0));
    MR_CHECK(!mr_bytes_read(&b, 3, out, 4));
    MR_CHECK(!mr_bytes_read(&b, 7, out, 0));
    MR_CHECK(!mr_bytes_read(&b, 2, out, SIZE_MAX));
    mr_bytes_deinit(&b);
}

MR_TEST(bytes_give_one_piece_away)
{
    mr_bytes b = {0};
    int drops = 0;
    mr_bytes_add(&b, (mr_piece){"head", 4});
    mr_bytes_add(&b, piece("tensor", &drops));
    mr_bytes_add(&b, (mr_piece){"tail", 4});
    mr_piece p = mr_bytes_take(&b, 1);
    check_text(&b, "headtail");
    mr_bytes_deinit(&b);
    MR_CHECK_INT(drops, 0);
    mr_piece_drop(p);
    MR_CHECK_INT(drops, 1);
}
