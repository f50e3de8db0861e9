/* cli/trace_report.c -- merges the traces of `millrace launch --trace FOLDER` and reports on them. */
#include "cli/trace_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "exec/trace_files.h"

enum { STEPS_TOLD = 4 };

/* Removes a file only if a tracer wrote it: worker-I.step-N.pb or worker-I.update-N.pb. */
static mr_status *remove_old(void *ctx, const char *name)
{
    int worker;
    long long step;
    char kind[8], rest[4];
    if (sscanf(name, "worker-%d.%7[a-z]-%lld.%3s", &worker, kind, &step, rest) != 4 || strcmp(rest, "pb") != 0)
        return NULL;
    char *path = mr_printf("%s/%s", (const char *)ctx, name);
    mr_status *st = mr_file_remove(path);
    mr_free(path);
    return st;
}

mr_status *mr_trace_folder_begin(const char *folder, char **path)
{
    char *here = folder[0] == '/' ? NULL : getcwd(NULL, 0);
    *path = here ? mr_printf("%s/%s", here, folder) : mr_strdup(folder);
    free(here);
    MR_TRY(mr_dir_make(*path));
    return mr_dir_each(*path, remove_old, *path);
}

/* Errors are printed but not returned: they do not change the exit code of the job. */
void mr_trace_folder_end(const char *path)
{
    mr_timeline t;
    mr_str text = {0};
    char *json = mr_printf("%s/trace.json", path);
    mr_timeline_init(&t);
    mr_status *st = mr_trace_read_files(&path, 1, &t);
    if (!st)
        st = mr_timeline_write_chrome(&t, json);
    if (st) {
        fprintf(stderr, "millrace launch: cannot make the trace: %s\n", mr_status_message(st));
    } else {
        mr_trace_tell(&t, STEPS_TOLD, &text);
        fprintf(stderr, "%s%s: open it in https://ui.perfetto.dev or chrome://tracing\n", mr_str_z(&text), json);
    }
    mr_str_deinit(&text);
    mr_timeline_deinit(&t);
    mr_status_free(st);
    mr_free(json);
}
