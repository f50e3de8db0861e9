/* sim/train/job_fixture.c */
#include "sim/train/job_fixture.h"

#include "tests/harness/test.h"

mr_simtrain_result mr_simtrain_must_run(const mr_simtrain_job *j)
{
    mr_simtrain_result r;
    MR_CHECK_OK(mr_simtrain_run(j, &r));
    return r;
}

void mr_simtrain_must_print(const mr_simtrain_job *j, const mr_simtrain_result *r, const char *text)
{
    mr_str out = {0};
    mr_simtrain_print(j, r, &out);
    if (!strstr(mr_str_z(&out), text))
        mr_test_fail(__FILE__, __LINE__, "'%s' is not in: %s", text, mr_str_z(&out));
    mr_str_deinit(&out);
}
