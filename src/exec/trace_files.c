/* exec/trace_files.c -- files of RunMetadata as one timeline.
 *
 * All files are read before any is decoded: records point into the bytes, and steps of different files are
 * aligned with each other. */
#include "exec/trace_files.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/memory.h"

typedef struct files {
    const char *folder; /* that is being read */
    MR_VEC(char *) paths;
    MR_VEC(mr_str) contents;
} files;

/* A callback of mr_dir_each; other files of the folder are ignored. */
static mr_status *add_file(void *ctx, const char *name)
{
    files *f = ctx;
    size_t n = strlen(name);
    if (n > 3 && strcmp(name + n - 3, ".pb") == 0)
        mr_vec_push(&f->paths, mr_printf("%s/%s", f->folder, name));
    return NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds a file, or the *.pb files of a folder, sorted by name. */
static mr_status *find_files(files *f, const char *path)
{
    int before = f->paths.n;
    if (!mr_dir_exists(path)) {
        mr_vec_push(&f->paths, mr_strdup(path));
        return NULL;
    }
    f->folder = path;
    MR_TRY(mr_dir_each(path, add_file, f));
    if (f->paths.n == before)
        return mr_error(MR_NOT_FOUND, "%s: this folder contains no trace files (*.pb)", path);
    qsort(f->paths.p + before, (size_t)(f->paths.n - before), sizeof *f->paths.p, by_name);
    return NULL;
}

/* The contents stay in f until the timeline is filled. */
static mr_status *read_all(files *f, mr_timeline *out)
{
    mr_sv *views = mr_new_array(mr_sv, f->paths.n + 1);
    mr_status *st = NULL;
    for (int i = 0; i < f->paths.n && !st; i++) {
        mr_str bytes = {0};
        st = mr_file_read_all(f->paths.p[i], &bytes);
        mr_vec_push(&f->contents, bytes);
        views[i] = mr_str_view(&bytes);
    }
    if (!st)
        st = mr_trace_read(views, (const char *const *)f->paths.p, f->paths.n, out);
    mr_free(views);
    return st;
}

/* Stops at the first path that cannot be read. The bytes are freed at the end, because the timeline copies all
 * names. */
mr_status *mr_trace_read_files(const char *const *paths, int n, mr_timeline *out)
{
    files f = {0};
    mr_status *st = NULL;
    for (int i = 0; i < n && !st; i++)
        st = find_files(&f, paths[i]);
    if (!st)
        st = read_all(&f, out);
    for (int i = 0; i < f.paths.n; i++)
        mr_free(f.paths.p[i]);
    for (int i = 0; i < f.contents.n; i++)
        mr_str_deinit(&f.contents.p[i]);
    mr_vec_deinit(&f.paths);
    mr_vec_deinit(&f.contents);
    return st;
}

/* True for updates and the like that are too short to matter; steps are always reported. */
static bool is_small(const mr_timeline *t, const mr_blame *b, int64_t longest_ns)
{
    return b->step >= 0 && t->steps.p[b->step].what && b->total_ns < longest_ns / 20;
}

/* Reports at most `most` steps; `told` counts all that would be. */
void mr_trace_tell(const mr_timeline *t, int most, mr_str *out)
{
    mr_blame *b;
    int n, told = 0;
    int64_t longest = 0;
    mr_blame_steps(t, &b, &n);
    mr_blame_sort(t, b, n);
    for (int i = 0; i < n; i++)
        longest = MR_MAX(longest, b[i].total_ns);
    for (int i = 0; i < n; i++)
        if (!is_small(t, &b[i], longest) && told++ < most)
            mr_blame_text(t, &b[i], out);
    if (told > most)
        mr_str_printf(out, "... and %d more steps\n", told - most);
    mr_blame_summary(t, b, n, out);
    for (int i = 0; i < n; i++)
        mr_blame_deinit(&b[i]);
    mr_free(b);
}
