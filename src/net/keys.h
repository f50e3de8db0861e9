/* net/keys.h -- keys of tasks as files in a folder: ca.pem, ca.key, and ps-0.pem and ps-0.key for
 * "ps/0". */
#ifndef MR_NET_KEYS_H
#define MR_NET_KEYS_H

#include "net/net.h"

/* FOLDER/NAME with its / as -, and the ending; mr_free. */
char *mr_net_key_path(const char *folder, const char *name, const char *ending);

/* What a task needs from a folder.  A key that other users can read is refused; a key of root's may be readable by its
 * group. */
typedef struct mr_net_keys_file {
    mr_net_keys keys; /* points into the rest */
    mr_str ca, certificate, key;
} mr_net_keys_file;
mr_status *mr_net_keys_load(const char *folder, const char *name, mr_net_keys_file *out);
void mr_net_keys_deinit(mr_net_keys_file *f); /* overwrites the key */

/* The secret that the tasks of a job share: the 32 bytes of FOLDER/token.  "" where there is no such file, or folder is
 * NULL or empty.  A file that other users can read is refused, as a key is. */
enum { MR_NET_TOKEN = 32 };
mr_status *mr_net_token_load(const char *folder, mr_str *out);

#endif
