#include "wire/snappy.h"

#include "base/memory.h"
#include "tests/harness/test.h"

/* The block decodes to this text. */
#define DECODES(block, text)                                   \
    do {                                                       \
        mr_str got = {0};                                      \
        MR_CHECK_OK(mr_snappy_uncompress(MR_SV(block), &got)); \
        MR_CHECK(mr_sv_eq(mr_str_view(&got), MR_SV(text)));    \
        mr_str_deinit(&got);                                   \
    } while (0)

#define FAILS(block, text)                                                          \
    do {                                                                            \
        mr_str got = {0};                                                           \
        mr_str_appendz(&got, "kept");                                               \
        MR_CHECK_ERR(mr_snappy_uncompress(MR_SV(block), &got), MR_DATA_LOSS, text); \
        MR_CHECK_STR(mr_str_z(&got), "kept");                                       \
        mr_str_deinit(&got);                                                        \
    } while (0)

MR_TEST(snappy_empty_block) { DECODES("\0", ""); }

MR_TEST(snappy_literal) { DECODES("\x05\x10hello", "hello"); }

MR_TEST(snappy_literal_with_length_byte) { DECODES("\x03\xf0\002abc", "abc"); }

MR_TEST(snappy_copies_of_each_kind)
{
    DECODES("\x08\014abcd\x01\x04", "abcdabcd");     /* 1 byte of offset */
    DECODES("\x07\014abcd\x0a\x03\0", "abcdbcd");    /* 2 bytes */
    DECODES("\x06\014abcd\x07\x04\0\0\0", "abcdab"); /* 4 bytes */
}

MR_TEST(snappy_overlapping_copy_repeats) { DECODES("\x0a\0x\x22\x01\0", "xxxxxxxxxx"); }

MR_TEST(snappy_one_byte_offset_has_eleven_bits)
{
    mr_str block = {0}, out = {0}, text = {0};
    for (int i = 0; i < 600; i++)
        mr_str_appendc(&text, (char)(i * 7 % 251));
    mr_str_append(&block, "\xdc\x04\xf4\x57\x02", 5); /* 604 bytes; a literal of 600 */
    mr_str_append(&block, text.p, text.n);
    mr_str_append(&block, "\x41\x58", 2); /* 4 bytes from 2 << 8 | 0x58 = 600 back */
    mr_str_append(&text, text.p, 4);
    MR_CHECK_OK(mr_snappy_uncompress(mr_str_view(&block), &out));
    MR_CHECK(mr_sv_eq(mr_str_view(&out), mr_str_view(&text)));
    mr_str_deinit(&block);
    mr_str_deinit(&out);
    mr_str_deinit(&text);
}

MR_TEST(snappy_rejects_bad_lengths)
{
    FAILS("", "bad length");
    FAILS("\x80", "bad length");
    FAILS("\xff\xff\xff\xff\x7f\x04xx", "bad length");
    FAILS("\xff\xff\xff\xff\x0f\x04xx", "cannot hold");
    FAILS("\x03\x04hi", "shorter than its length");
    FAILS("\x01\x04hi", "literal longer than the output");
}

MR_TEST(snappy_rejects_truncated_elements)
{
    FAILS("\x05\x10hell", "literal cut short");
    FAILS("\x05\xf4\x01", "literal length cut short");
    FAILS("\x05\xfc\xff\xff\xff\xff", "literal cut short");
    FAILS("\x08\014abcd\x01", "copy cut short");
    FAILS("\x08\014abcd\x02\x01", "copy cut short");
    FAILS("\x08\014abcd\x03\x01\0\0", "copy cut short");
}

MR_TEST(snappy_rejects_copies_from_outside)
{
    FAILS("\x08\014abcd\x01\x05", "copy from before the output");
    FAILS("\x08\014abcd\x01\x00", "copy from before the output");
    FAILS("\x08\014abcd\x0f\xff\xff\xff\xff", "copy from before the output");
    FAILS("\x06\014abcd\x01\x04", "copy longer than the output");
}

MR_TEST(snappy_refused_memory_is_a_status)
{
    mr_str s = {0};
    mr_str block = {0};
    mr_str_append(&block, "\xc8\x01\xf0\xc7", 4); /* a literal of 200 bytes: one exact allocation */
    for (int i = 0; i < 200; i++)
        mr_str_appendc(&block, 'a');
    mr_memory_fail_after(1);
    MR_CHECK_ERR(mr_snappy_uncompress(mr_str_view(&block), &s), MR_RESOURCE_EXHAUSTED, "no memory");
    MR_CHECK_OK(mr_snappy_uncompress(mr_str_view(&block), &s));
    MR_CHECK_INT(s.n, 200);
    mr_str_deinit(&s);
    mr_str_deinit(&block);
}

MR_TEST(snappy_random_blocks_do_no_harm)
{
    for (int i = 0; i < 20000; i++) {
        size_t n = 1 + mr_test_random() % 40;
        char *block = mr_alloc(n);
        mr_str out = {0};
        for (size_t k = 0; k < n; k++)
            block[k] = (char)(mr_test_random() % (i % 2 ? 256 : 64));
        mr_status_free(mr_snappy_uncompress((mr_sv){block, n}, &out));
        mr_str_deinit(&out);
        mr_free(block);
    }
}

/* ---- compression ---- */

/* What comes back is what went in; returns the size of the block. */
static size_t there_and_back(const void *p, size_t n)
{
    mr_str block = {0}, back = {0};
    mr_str_appendz(&block, "kept");
    MR_CHECK_OK(mr_snappy_compress((mr_sv){p, n}, &block));
    size_t size = block.n - 4;
    MR_CHECK(memcmp(block.p, "kept", 4) == 0 && size <= mr_snappy_most(n));
    MR_CHECK_OK(mr_snappy_uncompress((mr_sv){block.p + 4, size}, &back));
    MR_CHECK(mr_sv_eq(mr_str_view(&back), (mr_sv){p, n}));
    mr_str_deinit(&block);
    mr_str_deinit(&back);
    return size;
}

MR_TEST(snappy_compresses_runs_of_every_length)
{
    static char run[140000];
    for (size_t n = 0; n < 300; n++)
        there_and_back(run, n);
    MR_CHECK(there_and_back(run, sizeof run) < sizeof run / 20);
    MR_CHECK(there_and_back(run, 65536) < 65536 / 20);
    there_and_back(run, 65537);
}

MR_TEST(snappy_compresses_what_repeats_at_any_distance)
{
    static uint8_t bytes[70000];
    for (size_t period = 1; period < 70000; period = period * 3 / 2 + 1) {
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = i < period ? (uint8_t)mr_test_random() : bytes[i - period];
        size_t size = there_and_back(bytes, sizeof bytes);
        MR_CHECK(period > 20000 || size < sizeof bytes * 2 / 3);
    }
}

MR_TEST(snappy_hardly_grows_what_it_cannot_compress)
{
    static uint8_t bytes[200000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(mr_test_random() >> 20);
    MR_CHECK(there_and_back(bytes, sizeof bytes) < sizeof bytes + 100);
}

MR_TEST(snappy_compresses_mixed_bytes)
{
    for (int round = 0; round < 300; round++) {
        uint8_t bytes[4000];
        size_t n = mr_test_random() % sizeof bytes, i = 0;
        while (i < n) {
            size_t len = 1 + mr_test_random() % 90, back = i ? 1 + mr_test_random() % i : 0;
            bool copy = back && mr_test_random() % 2;
            for (; len > 0 && i < n; len--, i++)
                bytes[i] = copy ? bytes[i - back] : (uint8_t)mr_test_random();
        }
        there_and_back(bytes, n);
    }
}
