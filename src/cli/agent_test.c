/* cli/agent_test.c */
#include "cli/agent.h"

#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"
#include "tests/harness/test.h"

MR_TEST(agent_records_come_out_as_they_went_in)
{
    mr_str s = {0};
    mr_agent_record kind;
    mr_sv bytes;
    mr_agent_put(&s, MR_AGENT_ARG, MR_SV("a\0b"));
    mr_agent_put(&s, MR_AGENT_GO, MR_SV(""));
    mr_sv rest = mr_str_view(&s);
    MR_CHECK(mr_agent_take(&rest, &kind, &bytes) && kind == MR_AGENT_ARG && mr_sv_eq(bytes, MR_SV("a\0b")));
    MR_CHECK(mr_agent_take(&rest, &kind, &bytes) && kind == MR_AGENT_GO && bytes.n == 0 && rest.n == 0);
    for (size_t n = 0; n < 8; n++) { /* cut anywhere, it is not there yet */
        mr_sv part = {s.p, n};
        MR_CHECK(!mr_agent_take(&part, &kind, &bytes) && part.n == n);
    }
    mr_str_deinit(&s);
}

MR_TEST(agent_job_has_a_program_variables_and_private_files)
{
    mr_agent_job j = {0};
    struct stat st;
    const char *dir = mr_test_dir();
    MR_CHECK_OK(mr_agent_job_add(&j, MR_AGENT_SELF, MR_SV(""), dir));
    MR_CHECK_OK(mr_agent_job_add(&j, MR_AGENT_ARG, MR_SV("serve"), dir));
    MR_CHECK_OK(mr_agent_job_add(&j, MR_AGENT_ENV, MR_SV("A=b=c"), dir));
    MR_CHECK_OK(mr_agent_job_add(&j, MR_AGENT_FILE, MR_SV("ps-0.key\0secret"), dir));
    MR_CHECK_OK(mr_agent_job_add(&j, MR_AGENT_GRACE, MR_SV("250"), dir));
    MR_CHECK_OK(mr_agent_job_add(&j, MR_AGENT_GO, MR_SV(""), dir));
    MR_CHECK(j.go && j.n_args == 2 && j.grace_ms == 250 && !j.argv[2] && !j.env[1]);
    MR_CHECK_STR(j.argv[1], "serve");
    MR_CHECK_STR(j.env[0], "A=b=c");
    char *path = mr_printf("%s/ps-0.key", dir);
    mr_str text = {0};
    MR_CHECK_OK(mr_file_read_all(path, &text));
    MR_CHECK_STR(mr_str_z(&text), "secret");
    MR_CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600);
    mr_str_deinit(&text);
    mr_free(path);
    mr_agent_job_deinit(&j);
}

MR_TEST(agent_job_refuses_what_no_launcher_sends)
{
    static const struct {
        mr_agent_record kind;
        mr_sv bytes;
    } bad[] = {
        {MR_AGENT_FILE, MR_SV("../x\0y")},  {MR_AGENT_FILE, MR_SV("/etc/x\0y")}, {MR_AGENT_FILE, MR_SV(".x\0y")},
        {MR_AGENT_FILE, MR_SV("no-end")},   {MR_AGENT_FILE, MR_SV("\0y")},       {MR_AGENT_ENV, MR_SV("none")},
        {MR_AGENT_ARG, MR_SV("a\0b")},      {MR_AGENT_GRACE, MR_SV("-1")},       {MR_AGENT_GRACE, MR_SV("x")},
        {MR_AGENT_GO, MR_SV("")},           {MR_AGENT_END, MR_SV("")},           {(mr_agent_record)'?', MR_SV("")},
    };
    for (int i = 0; i < MR_COUNT(bad); i++) {
        mr_agent_job j = {0};
        MR_CHECK_ERR(mr_agent_job_add(&j, bad[i].kind, bad[i].bytes, mr_test_dir()), MR_INVALID_ARGUMENT, "");
        MR_CHECK(!j.go);
        mr_agent_job_deinit(&j);
    }
}

MR_TEST(agent_file_does_not_replace_another)
{
    mr_agent_job j = {0};
    const char *dir = mr_test_dir();
    MR_CHECK_OK(mr_agent_job_add(&j, MR_AGENT_FILE, MR_SV("a\0one"), dir));
    MR_CHECK_ERR(mr_agent_job_add(&j, MR_AGENT_FILE, MR_SV("a\0two"), dir), MR_ALREADY_EXISTS, "");
    mr_agent_job_deinit(&j);
}
