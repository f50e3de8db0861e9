#include "wire/crc32c.h"

#include "base/file.h"
#include "base/memory.h"
#include "proto/event.pb-c.h"
#include "tests/harness/test.h"
#include "wire/message.h"

MR_TEST(crc32c_of_the_check_text)
{
    MR_CHECK_INT(mr_crc32c("123456789", 9), 0xE3069283u);
    MR_CHECK_INT(mr_crc32c_extend_portable(0, "123456789", 9), 0xE3069283u);
}

/* The samples of RFC 3720, B.4. */
MR_TEST(crc32c_of_the_iscsi_samples)
{
    uint8_t b[32];
    memset(b, 0, sizeof(b));
    MR_CHECK_INT(mr_crc32c(b, sizeof(b)), 0x8A9136AAu);
    memset(b, 0xFF, sizeof(b));
    MR_CHECK_INT(mr_crc32c(b, sizeof(b)), 0x62A8AB43u);
    for (int i = 0; i < 32; i++)
        b[i] = (uint8_t)i;
    MR_CHECK_INT(mr_crc32c(b, sizeof(b)), 0x46DD794Eu);
    for (int i = 0; i < 32; i++)
        b[i] = (uint8_t)(31 - i);
    MR_CHECK_INT(mr_crc32c(b, sizeof(b)), 0x113FDB5Cu);
}

MR_TEST(crc32c_both_ways_agree_at_every_length_and_alignment)
{
    uint8_t b[800]; /* long ones are computed in another way than short ones */
    for (size_t i = 0; i < sizeof(b); i++)
        b[i] = (uint8_t)mr_test_random();
    for (size_t from = 0; from < 9; from++)
        for (size_t n = 0; from + n <= sizeof(b); n++)
            for (uint32_t crc = 0; crc < 3; crc++)
                MR_CHECK_INT(mr_crc32c_extend(crc * 0x12345678, b + from, n),
                             mr_crc32c_extend_portable(crc * 0x12345678, b + from, n));
}

MR_TEST(crc32c_extends_over_any_cut)
{
    const char text[] = "the quick brown fox jumps over the lazy dog";
    uint32_t whole = mr_crc32c(text, sizeof(text));
    for (size_t cut = 0; cut <= sizeof(text); cut++)
        MR_CHECK_INT(mr_crc32c_extend(mr_crc32c(text, cut), text + cut, sizeof(text) - cut), whole);
}

MR_TEST(crc32c_mask_of_nothing_is_the_constant)
{
    MR_CHECK_INT(mr_crc32c(NULL, 0), 0);
    MR_CHECK_INT(mr_crc32c_mask(0), 0xA282EAD8u);
}

MR_TEST(crc32c_unmask_undoes_mask)
{
    for (int i = 0; i < 1000; i++) {
        uint32_t c = (uint32_t)mr_test_random();
        MR_CHECK_INT(mr_crc32c_unmask(mr_crc32c_mask(c)), c);
        MR_CHECK(mr_crc32c_mask(c) != c);
    }
}

static uint32_t stored(const char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof(v));
    return v;
}

/* length (8), its checksum (4), data, its checksum (4) */
static void check_event_file(const char *golden, const char *file)
{
    mr_str s = {0};
    char *path = mr_printf("%s/events/%s", golden, file);
    MR_CHECK_OK(mr_file_read_all(path, &s));
    int n_records = 0;
    for (size_t at = 0; at < s.n; n_records++) {
        uint64_t n;
        MR_CHECK(s.n - at >= 16);
        memcpy(&n, s.p + at, sizeof(n));
        MR_CHECK(n <= s.n - at - 16);
        MR_CHECK_INT(mr_crc32c_mask(mr_crc32c(s.p + at, 8)), stored(s.p + at + 8));
        MR_CHECK_INT(mr_crc32c_mask(mr_crc32c(s.p + at + 12, n)), stored(s.p + at + 12 + n));
        ProtobufCMessage *event = NULL;
        MR_CHECK_OK(mr_message_unpack(&tensorflow__event__descriptor, (mr_sv){s.p + at + 12, n},
                                      "Event", &event));
        mr_message_free(event);
        at += 16 + n;
    }
    MR_CHECK(n_records > 1);
    mr_free(path);
    mr_str_deinit(&s);
}

MR_TEST(crc32c_agrees_with_the_records_of_a_golden_event_file)
{
    check_event_file(mr_test_golden(), "events.out.tfevents.1600000000.host");
}

MR_TEST(crc32c_agrees_with_the_records_of_an_event_file_of_tensorflow)
{
    check_event_file(mr_test_tensorflow_golden(), "events.out.tfevents.cifar");
}
