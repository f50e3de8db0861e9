#include "wire/number.h"

#include <float.h>
#include <locale.h>

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

MR_TEST(number_ignores_the_locale)
{
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8"))
        mr_test_skip("no locale with a decimal comma");
    double v = 0;
    MR_CHECK_STR(float_text(0.5f), "0.5");
    MR_CHECK(mr_text_to_double(MR_SV("0.5"), &v) && v == 0.5);
}
