/* net/task_name_test.c -- the names of tasks as they stand in certificates. */
#include "net/task_name.h"

#include "tests/harness/test.h"

static void check(const char *name, const char *host)
{
    mr_str out = {0}, back = {0};
    MR_CHECK(mr_task_name_encode(name, &out));
    MR_CHECK_STR(mr_str_z(&out), host);
    MR_CHECK(mr_task_name_decode(mr_str_view(&out), &back));
    MR_CHECK_STR(mr_str_z(&back), name);
    mr_str_deinit(&out);
    mr_str_deinit(&back);
}

MR_TEST(task_names_become_host_names_and_back)
{
    check("ps/0", "task-0.ps.millrace");
    check("worker/123456789", "task-123456789.worker.millrace");
    check("My_Job/7", "task-7.-4dy-5f-4aob.millrace");
    check("launcher", "name.launcher.millrace");
    check("a/b/3", "task-3.a-2fb.millrace");
    check("\xc3\xa9/1", "task-1.-c3-a9.millrace");
}

MR_TEST(task_names_that_are_none_are_refused)
{
    static const char *const bad[] = {"", "/0", "ps/", "ps/x", "ps/01", "ps/-1", "ps/1234567890"};
    mr_str out = {0};
    for (int i = 0; i < (int)(sizeof(bad) / sizeof(bad[0])); i++)
        MR_CHECK(!mr_task_name_encode(bad[i], &out));
    mr_str_deinit(&out);
}

MR_TEST(task_names_are_not_read_from_other_host_names)
{
    static const char *const bad[] = {"",
                                      ".millrace",
                                      "member.millrace",
                                      "example.com",
                                      "task-0.ps.example.com",
                                      "task-.ps.millrace",
                                      "task-00.ps.millrace",
                                      "task-0.millrace",
                                      "task-0..millrace",
                                      "task-0.p_s.millrace",
                                      "task-0.PS.millrace",
                                      "task-0.ps-.millrace",
                                      "task-0.ps-4.millrace",
                                      "task-0.ps-4G.millrace",
                                      "task-0.ps-00.millrace",
                                      "task-0.a.b.millrace",
                                      "name..millrace"};
    for (int i = 0; i < (int)(sizeof(bad) / sizeof(bad[0])); i++) {
        mr_str out = {0};
        if (mr_task_name_decode(mr_sv_of(bad[i]), &out))
            mr_test_fail(__FILE__, __LINE__, "%s is read as %s", bad[i], mr_str_z(&out));
        mr_str_deinit(&out);
    }
}
