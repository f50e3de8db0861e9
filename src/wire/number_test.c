#include "wire/number.h"

#include <float.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "tests/harness/test.h"

static const char *float_text(float v)
{
    static char buf[MR_NUMBER_BYTES];
    MR_CHECK_INT(mr_float_text(v, buf), strlen(buf));
    return buf;
}

static const char *double_text(double v)
{
    static char buf[MR_NUMBER_BYTES];
    MR_CHECK_INT(mr_double_text(v, buf), strlen(buf));
    return buf;
}

MR_TEST(number_float_is_short_where_six_digits_do)
{
    MR_CHECK_STR(float_text(1), "1");
    MR_CHECK_STR(float_text(0.1f), "0.1");
    MR_CHECK_STR(float_text(-2.5f), "-2.5");
    MR_CHECK_STR(float_text(1e10f), "1e+10");
    MR_CHECK_STR(float_text(0.0f), "0");
    MR_CHECK_STR(float_text(-0.0f), "-0");
}

MR_TEST(number_float_takes_nine_digits_where_six_lose)
{
    MR_CHECK_STR(float_text(0.333333343f), "0.333333343");
    MR_CHECK_STR(float_text(FLT_MAX), "3.40282347e+38");
    MR_CHECK_STR(float_text(16777217.0f), "16777216");
}

MR_TEST(number_double_is_short_where_fifteen_digits_do)
{
    MR_CHECK_STR(double_text(0.1), "0.1");
    MR_CHECK_STR(double_text(1.0 / 3), "0.33333333333333331");
    MR_CHECK_STR(double_text(1e100), "1e+100");
    MR_CHECK_STR(double_text(DBL_MAX), "1.7976931348623157e+308");
}

MR_TEST(number_without_digits_has_a_name)
{
    MR_CHECK_STR(float_text(INFINITY), "inf");
    MR_CHECK_STR(double_text(-INFINITY), "-inf");
    MR_CHECK_STR(double_text(NAN), "nan");
    MR_CHECK_STR(float_text(-NAN), "nan");
}

MR_TEST(number_floats_of_all_sizes_read_back)
{
    for (int i = 0; i < 20000; i++) {
        uint32_t bits = (uint32_t)mr_test_random();
        float v;
        double back = 0;
        memcpy(&v, &bits, sizeof(v));
        MR_CHECK(mr_text_to_double(mr_sv_of(float_text(v)), &back));
        float f = (float)back;
        MR_CHECK(isnan(v) ? isnan(f) : memcmp(&f, &v, sizeof(v)) == 0);
    }
}

MR_TEST(number_doubles_of_all_sizes_read_back)
{
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = mr_test_random() ^ mr_test_random() << 32;
        double v, back = 0;
        memcpy(&v, &bits, sizeof(v));
        MR_CHECK(mr_text_to_double(mr_sv_of(double_text(v)), &back));
        MR_CHECK(isnan(v) ? isnan(back) : memcmp(&back, &v, sizeof(v)) == 0);
    }
}

MR_TEST(number_text_must_be_a_number_as_a_whole)
{
    double v = 7;
    MR_CHECK(!mr_text_to_double(MR_SV(""), &v));
    MR_CHECK(!mr_text_to_double(MR_SV("1x"), &v));
    MR_CHECK(!mr_text_to_double(MR_SV("x"), &v));
    MR_CHECK(!mr_text_to_double(MR_SV("1\0"), &v));
    MR_CHECK(v == 7);
    MR_CHECK(mr_text_to_double(MR_SV("1e400"), &v) && isinf(v));
    MR_CHECK(mr_text_to_double(
        MR_SV("0.000000000000000000000000000000000000000000000000000000000000000000"
              "00000000000000000000000000005"),
        &v));
    MR_CHECK(v > 0 && v < 1e-80);
}

/* A locale with a decimal comma, as localedef(1) compiles it: this machine may have none. */
static void set_comma_locale(void)
{
    static const char numeric[] = "\x14\x11\x03\x20\x06\0\0\0\x20\0\0\0\x22\0\0\0\x24\0\0\0\x28\0\0\0\x2c\0\0\0\x30\0\0\0"
                                  ",\0.\0\x03\x03\0\0,\0\0\0.\0\0\0ANSI_X3.4-1968";
    char *folder = mr_printf("%s/comma", mr_test_dir()), *file = mr_printf("%s/LC_NUMERIC", folder);
    MR_CHECK_INT(mkdir(folder, 0700), 0);
    FILE *f = fopen(file, "wb");
    MR_CHECK(f && fwrite(numeric, 1, sizeof numeric, f) == sizeof numeric && fclose(f) == 0);
    setenv("LOCPATH", mr_test_dir(), 1);
    MR_CHECK(setlocale(LC_NUMERIC, "comma") != NULL);
    MR_CHECK_STR(localeconv()->decimal_point, ",");
    mr_free(folder);
    mr_free(file);
}

MR_TEST(number_ignores_the_locale)
{
    set_comma_locale();
    double v = 0;
    MR_CHECK_STR(float_text(0.5f), "0.5");
    MR_CHECK(mr_text_to_double(MR_SV("0.5"), &v) && v == 0.5);
}
