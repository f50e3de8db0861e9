/* dist/synchrony_test.c -- the texts for how workers are synchronized. */
#include "dist/synchrony.h"

#include "tests/harness/test.h"

MR_TEST(synchrony_messages_are_read)
{
    const struct {
        const char *text;
        mr_synchrony is;
    } all[] = {
        {"async", {0}},
        {"sync", {.together = true}},
        {"backup", {.together = true, .adaptive = true}},
        {"backup:2", {.together = true, .n = 2}},
        {"bounded", {.bounded = true, .adaptive = true}},
        {"bounded:0", {.bounded = true}},
        {"bounded:1000000", {.bounded = true, .n = 1000000}},
        {"all_reduce", {.all_reduce = true}},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        mr_synchrony s;
        MR_CHECK_OK(mr_synchrony_parse(mr_sv_of(all[i].text), &s));
        MR_CHECK(s.together == all[i].is.together && s.adaptive == all[i].is.adaptive && s.bounded == all[i].is.bounded &&
                 s.all_reduce == all[i].is.all_reduce);
        MR_CHECK_INT(s.n, all[i].is.n);
    }
}

MR_TEST(synchrony_refuses_other_messages)
{
    const char *const bad[] = {"", "Sync", "sync:1", "backup:", "backup:x", "backup:-1", "bounded:9999999", "bounded:1 ",
                               "bounded:99999999999999999999", "backups", "asynch", "all_reduce:2", "all", "\377"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        mr_synchrony s;
        MR_CHECK_ERR(mr_synchrony_parse(mr_sv_of(bad[i]), &s), MR_INVALID_ARGUMENT, "backup:K");
    }
}
