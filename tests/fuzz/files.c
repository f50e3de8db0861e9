/* tests/fuzz/files.c -- files to start from. */
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/vec.h"
#include "tests/fuzz/fuzz.h"

typedef struct listing {
    const char *ending;
    MR_VEC(char *) names;
} listing;

static mr_status *list_one(void *ctx, const char *name)
{
    listing *l = ctx;
    size_t n = strlen(name), k = strlen(l->ending);
    if (n >= k && strcmp(name + n - k, l->ending) == 0)
        mr_vec_push(&l->names, mr_strdup(name));
    return NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_file(fuzz_files *f, char *path, size_t limit)
{
    mr_str bytes = {0};
    mr_status *st = mr_file_read_all(path, &bytes);
    if (st || bytes.n > limit) {
        mr_status_free(st);
        mr_str_deinit(&bytes);
        mr_free(path);
        return;
    }
    f->names = mr_realloc(f->names, (size_t)(f->n + 1) * sizeof(*f->names));
    f->bytes = mr_realloc(f->bytes, (size_t)(f->n + 1) * sizeof(*f->bytes));
    f->names[f->n] = path;
    f->bytes[f->n++] = bytes;
}

void fuzz_files_add(fuzz_files *f, const char *folder, const char *ending, size_t limit)
{
    listing l = {.ending = ending};
    mr_status_free(folder ? mr_dir_each(folder, list_one, &l) : NULL); /* no folder: no files */
    if (l.names.n)
        qsort(l.names.p, (size_t)l.names.n, sizeof(char *),
              by_name); /* the order of a folder is not defined */
    for (int i = 0; i < l.names.n; i++) {
        add_file(f, mr_printf("%s/%s", folder, l.names.p[i]), limit);
        mr_free(l.names.p[i]);
    }
    mr_vec_deinit(&l.names);
}

char *fuzz_golden(const char *folder)
{
    const char *golden = getenv("MILLRACE_GOLDEN");
    if (!golden)
        golden = access("../shared/golden", R_OK | X_OK) == 0 ? "../shared/golden" : "tests/golden";
    return mr_printf("%s/%s", golden, folder);
}
