/* net/keys_test.c -- whose keys are read, and whose are not. */
#include "net/keys.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "tests/harness/test.h"

static const char *folder_with_key(mode_t mode, uid_t owner)
{
    static const char *const names[] = {"ca.pem", "ps-0.pem", "ps-0.key"};
    for (int i = 0; i < 3; i++) {
        char *path = mr_printf("%s/%s", mr_test_dir(), names[i]);
        FILE *f = fopen(path, "w");
        MR_CHECK(f && fputs(names[i], f) >= 0 && fclose(f) == 0);
        MR_CHECK(i < 2 || (chmod(path, mode) == 0 && (owner == getuid() || chown(path, owner, getgid()) == 0)));
        mr_free(path);
    }
    return mr_test_dir();
}

MR_TEST(keys_of_a_task_are_read_from_its_files)
{
    mr_net_keys_file f;
    MR_CHECK_OK(mr_net_keys_load(folder_with_key(0600, getuid()), "ps/0", &f));
    MR_CHECK_STR(f.keys.key, "ps-0.key");
    MR_CHECK_STR(f.keys.certificate, "ps-0.pem");
    mr_net_keys_deinit(&f);
}

MR_TEST(keys_that_others_can_read_are_refused)
{
    mr_net_keys_file f;
    MR_CHECK_ERR(mr_net_keys_load(folder_with_key(0604, getuid()), "ps/0", &f), MR_PERMISSION_DENIED, "chmod 600");
    MR_CHECK_ERR(mr_net_keys_load(folder_with_key(0620, getuid()), "ps/0", &f), MR_PERMISSION_DENIED, "chmod 600");
}

MR_TEST(keys_that_a_group_can_read_must_be_roots)
{
    mr_net_keys_file f;
    if (getuid() != 0)
        mr_test_skip("only root can give files away");
    MR_CHECK_OK(mr_net_keys_load(folder_with_key(0440, 0), "ps/0", &f));
    mr_net_keys_deinit(&f);
    MR_CHECK_ERR(mr_net_keys_load(folder_with_key(0440, 12345), "ps/0", &f), MR_PERMISSION_DENIED, "chmod 600");
}

/* ---- the token of a job ---- */

static mr_status *load_token(size_t n, mode_t mode, mr_str *out)
{
    char *path = mr_printf("%s/token", mr_test_dir());
    FILE *f = fopen(path, "w");
    MR_CHECK(f && fwrite("0123456789abcdef0123456789abcdef0123456789abcdef", 1, n, f) == n && fclose(f) == 0);
    MR_CHECK(chmod(path, mode) == 0);
    mr_free(path);
    mr_str_clear(out);
    return mr_net_token_load(mr_test_dir(), out);
}

MR_TEST(token_is_read_or_missing_or_refused)
{
    mr_str token = {0};
    MR_CHECK_OK(mr_net_token_load(NULL, &token));
    MR_CHECK_OK(mr_net_token_load(mr_test_dir(), &token));
    MR_CHECK_INT(token.n, 0);
    MR_CHECK_OK(load_token(MR_NET_TOKEN, 0600, &token));
    MR_CHECK_INT(token.n, MR_NET_TOKEN);
    MR_CHECK_ERR(load_token(MR_NET_TOKEN, 0644, &token), MR_PERMISSION_DENIED, "chmod 600");
    MR_CHECK_ERR(load_token(0, 0600, &token), MR_INVALID_ARGUMENT, "0 bytes instead of 32");
    MR_CHECK_ERR(load_token(MR_NET_TOKEN + 1, 0600, &token), MR_INVALID_ARGUMENT, "33 bytes instead of 32");
    mr_str_deinit(&token);
}
