/* ops/string/as_string_test.c -- numbers read from text have the bits that the C library gives them. */
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "ops/string/strings.h"
#include "tests/harness/test.h"

static void check_number(const char *text)
{
    mr_tensor *f, *d;
    MR_CHECK_OK(mr_tensor_zeros(NULL, MR_FLOAT, 0, NULL, &f));
    MR_CHECK_OK(mr_tensor_zeros(NULL, MR_DOUBLE, 0, NULL, &d));
    float want_f = strtof(text, NULL);
    double want_d = strtod(text, NULL);
    MR_CHECK(mr_string_to_number(mr_sv_of(text), f, 0));
    MR_CHECK(mr_string_to_number(mr_sv_of(text), d, 0));
    if (memcmp(f->data, &want_f, sizeof want_f) || memcmp(d->data, &want_d, sizeof want_d))
        mr_test_fail(__FILE__, __LINE__, "%s: %a and %a", text, (double)MR_DATA(float, f)[0], MR_DATA(double, d)[0]);
    mr_tensor_unref(f);
    mr_tensor_unref(d);
}

MR_TEST(string_to_number_rounds_as_strtod)
{
    static const char *const texts[] = {"0",        "-0",        "-0.0",       "0.",        ".5",
                                        "-.25",     "16777216",  "16777217",   "16777219",  "33554433",
                                        "1677721.6", "0000000000000000000001.5", "9007199254740992", "9007199254740993",
                                        "0.0000000001", "0.00000000001", "1e5", "-1.5e-3", "18446744073709551616"};
    for (int i = 0; i < MR_COUNT(texts); i++)
        check_number(texts[i]);
    for (int i = 0; i < 20000; i++) {
        char text[64];
        int digits = 1 + (int)(mr_test_random() % 18), point = (int)(mr_test_random() % 20), n = 0;
        if (mr_test_random() % 2)
            text[n++] = '-';
        for (int k = 0; k < digits; k++) {
            if (k == point)
                text[n++] = '.';
            text[n++] = (char)('0' + mr_test_random() % 10);
        }
        text[n] = '\0';
        check_number(text);
    }
}

MR_TEST(string_to_number_refuses_what_is_no_number)
{
    static const char *const texts[] = {".", "-", "-.", "1.2.3", "1-", "--1", "1 2", "1,5", ""};
    mr_tensor *f;
    MR_CHECK_OK(mr_tensor_zeros(NULL, MR_FLOAT, 0, NULL, &f));
    for (int i = 0; i < MR_COUNT(texts); i++)
        MR_CHECK(!mr_string_to_number(mr_sv_of(texts[i]), f, 0));
    mr_tensor_unref(f);
}
