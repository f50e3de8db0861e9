#include <stdio.h>

#include "run/device.h"
#include "tests/harness/test.h"

/* Parses and prints again; NULL when it cannot be parsed. */
static const char *canonical(const char *text)
{
    static char buf[200];
    mr_device_name n;
    if (!mr_device_name_parse(mr_sv_of(text), &n))
        return NULL;
    mr_str s = {0};
    mr_device_name_print(&n, &s);
    snprintf(buf, sizeof(buf), "%s", mr_str_z(&s));
    mr_str_deinit(&s);
    return buf;
}

MR_TEST(device_name_prints_in_canonical_order)
{
    MR_CHECK_STR(canonical("/task:1/job:ps/device:CPU:0/replica:0"),
                 "/job:ps/replica:0/task:1/device:CPU:0");
    MR_CHECK_STR(canonical("/job:worker/task:3"), "/job:worker/task:3");
    MR_CHECK_STR(canonical("/device:GPU"), "/device:GPU:*");
    MR_CHECK_STR(canonical("/device:GPU:*"), "/device:GPU:*");
    MR_CHECK_STR(canonical("/job:*/replica:*/task:*"), "");
    MR_CHECK_STR(canonical(""), "");
    MR_CHECK_STR(canonical("/"), "");
}

MR_TEST(device_name_accepts_legacy_and_local_forms)
{
    MR_CHECK_STR(canonical("/cpu:0"), "/device:CPU:0");
    MR_CHECK_STR(canonical("/job:a/gpu:2"), "/job:a/device:GPU:2");
    MR_CHECK_STR(canonical("CPU:1"), "/device:CPU:1");
    MR_CHECK_STR(canonical("cpu:1"), "/device:CPU:1");
}

MR_TEST(device_name_rejects_what_is_none)
{
    const char *bad[] = {"/jobs:a",
                         "/job:",
                         "/job:1a",
                         "/task:x",
                         "/replica:-1",
                         "/device:",
                         "/device:CPU:x",
                         "CPU",
                         "CPU:0/task:1",
                         "//",
                         "/task:99999999999999999999",
                         "/job:a b",
                         "/cpu:"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (canonical(bad[i]))
            mr_test_fail(__FILE__, __LINE__, "'%s' was accepted", bad[i]);
}

static mr_device_name parsed(const char *text)
{
    mr_device_name n;
    MR_CHECK(mr_device_name_parse(mr_sv_of(text), &n));
    return n;
}

MR_TEST(device_name_matches_by_specified_parts)
{
    mr_device_name full = parsed("/job:ps/replica:0/task:1/device:CPU:0");
    MR_CHECK(mr_device_name_full(&full));
    const char *yes[] = {"", "/job:ps", "/task:1", "/device:CPU", "/cpu:0"};
    const char *no[] = {"/job:worker", "/task:0", "/device:GPU", "/cpu:1", "/device:cpu:0"};
    for (int i = 0; i < 5; i++) {
        mr_device_name p = parsed(yes[i]), q = parsed(no[i]);
        MR_CHECK(mr_device_name_matches(&p, &full));
        MR_CHECK(!mr_device_name_matches(&q, &full));
    }
    mr_device_name partial = parsed("/job:ps");
    MR_CHECK(!mr_device_name_matches(&full, &partial));
}

MR_TEST(device_name_merge_joins_parts)
{
    mr_device_name a = parsed("/job:ps"), b = parsed("/task:2/device:CPU:1");
    MR_CHECK_OK(mr_device_name_merge(&a, &b, false));
    mr_str s = {0};
    mr_device_name_print(&a, &s);
    MR_CHECK_STR(mr_str_z(&s), "/job:ps/task:2/device:CPU:1");
    mr_str_deinit(&s);
}

MR_TEST(device_name_merge_refuses_conflicts)
{
    mr_device_name a = parsed("/job:ps/device:CPU:1"), job = parsed("/job:worker"),
                   type = parsed("/device:GPU:1"), id = parsed("/cpu:0");
    MR_CHECK_ERR(mr_device_name_merge(&a, &job, false), MR_INVALID_ARGUMENT, "jobs");
    MR_CHECK_ERR(mr_device_name_merge(&a, &job, true), MR_INVALID_ARGUMENT, "jobs");
    MR_CHECK_ERR(mr_device_name_merge(&a, &type, false), MR_INVALID_ARGUMENT, "types");
    MR_CHECK_ERR(mr_device_name_merge(&a, &id, false), MR_INVALID_ARGUMENT, "ids");
}

MR_TEST(device_name_soft_merge_drops_type_or_id)
{
    mr_device_name a = parsed("/job:ps/device:CPU:1"), b = a, gpu = parsed("/device:GPU:1"),
                   id = parsed("/cpu:0");
    MR_CHECK_OK(mr_device_name_merge(&a, &gpu, true));
    MR_CHECK(!a.has_type && a.id == -1 && a.has_job);
    MR_CHECK_OK(mr_device_name_merge(&b, &id, true));
    MR_CHECK(b.has_type && b.id == -1);
}
