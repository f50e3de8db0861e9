/* wire/json_test.c */
#include "wire/json.h"

#include "tests/harness/test.h"

static mr_status *skim(const char *text)
{
    mr_json j;
    mr_json_init(&j, mr_sv_of(text));
    mr_json_skip(&j);
    return mr_json_status(&j, "text");
}

MR_TEST(json_takes_what_is_right)
{
    static const char *const good[] = {"{}", "[]", " [ 1 , -2.5e+3, \"a\\u00e4\\ud83d\\ude00\" ] ", "{\"a\":{\"b\":[true,false,null]}}",
                                       "0", "-0.0", "\"\"", "1e9"};
    for (int i = 0; i < (int)(sizeof good / sizeof *good); i++)
        MR_CHECK_OK(skim(good[i]));
}

MR_TEST(json_refuses_what_is_wrong)
{
    static const char *const bad[] = {"", "{", "[1,]", "{\"a\" 1}", "{a:1}", "01", "1.", "+1", "\"\\x\"", "\"\\ud800\"", "\"\n\"", "\"",
                                      "[1 2]", "tru", "1 2", "\"\\u0000\"", "{\"a\":1,}", "]", "nul", "-"};
    for (int i = 0; i < (int)(sizeof bad / sizeof *bad); i++)
        MR_CHECK_ERR(skim(bad[i]), MR_INVALID_ARGUMENT, "bad JSON at byte");
    char deep[200];
    memset(deep, '[', sizeof deep);
    deep[sizeof deep - 1] = 0;
    MR_CHECK_ERR(skim(deep), MR_INVALID_ARGUMENT, "nested too deep");
}

MR_TEST(json_gives_values)
{
    mr_json j;
    mr_str key = {0}, s = {0};
    mr_json_init(&j, MR_SV("{\"n\": -12, \"s\": \"\\u00e4\\n\\\"\", \"l\": [1.5, 2]}"));
    mr_json_begin(&j, '{');
    MR_CHECK(mr_json_key(&j, &key));
    MR_CHECK_STR(mr_str_z(&key), "n");
    MR_CHECK_INT(mr_json_int(&j), -12);
    MR_CHECK(mr_json_key(&j, &key));
    mr_json_string(&j, &s);
    MR_CHECK_STR(mr_str_z(&s), "\xc3\xa4\n\"");
    MR_CHECK(mr_json_key(&j, &key));
    mr_json_begin(&j, '[');
    MR_CHECK(mr_json_more(&j));
    MR_CHECK_NEAR(mr_json_number(&j), 1.5, 0);
    MR_CHECK(mr_json_more(&j));
    MR_CHECK_INT(mr_json_int(&j), 2);
    MR_CHECK(!mr_json_more(&j));
    MR_CHECK(!mr_json_key(&j, &key));
    MR_CHECK_OK(mr_json_status(&j, "text"));
    mr_str_clear(&s);
    mr_json_quote(&s, MR_SV("a\"\\\n"));
    MR_CHECK_STR(mr_str_z(&s), "\"a\\\"\\\\\\u000a\"");
    mr_str_deinit(&s);
    mr_str_deinit(&key);
}
