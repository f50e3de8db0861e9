/* cli/hosts_test.c */
#include "cli/hosts.h"

#include <stdio.h>

#include "base/memory.h"
#include "tests/harness/test.h"

/* "a b b": the places in order. */
static const char *joined(const mr_hosts *h)
{
    static char text[4096];
    text[0] = 0;
    for (int i = 0; i < h->places.n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "", h->places.p[i]);
    return text;
}

MR_TEST(hosts_list_has_as_many_places_as_it_says)
{
    mr_hosts h = {0};
    MR_CHECK_OK(mr_hosts_add_list(&h, MR_SV("a, b:2,me@c,[fe80::1]:2")));
    MR_CHECK_STR(joined(&h), "a b b me@c [fe80::1] [fe80::1]");
    MR_CHECK_STR(mr_host_address(h.places.p[3]), "c");
    mr_hosts_deinit(&h);
}

MR_TEST(hosts_list_refuses_what_ssh_or_a_shell_would_misread)
{
    static const char *const bad[] = {"", "-oProxyCommand=x", "a b", "a;b", "$(x)", "a:", "a:0", "a:-1", "a:x", "a,,b", "a:99999999", "me@"};
    for (int i = 0; i < MR_COUNT(bad); i++) {
        mr_hosts h = {0};
        mr_status *st = mr_hosts_add_list(&h, mr_sv_of(bad[i]));
        if (!st)
            mr_test_fail(__FILE__, __LINE__, "'%s' was taken", bad[i]);
        mr_status_free(st);
        mr_hosts_deinit(&h);
    }
}

static const char *write_file(const char *text)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/hosts", mr_test_dir());
    FILE *f = fopen(path, "w");
    MR_CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
    return path;
}

MR_TEST(hosts_file_may_have_comments_and_slots)
{
    mr_hosts h = {0};
    MR_CHECK_OK(mr_hosts_add_file(&h, write_file("# ours\na\n\n b:2  # two\nc slots=2\n")));
    MR_CHECK_STR(joined(&h), "a b b c c");
    mr_hosts_deinit(&h);
}

MR_TEST(hosts_file_error_names_its_line)
{
    mr_hosts h = {0};
    MR_CHECK_ERR(mr_hosts_add_file(&h, write_file("a\nb max=2\n")), MR_INVALID_ARGUMENT,
                 "line 2: unexpected 'max=2' after b");
    mr_hosts_deinit(&h);
}

MR_TEST(hosts_slurm_shorthand_is_written_out)
{
    mr_hosts h = {0};
    MR_CHECK_OK(mr_hosts_add_slurm(&h, MR_SV("n[1-3,07],m5,r[1-2]c[08-10]"), NULL));
    MR_CHECK_STR(joined(&h), "n1 n2 n3 n07 m5 r1c08 r1c09 r1c10 r2c08 r2c09 r2c10");
    mr_hosts_deinit(&h);
}

MR_TEST(hosts_slurm_nodes_have_their_numbers_of_tasks)
{
    mr_hosts h = {0};
    MR_CHECK_OK(mr_hosts_add_slurm(&h, MR_SV("n[1-3],m"), "2(x2),0,1"));
    MR_CHECK_STR(joined(&h), "n1 n1 n2 n2 m");
    mr_hosts_deinit(&h);
}

MR_TEST(hosts_slurm_refuses_broken_shorthand)
{
    static const char *const bad[] = {"n[1-", "n[x]", "n[3-1]", "n[0-99999999]", "", "a,,b", "n[]"};
    for (int i = 0; i < MR_COUNT(bad); i++) {
        mr_hosts h = {0};
        mr_status *st = mr_hosts_add_slurm(&h, mr_sv_of(bad[i]), NULL);
        if (!st)
            mr_test_fail(__FILE__, __LINE__, "'%s' was taken", bad[i]);
        mr_status_free(st);
        mr_hosts_deinit(&h);
    }
    mr_hosts h = {0};
    MR_CHECK_ERR(mr_hosts_add_slurm(&h, MR_SV("a,b"), "1"), MR_INVALID_ARGUMENT, "more nodes than");
    MR_CHECK_ERR(mr_hosts_add_slurm(&h, MR_SV("a,b"), "1(y2)"), MR_INVALID_ARGUMENT, "not a number of tasks");
    mr_hosts_deinit(&h);
}
