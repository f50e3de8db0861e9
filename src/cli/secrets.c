/* cli/secrets.c -- makes the keys and the token of a job and sends them to agents. */
#include "cli/secrets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "cli/agent.h"
#include "cli/warden.h"
#include "net/keys.h"

enum { KEY_DAYS = 30 };

/* A warden process removes the folder with all keys when this process ends, even if it is killed. */
mr_status *mr_secrets_folder(char **out)
{
    mr_warden *kept; /* never freed: it watches until this process ends */
    const char *base = getenv("XDG_RUNTIME_DIR");
    bool use = base && base[0] == '/' && strlen(base) < 60; /* the path of a Unix socket has at most 107 bytes */
    *out = mr_printf("%s/millrace-job-XXXXXX", use && mr_dir_exists(base) ? base : "/tmp");
    mr_status *st = mkdtemp(*out) ? mr_warden_new(*out, &kept) : mr_errno_status(errno, "make", *out);
    if (!st)
        return NULL;
    rmdir(*out);
    mr_free(*out);
    *out = NULL;
    return st;
}

static mr_status *write_token(const char *folder)
{
    uint64_t token[4];
    MR_TRY(mr_random_secret(token, sizeof token));
    char *path = mr_printf("%s/token", folder);
    FILE *f = fopen(path, "wbx");
    bool ok = f && fchmod(fileno(f), 0600) == 0 && fwrite(token, sizeof token, 1, f) == 1;
    if (f && fclose(f) != 0)
        ok = false;
    mr_status *st = ok ? NULL : mr_errno_status(errno, "write", path);
    mr_free(path);
    return st;
}

/* The host of an address: "a" of "a:2222". The caller owns it. */
static char *host_of(const char *address)
{
    const char *colon = strrchr(address, ':');
    return mr_strndup(address, colon ? (size_t)(colon - address) : strlen(address));
}

/* Makes a CA, a certificate for each task, and one named "client". */
static mr_status *make_keys(const mr_cluster *c, const char *folder)
{
    int n = c->tasks.n + 1;
    char **names = mr_new_array(char *, n), **hosts = mr_new_array(char *, n);
    for (int i = 0; i < n - 1; i++) {
        names[i] = mr_printf("%s/%d", c->tasks.p[i].job, c->tasks.p[i].number);
        hosts[i] = host_of(c->tasks.p[i].address);
    }
    names[n - 1] = mr_strdup("client");
    mr_status *st = mr_net_make_keys(folder, (const char *const *)names, (const char *const *)hosts, n, KEY_DAYS);
    for (int i = 0; i < n; i++) {
        mr_free(names[i]);
        mr_free(hosts[i]);
    }
    mr_free(names);
    mr_free(hosts);
    return st;
}

mr_status *mr_secrets_make(const mr_cluster *c, const char *folder, bool keys)
{
    MR_TRY(write_token(folder));
    return keys ? make_keys(c, folder) : NULL;
}

/* Appends a FILE record with the contents of the file. Takes ownership of path. */
static mr_status *send_file(char *path, mr_str *out)
{
    mr_str record = {0}, bytes = {0};
    mr_sv name = mr_path_basename(path);
    mr_status *st = mr_file_read_all(path, &bytes);
    mr_str_append(&record, name.p, name.n);
    mr_str_appendc(&record, 0);
    mr_str_append(&record, mr_str_z(&bytes), bytes.n);
    if (!st)
        mr_agent_put(out, MR_AGENT_FILE, mr_str_view(&record));
    mr_str_deinit(&record);
    mr_str_deinit(&bytes);
    mr_free(path);
    return st;
}

mr_status *mr_secrets_send(const char *folder, const char *task, bool keys, mr_str *out)
{
    MR_TRY(send_file(mr_printf("%s/token", folder), out));
    if (!keys)
        return NULL;
    MR_TRY(send_file(mr_net_key_path(folder, "ca", ".pem"), out));
    MR_TRY(send_file(mr_net_key_path(folder, task, ".pem"), out));
    return send_file(mr_net_key_path(folder, task, ".key"), out);
}
