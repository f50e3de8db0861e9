/* base/nearest_test.c */
#include "base/nearest.h"

#include "tests/harness/test.h"

MR_TEST(nearest_finds_the_word_that_was_meant)
{
    static const char *const words[] = {"model", "file", "feeds", "fetches", "targets"};
    MR_CHECK_STR(mr_nearest(MR_SV("modle"), words, 5), "model");
    MR_CHECK_STR(mr_nearest(MR_SV("feches"), words, 5), "fetches");
    MR_CHECK_STR(mr_nearest(MR_SV("target"), words, 5), "targets");
    MR_CHECK_STR(mr_nearest(MR_SV("feeds"), words, 5), "feeds");
    MR_CHECK(!mr_nearest(MR_SV("colour"), words, 5));
    MR_CHECK(!mr_nearest(MR_SV(""), words, 5));
    MR_CHECK(!mr_nearest(MR_SV("a_word_that_is_much_longer_than_any_key_of_any_plan_will_ever_be"), words, 5));
}
