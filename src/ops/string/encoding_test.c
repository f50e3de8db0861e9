/* ops/string/encoding_test.c -- texts in encodings that ICU decodes. */
#include <stdlib.h>

#include "ops/io/file_example_fixture.h"
#include "ops/string/encoding.h"
#include "ops/string/icu.h"

MR_TEST(encoding_without_its_library_says_what_is_missing)
{
    mr_encoding *e;
    setenv("MILLRACE_ICU_LIB", "/nowhere/libmillrace-icu.so", 1);
    MR_CHECK_ERR(mr_encoding_open(MR_SV("SHIFT-JIS"), &e), MR_INVALID_ARGUMENT,
                 "Could not create converter for input encoding: SHIFT-JIS; it needs libmillrace-icu.so");
    MR_CHECK_OK(mr_encoding_open(MR_SV("UTF-8"), &e));
    mr_encoding_close(e);
    unsetenv("MILLRACE_ICU_LIB");
    MR_CHECK_OK(mr_encoding_open(MR_SV("SHIFT-JIS"), &e)); /* the library is found once it exists */
    mr_encoding_close(e);
}

MR_TEST(encoding_unknown_to_icu_is_refused_by_name)
{
    mr_encoding *e;
    MR_CHECK_ERR(mr_encoding_open(MR_SV("invalid"), &e), MR_INVALID_ARGUMENT,
                 "Could not create converter for input encoding: invalid");
    MR_CHECK_ERR(mr_encoding_open(MR_SV(""), &e), MR_INVALID_ARGUMENT,
                 "Could not create converter for input encoding: ");
    MR_CHECK_ERR(mr_encoding_open((mr_sv){"big5\0x", 6}, &e), MR_INVALID_ARGUMENT, "Could not create converter");
}

/* 0x5c is a backslash, as ICU's Shift-JIS has it. */
MR_TEST(encoding_shift_jis_is_read_as_icu_does)
{
#define JIS "input_encoding=\"SHIFT-JIS\" "
    mr_file_examples_begin();
    MR_CHECK_TOLD("UnicodeDecode", JIS ": [\"\x82\xb1\x82\xf1\\x5c\xb1\", \"\"] -> [0, 4, 4], [12371, 12435, 92, "
                                       "65393]");
    MR_CHECK_TOLD("UnicodeDecodeWithOffsets",
                  JIS ": [\"a\x82\xb1z\", \"\x82\xf1\"] -> [0, 3, 4], [97, 12371, 122, 12435], [0, 1, 3, 0]");
    MR_CHECK_TOLD("UnicodeTranscode", JIS "output_encoding=\"UTF-8\": [\"\x83\x8b\"] -> [\"\xe3\x83\xab\"]");
    MR_CHECK_TOLD("UnicodeTranscode", "input_encoding=\"gb18030\" output_encoding=\"UTF-16-BE\": \"\xd6\xd0\" -> "
                                      "\"\x4e\x2d\"");
    MR_CHECK_TOLD("UnicodeTranscode", "input_encoding=\"ibm-037\" output_encoding=\"UTF-8\": \"\xc1\xf1\" -> \"A1\"");
}

MR_TEST(encoding_malformed_bytes_of_icu_follow_the_attrs)
{
    mr_file_examples_begin();
    MR_CHECK_TOLD("UnicodeDecode", JIS ": \"a\x82\" -> [0, 2], [97, 65533]");
    MR_CHECK_TOLD("UnicodeDecode", JIS "replacement_char=63: \"\x82\\x20\x62\" -> [0, 3], [63, 32, 98]");
    MR_CHECK_TOLD("UnicodeDecode", JIS "errors=\"ignore\": \"a\xff\x62\" -> [0, 2], [97, 98]");
    MR_CHECK_TOLD("UnicodeDecode", JIS "errors=\"strict\": \"a\xff\" -> !INVALID_ARGUMENT Invalid formatting on "
                                       "input string");
    MR_CHECK_TOLD("UnicodeTranscode", JIS "output_encoding=\"UTF-8\" replace_control_characters=true "
                                          "replacement_char=32: \"\x82\xb1\\n\" -> \"\xe3\x81\x93 \"");
    /* An escape sequence without a character after it: ICU returns no character. */
    MR_CHECK_TOLD("UnicodeDecode", "input_encoding=\"ISO-2022-JP\": \"a\\x1b$B\" -> [0, 2], [97, 65535]");
    /* A shift state does not carry over to the next text. */
    MR_CHECK_TOLD("UnicodeDecode", "input_encoding=\"ISO-2022-JP\": [\"\\x1b$B$3\", \"$3\"] -> [0, 1, 3], [12371, "
                                   "36, 51]");
}
