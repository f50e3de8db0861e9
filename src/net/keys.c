/* net/keys.c -- keys of tasks as files in a folder.
 *
 * A task's files are NAME.pem and NAME.key, with "/" in the name written as "-". A private key or token
 * that other users can read is refused.
 *
 *     ca.pem     the CA's certificate: every task needs it
 *     ca.key     its private key: only needed to make further certificates
 *     ps-0.pem   the certificate of ps/0, signed by the CA
 *     ps-0.key   its private key
 *     token      32 random bytes that the tasks of one job share */
#include "net/keys.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/file.h"

/* Only the name is changed: the folder may contain slashes, and the ending has none. */
char *mr_net_key_path(const char *folder, const char *name, const char *ending)
{
    char *path = mr_printf("%s/%s%s", folder, name, ending);
    for (char *p = path + strlen(folder) + 1; *p; p++)
        if (*p == '/')
            *p = '-';
    return path;
}

/* Only its owner may read a key. One that belongs to root may also be readable by a group, because
 * that is how secrets reach a user in a container. */
static bool is_private(const struct stat *st) { return !(st->st_mode & (st->st_uid == 0 ? 037 : 077)); }

/* Reads a private key or a token, after a check that other users cannot read it. */
static mr_status *read_key(const char *path, mr_str *out)
{
    struct stat st;
    if (stat(mr_path_local(path), &st) != 0)
        return mr_errno_status(errno, "read", path);
    if (!is_private(&st))
        return mr_error(MR_PERMISSION_DENIED,
                        "other users can read %s: run chmod 600 on it, or make new keys", path);
    return mr_file_read_all(path, out);
}

/* On failure *out is empty. */
mr_status *mr_net_keys_load(const char *folder, const char *name, mr_net_keys_file *out)
{
    char *ca = mr_net_key_path(folder, "ca", ".pem"), *key = mr_net_key_path(folder, name, ".key"),
         *pem = mr_net_key_path(folder, name, ".pem");
    mr_status *st = NULL;
    *out = (mr_net_keys_file){0};
    MR_GO(mr_file_read_all(ca, &out->ca));
    MR_GO(mr_file_read_all(pem, &out->certificate));
    MR_GO(read_key(key, &out->key));
    out->keys = (mr_net_keys){mr_str_z(&out->ca), mr_str_z(&out->certificate), mr_str_z(&out->key)};
out:
    if (st)
        mr_net_keys_deinit(out);
    mr_free(ca);
    mr_free(key);
    mr_free(pem);
    return st;
}

/* No token is not an error: then *out stays as it was. */
mr_status *mr_net_token_load(const char *folder, mr_str *out)
{
    if (!folder || !folder[0])
        return NULL;
    char *path = mr_net_key_path(folder, "token", "");
    bool exists = mr_file_exists(path);
    mr_status *st = exists ? read_key(path, out) : NULL;
    if (!st && exists && out->n != MR_NET_TOKEN)
        st = mr_invalid("%s is not a token: it has %zu bytes instead of %d", path, out->n, MR_NET_TOKEN);
    mr_free(path);
    return st;
}

/* The private key is overwritten before its memory is freed. */
void mr_net_keys_deinit(mr_net_keys_file *f)
{
    if (f->key.p)
        explicit_bzero(f->key.p, f->key.cap);
    mr_str_deinit(&f->ca);
    mr_str_deinit(&f->certificate);
    mr_str_deinit(&f->key);
    f->keys = (mr_net_keys){0};
}
