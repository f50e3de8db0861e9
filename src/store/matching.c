/* store/matching.c -- finds files by pattern.
 *
 * A pattern is split at its slashes. A part without wildcards is appended as it is; for a part with wildcards, the
 * folder so far is read. The length of a path bounds the depth, but not the time (a pattern may go up and down again),
 * so a search can be cancelled. */
#include "store/matching.h"

#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>

typedef struct level {
    mr_file_names *out;
    const char *scheme;   /* "file://" if the pattern has it, else "" */
    const mr_str *so_far; /* with its trailing slash */
    const char *part, *rest;
} level;

static bool has_wildcard(mr_sv part)
{
    for (size_t i = 0; i < part.n; i++)
        if (strchr("*?[\\", part.p[i]))
            return true;
    return false;
}

static mr_status *match_pattern(mr_file_names *out, const char *scheme, const mr_str *so_far,
                                const char *pattern);

/* Appends one name to the path so far and continues with the rest of the pattern. */
static mr_status *step_into(level *l, mr_sv name)
{
    mr_str path = {0};
    mr_status *st = NULL;
    mr_str_append(&path, mr_str_z(l->so_far), l->so_far->n);
    mr_str_append(&path, name.p, name.n);
    if (*l->rest) {
        mr_str_appendc(&path, '/');
        st = match_pattern(l->out, l->scheme, &path, l->rest);
    } else if (mr_file_exists(mr_str_z(&path))) {
        mr_vec_push(&l->out->v, mr_printf("%s%s", l->scheme, mr_str_z(&path)));
    }
    mr_str_deinit(&path);
    return st;
}

static mr_status *try_name(void *ctx, const char *name)
{
    level *l = ctx;
    if (l->out->stopped && l->out->stopped(l->out->ctx))
        return mr_error(MR_CANCELLED, "The search for matching files was cancelled");
    return fnmatch(l->part, name, FNM_PATHNAME) == 0 ? step_into(l, mr_sv_of(name)) : NULL;
}

/* Matches the first part of the pattern below `so_far`; step_into continues with the rest. A folder that does not exist
 * matches nothing. */
static mr_status *match_pattern(mr_file_names *out, const char *scheme, const mr_str *so_far,
                                const char *pattern)
{
    const char *slash = strchrnul(pattern, '/');
    mr_sv part = {pattern, (size_t)(slash - pattern)};
    level l = {out, scheme, so_far, NULL, *slash ? slash + 1 : slash};
    const char *folder = so_far->n ? mr_str_z(so_far) : ".";
    if (!has_wildcard(part))
        return step_into(&l, part);
    if (!mr_dir_exists(folder))
        return NULL;
    char *text = mr_strndup(part.p, part.n);
    l.part = text;
    mr_status *st = mr_dir_each(folder, try_name, &l);
    mr_free(text);
    if (mr_status_code(st) != MR_PERMISSION_DENIED)
        return st;
    mr_status_free(st); /* an unreadable folder matches nothing */
    return NULL;
}

mr_status *mr_files_match(mr_sv pattern, mr_file_names *out)
{
    mr_str nothing = {0};
    if (pattern.n == 0 || pattern.n > PATH_MAX) /* longer than any path: nothing matches */
        return NULL;
    char *text = mr_strndup(pattern.p, pattern.n);
    const char *local = mr_path_local(text);
    mr_status *st = match_pattern(out, local == text ? "" : "file://", &nothing, local);
    mr_free(text);
    return st;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void mr_file_names_sort(mr_file_names *names)
{
    if (names->v.n > 0)
        qsort(names->v.p, (size_t)names->v.n, sizeof(*names->v.p), by_name);
}

void mr_file_names_deinit(mr_file_names *names)
{
    for (int i = 0; i < names->v.n; i++)
        mr_free(names->v.p[i]);
    mr_vec_deinit(&names->v);
}
