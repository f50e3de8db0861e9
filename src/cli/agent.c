/* cli/agent.c -- encodes and decodes the records that a launcher sends to its agents (agent.h has the format). */
#include "cli/agent.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"

enum { HEAD = 5, MAX_WORDS = 1 << 14 };

void mr_agent_put(mr_str *out, mr_agent_record kind, mr_sv bytes)
{
    MR_ASSERT(bytes.n <= UINT32_MAX);
    unsigned char head[HEAD] = {(unsigned char)kind};
    for (int i = 0; i < 4; i++)
        head[1 + i] = (unsigned char)(bytes.n >> (8 * i));
    mr_str_append(out, head, HEAD);
    mr_str_append(out, bytes.p, bytes.n);
}

bool mr_agent_take(mr_sv *rest, mr_agent_record *kind, mr_sv *bytes)
{
    const unsigned char *p = (const unsigned char *)rest->p;
    if (rest->n < HEAD)
        return false;
    size_t n = p[1] | (size_t)p[2] << 8 | (size_t)p[3] << 16 | (size_t)p[4] << 24;
    if (rest->n - HEAD < n)
        return false;
    *kind = (mr_agent_record)p[0];
    *bytes = (mr_sv){rest->p + HEAD, n};
    *rest = (mr_sv){rest->p + HEAD + n, rest->n - HEAD - n};
    return true;
}

/* ---- a job ---- */

static mr_status *add_word(char ***list, int *n, mr_sv word)
{
    if (*n >= MAX_WORDS || memchr(word.p, 0, word.n))
        return mr_invalid(
            "invalid record from the launcher: an argument or variable has a NUL byte, or there are more than %d",
            MAX_WORDS);
    *list = mr_realloc(*list, sizeof **list * (size_t)(*n + 2));
    (*list)[(*n)++] = mr_strndup(word.p, word.n);
    (*list)[*n] = NULL;
    return NULL;
}

/* Accepts only plain file names, which cannot point out of the folder. */
static bool name_ok(mr_sv name)
{
    bool ok = name.n > 0 && name.n < 128 && name.p[0] != '.';
    for (size_t i = 0; ok && i < name.n; i++)
        ok = isalnum((unsigned char)name.p[i]) || memchr(".-_", name.p[i], 3) != NULL;
    return ok;
}

static mr_status *write_file(const char *path, mr_sv bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool ok = fd >= 0 && write(fd, bytes.p, bytes.n) == (ssize_t)bytes.n;
    mr_status *st = ok ? NULL : mr_errno_status(errno, "write", path);
    if (fd >= 0)
        close(fd);
    return st;
}

static mr_status *add_file(mr_sv bytes, const char *keys)
{
    mr_sv rest = bytes, name;
    mr_sv_cut(&rest, '\0', &name);
    if (!rest.p || !name_ok(name))
        return mr_invalid("invalid record from the launcher: a file has no plain name");
    char *path = mr_printf("%s/%.*s", keys, MR_SV_ARG(name));
    mr_status *st = write_file(path, rest);
    mr_free(path);
    return st;
}

/* Adds the path of this program as the next argument. It must be the real path, because the program looks for its
 * libraries relative to it. */
static mr_status *add_self(mr_agent_job *j)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path);
    if (n <= 0 || n == sizeof path)
        return mr_error(MR_FAILED_PRECONDITION, "cannot find the path of this program");
    return add_word(&j->argv, &j->n_args, (mr_sv){path, (size_t)n});
}

static mr_status *add_grace(mr_agent_job *j, mr_sv text)
{
    if (!mr_sv_to_i64(text, &j->grace_ms) || j->grace_ms < 0 || j->grace_ms > 600000)
        return mr_invalid(
            "invalid record from the launcher: the grace period '%.*s' is not from 0 to 600000 milliseconds",
            MR_SV_ARG(text));
    return NULL;
}

/* GO is accepted only after a program was given. */
mr_status *mr_agent_job_add(mr_agent_job *j, mr_agent_record kind, mr_sv bytes, const char *keys)
{
    switch (kind) {
    case MR_AGENT_SELF: return add_self(j);
    case MR_AGENT_ARG: return add_word(&j->argv, &j->n_args, bytes);
    case MR_AGENT_ENV:
        return memchr(bytes.p, '=', bytes.n) ? add_word(&j->env, &j->n_env, bytes)
                                             : mr_invalid("invalid record from the launcher: a variable has no '='");
    case MR_AGENT_FILE: return add_file(bytes, keys);
    case MR_AGENT_FOLDER:
        mr_free(j->folder);
        j->folder = mr_strndup(bytes.p, bytes.n);
        return NULL;
    case MR_AGENT_GRACE: return add_grace(j, bytes);
    case MR_AGENT_GO:
        j->go = j->n_args > 0;
        return j->go ? NULL : mr_invalid("invalid record from the launcher: there is no program to run");
    case MR_AGENT_END: break;
    }
    return mr_invalid("unknown record from the launcher: the versions of millrace on the two hosts differ");
}

static void free_words(char **list)
{
    for (char **w = list; w && *w; w++)
        mr_free(*w);
    mr_free(list);
}

void mr_agent_job_deinit(mr_agent_job *j)
{
    free_words(j->argv);
    free_words(j->env);
    mr_free(j->folder);
    *j = (mr_agent_job){0};
}
