/* capi/tstring_test.c -- TF_TString: clients compile it into themselves, so its bytes, capacities
 * and types are as fixed as a file format. */
#include "capi/internal.h"
#include "tests/harness/test.h"

#define LONG_TEXT "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIKLMNO" /* 50 bytes */

static TF_TString text(const char *z)
{
    TF_TString s;
    TF_TString_Init(&s);
    TF_TString_Copy(&s, z, strlen(z));
    return s;
}

/* Not a constant, so that compilers do not warn about what is done on purpose. */
static volatile size_t beyond = SIZE_MAX;

static void check(const TF_TString *s, TF_TString_Type type, size_t cap, const char *z)
{
    MR_CHECK_INT(TF_TString_GetType(s), type);
    MR_CHECK_INT(TF_TString_GetCapacity(s), cap);
    MR_CHECK_INT(TF_TString_GetSize(s), strlen(z));
    MR_CHECK(memcmp(TF_TString_GetDataPointer(s), z, strlen(z)) == 0);
    if (type == TF_TSTR_SMALL || type == TF_TSTR_LARGE)
        MR_CHECK_INT(TF_TString_GetDataPointer(s)[strlen(z)], 0);
}

/* An OFFSET string in front of its text, as in a packed tensor. */
typedef struct packed {
    TF_TString s;
    char text[64];
} packed;

static packed offset_text(const char *z)
{
    packed p = {.s.u.offset = {(uint32_t)strlen(z) << 2 | TF_TSTR_OFFSET, sizeof(TF_TString), 1}};
    memcpy(p.text, z, strlen(z));
    return p;
}

/* ---- bytes ---- */

MR_TEST(tstring_zero_bytes_are_the_empty_string)
{
    TF_TString s;
    memset(&s, 0, sizeof(s));
    check(&s, TF_TSTR_SMALL, 22, "");
}

MR_TEST(tstring_small_bytes)
{
    TF_TString s = text("abc");
    MR_CHECK(memcmp(&s,
                    "\x0c"
                    "abc",
                    5) == 0);
}

MR_TEST(tstring_large_fields)
{
    TF_TString s = text(LONG_TEXT);
    MR_CHECK_INT(s.u.large.size, 50 << 2 | 1);
    MR_CHECK_INT(s.u.large.cap, 63);
    MR_CHECK_STR(s.u.large.ptr, LONG_TEXT);
    TF_TString_Dealloc(&s);
}

MR_TEST(tstring_view_fields)
{
    const char *z = LONG_TEXT;
    TF_TString s = text("");
    TF_TString_AssignView(&s, z, 5);
    MR_CHECK_INT(s.u.view.size, 5 << 2 | 3);
    MR_CHECK(s.u.view.ptr == z);
    check(&s, TF_TSTR_VIEW, 0, "abcde");
}

MR_TEST(tstring_offset_reads_beside_itself)
{
    packed p = offset_text("test");
    check(&p.s, TF_TSTR_OFFSET, 0, "test");
}

MR_TEST(tstring_size_field_carries_the_type)
{
    MR_CHECK_INT(TF_TString_ToInternalSizeT(7, TF_TSTR_VIEW), 31);
    MR_CHECK_INT(TF_TString_ToActualSizeT(31), 7);
}

/* ---- small and large ---- */

MR_TEST(tstring_22_bytes_are_small_and_23_large)
{
    TF_TString s = text("0123456789012345678901");
    check(&s, TF_TSTR_SMALL, 22, "0123456789012345678901");
    TF_TString_Copy(&s, "01234567890123456789012", 23);
    check(&s, TF_TSTR_LARGE, 31, "01234567890123456789012");
    TF_TString_Dealloc(&s);
}

MR_TEST(tstring_growing_takes_what_is_needed)
{
    TF_TString s = text("");
    static const int sizes[][2] = {{23, 31}, {31, 31}, {32, 47}, {47, 47}, {48, 63}, {1000, 1007}};
    for (int i = 0; i < 6; i++) {
        MR_CHECK(TF_TString_ResizeUninitialized(&s, (size_t)sizes[i][0]) != NULL);
        MR_CHECK_INT(TF_TString_GetCapacity(&s), sizes[i][1]);
    }
    TF_TString_Dealloc(&s);
}

MR_TEST(tstring_shrinking_below_half_gives_half_back)
{
    TF_TString s = text("");
    TF_TString_Resize(&s, 1000, 'x'); /* capacity 1007 */
    TF_TString_Resize(&s, 503, 'x');  /* not below half */
    MR_CHECK_INT(TF_TString_GetCapacity(&s), 1007);
    TF_TString_Resize(&s, 100, 'x');
    MR_CHECK_INT(TF_TString_GetCapacity(&s), 511); /* round_up_16(1007 / 2 + 1) - 1 */
    TF_TString_Resize(&s, 60, 'x');
    MR_CHECK_INT(TF_TString_GetCapacity(&s), 255);
    TF_TString_Resize(&s, 22, 'x');
    check(&s, TF_TSTR_SMALL, 22, "xxxxxxxxxxxxxxxxxxxxxx");
}

MR_TEST(tstring_copy_of_less_shrinks_by_half)
{
    TF_TString s = text(LONG_TEXT); /* capacity 63 */
    TF_TString_Copy(&s, LONG_TEXT, 23);
    check(&s, TF_TSTR_LARGE, 31, "abcdefghijklmnopqrstuvw");
    TF_TString_Copy(&s, "c", 1);
    check(&s, TF_TSTR_SMALL, 22, "c");
}

MR_TEST(tstring_resize_fills_new_bytes_and_keeps_old_ones)
{
    TF_TString s = text("");
    TF_TString_Resize(&s, 2, 'a');
    TF_TString_Resize(&s, 4, '\0');
    TF_TString_Resize(&s, 6, 'b');
    MR_CHECK_INT(TF_TString_GetSize(&s), 6);
    MR_CHECK(memcmp(TF_TString_GetDataPointer(&s), "aa\0\0bb", 7) == 0);
    TF_TString_Resize(&s, 2, 'c');
    check(&s, TF_TSTR_SMALL, 22, "aa");
    TF_TString_Resize(&s, 25, 'd');
    check(&s, TF_TSTR_LARGE, 31, "aaddddddddddddddddddddddd");
    TF_TString_Dealloc(&s);
}

MR_TEST(tstring_resize_of_a_view_keeps_its_text)
{
    TF_TString s = text("");
    TF_TString_AssignView(&s, LONG_TEXT, 50);
    TF_TString_Resize(&s, 52, '!');
    check(&s, TF_TSTR_LARGE, 63, LONG_TEXT "!!");
    TF_TString_AssignView(&s, LONG_TEXT, 50);
    TF_TString_Resize(&s, 3, '!');
    check(&s, TF_TSTR_SMALL, 22, "abc");
}

MR_TEST(tstring_size_beyond_the_format_is_refused)
{
    TF_TString s = text("abc");
    MR_CHECK(TF_TString_ResizeUninitialized(&s, beyond) == NULL);
    MR_CHECK(TF_TString_Resize(&s, TF_TSTR_MAX_SIZE + 1, 'x') == NULL);
    TF_TString_Reserve(&s, beyond);
    TF_TString_ReserveAmortized(&s, beyond);
    TF_TString_AppendN(&s, "x", beyond);
    check(&s, TF_TSTR_SMALL, 22, "abc");
}

MR_TEST(tstring_copy_beyond_the_format_leaves_it_empty)
{
    TF_TString s = text("abc");
    TF_TString_Copy(&s, "x", beyond);
    check(&s, TF_TSTR_SMALL, 22, "");
}

/* ---- reserve ---- */

MR_TEST(tstring_reserve_rounds_to_16)
{
    TF_TString s = text("hello");
    TF_TString_Reserve(&s, 22);
    check(&s, TF_TSTR_SMALL, 22, "hello");
    TF_TString_Reserve(&s, 100);
    check(&s, TF_TSTR_LARGE, 111, "hello");
    TF_TString_Reserve(&s, 50);
    check(&s, TF_TSTR_LARGE, 111, "hello");
    TF_TString_Reserve(&s, 200);
    check(&s, TF_TSTR_LARGE, 207, "hello");
    TF_TString_Dealloc(&s);
}

MR_TEST(tstring_reserve_amortized_doubles)
{
    TF_TString s = text("hello");
    TF_TString_ReserveAmortized(&s, 22);
    check(&s, TF_TSTR_SMALL, 22, "hello");
    TF_TString_ReserveAmortized(&s, 100);
    check(&s, TF_TSTR_LARGE, 111, "hello");
    TF_TString_ReserveAmortized(&s, 200);
    check(&s, TF_TSTR_LARGE, 223, "hello");
    TF_TString_ReserveAmortized(&s, 1000);
    check(&s, TF_TSTR_LARGE, 1007, "hello");
    TF_TString_Dealloc(&s);
}

MR_TEST(tstring_reserve_leaves_a_view_that_small_could_hold)
{
    TF_TString s = text("");
    TF_TString_AssignView(&s, LONG_TEXT, 50);
    TF_TString_Reserve(&s, 10);
    TF_TString_ReserveAmortized(&s, 10);
    check(&s, TF_TSTR_VIEW, 0, LONG_TEXT);
    TF_TString_Reserve(&s, 30); /* less than the text, which stays whole */
    check(&s, TF_TSTR_LARGE, 63, LONG_TEXT);
    TF_TString_Dealloc(&s);
}

/* ---- append ---- */

MR_TEST(tstring_append_passes_from_small_to_large)
{
    TF_TString s = text("");
    for (int i = 0; i < 50; i++)
        TF_TString_AppendN(&s, &LONG_TEXT[i], 1);
    check(&s, TF_TSTR_LARGE, 95, LONG_TEXT); /* 22, then doubled: 47, 95 */
    TF_TString_Dealloc(&s);
}

MR_TEST(tstring_append_joins_strings_of_any_type)
{
    TF_TString s = text("a"), view = text("");
    packed p = offset_text("-offset");
    TF_TString_AssignView(&view, "-view", 5);
    TF_TString_Append(&s, &view);
    TF_TString_Append(&s, &p.s);
    check(&s, TF_TSTR_SMALL, 22, "a-view-offset");
    TF_TString_Append(&view, &s);
    check(&view, TF_TSTR_SMALL, 22, "-viewa-view-offset");
}

MR_TEST(tstring_append_of_itself_doubles_it)
{
    TF_TString s = text("0123456789"), view = text("");
    TF_TString_Append(&s, &s);
    check(&s, TF_TSTR_SMALL, 22, "01234567890123456789");
    TF_TString_Append(&s, &s); /* the text moves to the heap meanwhile */
    check(&s, TF_TSTR_LARGE, 47, "0123456789012345678901234567890123456789");
    TF_TString_Append(&s, &s); /* and elsewhere on the heap */
    MR_CHECK_INT(TF_TString_GetSize(&s), 80);
    MR_CHECK(memcmp(TF_TString_GetDataPointer(&s) + 40, TF_TString_GetDataPointer(&s), 40) == 0);
    TF_TString_Dealloc(&s);
    TF_TString_AssignView(&view, "ab", 2);
    TF_TString_Append(&view, &view);
    check(&view, TF_TSTR_SMALL, 22, "abab");
}

MR_TEST(tstring_append_of_a_reserved_string_to_itself)
{
    TF_TString s = text("abc");
    TF_TString_Reserve(&s, 100); /* LARGE with little text: appending makes it SMALL again */
    TF_TString_AppendN(&s, TF_TString_GetDataPointer(&s) + 1, 2);
    check(&s, TF_TSTR_SMALL, 22, "abcbc");
}

/* ---- copy, assign, move ---- */

MR_TEST(tstring_copy_of_a_part_of_itself)
{
    TF_TString s = text(LONG_TEXT);
    TF_TString_Copy(&s, TF_TString_GetDataPointer(&s) + 10, 30);
    check(&s, TF_TSTR_LARGE, 31, "klmnopqrstuvwxyz0123456789ABCD");
    TF_TString_Copy(&s, TF_TString_GetDataPointer(&s) + 10, 5);
    check(&s, TF_TSTR_SMALL, 22, "uvwxy");
    TF_TString_Copy(&s, TF_TString_GetDataPointer(&s) + 1, 3);
    check(&s, TF_TSTR_SMALL, 22, "vwx");
}

MR_TEST(tstring_copy_keeps_nuls)
{
    TF_TString s = text("");
    TF_TString_Copy(&s, "a\0b", 3);
    MR_CHECK_INT(TF_TString_GetSize(&s), 3);
    MR_CHECK(memcmp(TF_TString_GetDataPointer(&s), "a\0b", 4) == 0);
}

MR_TEST(tstring_writing_to_a_view_copies_it_first)
{
    char shared[] = "abcdef";
    TF_TString s = text("");
    TF_TString_AssignView(&s, shared, 6);
    TF_TString_GetMutableDataPointer(&s)[0] = 'X';
    check(&s, TF_TSTR_SMALL, 22, "Xbcdef");
    MR_CHECK_STR(shared, "abcdef");
}

MR_TEST(tstring_writing_to_an_offset_copies_it_first)
{
    packed p = offset_text(LONG_TEXT);
    TF_TString_GetMutableDataPointer(&p.s)[0] = 'X';
    check(&p.s, TF_TSTR_LARGE, 63,
          "X"
          "bcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIKLMNO");
    MR_CHECK_INT(p.text[0], 'a');
    TF_TString_Dealloc(&p.s);
}

MR_TEST(tstring_assign_copies_what_is_owned_and_views_the_rest)
{
    TF_TString dst = text(""), large = text(LONG_TEXT), view = text("");
    packed p = offset_text("packed");
    TF_TString_Assign(&dst, &large);
    MR_CHECK(TF_TString_GetDataPointer(&dst) != TF_TString_GetDataPointer(&large));
    check(&dst, TF_TSTR_LARGE, 63, LONG_TEXT);
    TF_TString_AssignView(&view, LONG_TEXT, 3);
    TF_TString_Assign(&dst, &view); /* frees the copy */
    check(&dst, TF_TSTR_VIEW, 0, "abc");
    TF_TString_Assign(&dst, &p.s);
    check(&dst, TF_TSTR_VIEW, 0, "packed");
    MR_CHECK(TF_TString_GetDataPointer(&dst) == p.text);
    TF_TString_Assign(&large, &large);
    check(&large, TF_TSTR_LARGE, 63, LONG_TEXT);
    TF_TString_Dealloc(&large);
}

MR_TEST(tstring_move_empties_the_source)
{
    TF_TString src = text(LONG_TEXT), dst = text(LONG_TEXT LONG_TEXT);
    const char *heap = TF_TString_GetDataPointer(&src);
    TF_TString_Move(&dst, &src); /* frees what dst held */
    check(&src, TF_TSTR_SMALL, 22, "");
    check(&dst, TF_TSTR_LARGE, 63, LONG_TEXT);
    MR_CHECK(TF_TString_GetDataPointer(&dst) == heap);
    TF_TString_Move(&dst, &dst);
    check(&dst, TF_TSTR_LARGE, 63, LONG_TEXT);
    TF_TString_Dealloc(&dst);
}

MR_TEST(tstring_move_of_an_offset_gives_a_view)
{
    TF_TString dst = text("");
    packed p = offset_text("packed");
    TF_TString_Move(&dst, &p.s);
    check(&dst, TF_TSTR_VIEW, 0, "packed");
    check(&p.s, TF_TSTR_SMALL, 22, "");
}

MR_TEST(tstring_dealloc_leaves_an_empty_string_ready_for_use)
{
    TF_TString s = text(LONG_TEXT);
    TF_TString_Dealloc(&s);
    check(&s, TF_TSTR_SMALL, 22, "");
    TF_TString_Dealloc(&s);
    TF_TString_AssignView(&s, "abc", 3);
    TF_TString_Dealloc(&s);
    check(&s, TF_TSTR_SMALL, 22, "");
}

/* ---- garbage ---- */

MR_TEST(tstring_small_size_beyond_its_room_is_cut)
{
    TF_TString s;
    memset(&s, 0xfc, sizeof(s)); /* SMALL, 63 bytes */
    MR_CHECK_INT(TF_TString_GetSize(&s), 22);
    MR_CHECK(TF_TString_ResizeUninitialized(&s, 40) != NULL);
    TF_TString_Dealloc(&s);
}

MR_TEST(tstring_pointing_nowhere_is_empty)
{
    TF_TString view = {.u.view = {8 << 2 | TF_TSTR_VIEW, NULL}};
    TF_TString large = {.u.large = {80 << 2 | TF_TSTR_LARGE, 95, NULL}};
    TF_TString dst = text("x");
    MR_CHECK_INT(TF_TString_GetSize(&view), 0);
    MR_CHECK_INT(TF_TString_GetSize(&large), 0);
    TF_TString_Append(&dst, &view);
    TF_TString_Append(&dst, &large);
    check(&dst, TF_TSTR_SMALL, 22, "x");
    TF_TString_Copy(&large, LONG_TEXT, 50);
    check(&large, TF_TSTR_LARGE, 63, LONG_TEXT);
    TF_TString_Dealloc(&large);
}

/* Any sequence of calls leaves the string equal to a plain array treated the same way. */
MR_TEST(tstring_random_calls_agree_with_a_plain_array)
{
    static char model[400], piece[64];
    size_t n = 0;
    TF_TString s = text("");
    for (int i = 0; i < 20000; i++) {
        uint64_t r = mr_test_random();
        size_t k = (r >> 8) % sizeof(piece);
        memset(piece, (int)('a' + (r >> 16) % 26), sizeof(piece));
        switch (r % 5) {
        case 0:
            TF_TString_Copy(&s, piece, k);
            memcpy(model, piece, n = k);
            break;
        case 1:
            if (n + k <= sizeof(model)) {
                TF_TString_AppendN(&s, piece, k);
                memcpy(model + n, piece, k);
                n += k;
            }
            break;
        case 2:
            k = (r >> 24) % sizeof(model);
            TF_TString_Resize(&s, k, '-');
            if (k > n)
                memset(model + n, '-', k - n);
            n = k;
            break;
        case 3:
            if (2 * n <= sizeof(model)) {
                TF_TString_Append(&s, &s);
                memcpy(model + n, model, n);
                n *= 2;
            }
            break;
        case 4:
            TF_TString_ReserveAmortized(&s, (r >> 24) % 500);
            break;
        }
        MR_CHECK_INT(TF_TString_GetSize(&s), n);
        MR_CHECK(memcmp(TF_TString_GetDataPointer(&s), model, n) == 0);
        MR_CHECK_INT(TF_TString_GetDataPointer(&s)[n], 0);
    }
    TF_TString_Dealloc(&s);
}

/* ---- what is exported ---- */

MR_TEST(tstring_exported_functions_do_the_same)
{
    TF_TString s;
    TF_StringInit(&s);
    TF_StringCopy(&s, LONG_TEXT, 50);
    MR_CHECK_INT(TF_StringGetType(&s), TF_TSTR_LARGE);
    MR_CHECK_INT(TF_StringGetSize(&s), 50);
    MR_CHECK_INT(TF_StringGetCapacity(&s), 63);
    MR_CHECK_STR(TF_StringGetDataPointer(&s), LONG_TEXT);
    TF_StringAssignView(&s, "abc", 3);
    check(&s, TF_TSTR_VIEW, 0, "abc");
    TF_StringDealloc(&s);
    check(&s, TF_TSTR_SMALL, 22, "");
}

MR_TEST(tstring_encoded_size_adds_the_varint)
{
    MR_CHECK_INT(TF_StringEncodedSize(0), 1);
    MR_CHECK_INT(TF_StringEncodedSize(127), 128);
    MR_CHECK_INT(TF_StringEncodedSize(128), 130);
    MR_CHECK_INT(TF_StringEncodedSize(16384), 16387);
    MR_CHECK(TF_StringEncodedSize(SIZE_MAX) == SIZE_MAX);
}

MR_TEST(tstring_encode_then_decode)
{
    char src[300], dst[310];
    const char *at;
    size_t n;
    TF_Status *status = TF_NewStatus();
    memset(src, 'x', sizeof(src));
    MR_CHECK_INT(TF_StringEncode(src, 300, dst, sizeof(dst), status), 302);
    MR_CHECK_INT(TF_GetCode(status), TF_OK);
    MR_CHECK(memcmp(dst, "\xac\x02xx", 4) == 0);
    MR_CHECK_INT(TF_StringDecode(dst, 302, &at, &n, status), 302);
    MR_CHECK_INT(TF_GetCode(status), TF_OK);
    MR_CHECK_INT(n, 300);
    MR_CHECK(at == dst + 2);
    TF_DeleteStatus(status);
}

MR_TEST(tstring_encode_refuses_a_short_destination)
{
    char dst[4];
    TF_Status *status = TF_NewStatus();
    MR_CHECK_INT(TF_StringEncode("abcd", 4, dst, 4, status), 0);
    MR_CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
    MR_CHECK_STR(TF_Message(status), "dst_len (4) too small to encode a 4-byte string");
    TF_DeleteStatus(status);
}

MR_TEST(tstring_decode_refuses_what_is_cut_short)
{
    static const struct {
        const char *p;
        size_t n;
    } bad[] = {
        {"", 0},
        {"\x05"
         "abc",
         4},
        {"\x80", 1},
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
         "abc",
         13}, /* a length of 2^64 - 1 */
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"
         "abc",
         13}, /* more than 64 bits */
    };
    TF_Status *status = TF_NewStatus();
    for (int i = 0; i < 5; i++) {
        const char *at = NULL;
        size_t n = 0;
        MR_CHECK_INT(TF_StringDecode(bad[i].p, bad[i].n, &at, &n, status), 0);
        MR_CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
        MR_CHECK(at == NULL);
    }
    TF_DeleteStatus(status);
}
