/* dist/cluster_json.c -- a cluster and a task as in TF_CONFIG:
 *
 *     {"cluster": {"ps": ["a:1"], "worker": ["b:1", "b:2"]}, "task": {"type": "worker", "index": 1}}
 *
 * A job is a list of addresses, or an object from task numbers to addresses. Errors of the JSON
 * text stay in the reader, which is asked once at the end. */
#include "base/memory.h"
#include "dist/cluster.h"
#include "wire/json.h"

/* In a list the position is the task's number; in an object it is the key. */
static mr_status *read_job(mr_json *j, mr_cluster *c, mr_sv job)
{
    mr_str key = {0}, address = {0};
    mr_status *st = NULL;
    bool list = mr_json_peek(j) == '[';
    mr_json_begin(j, list ? '[' : '{');
    for (int64_t i = 0; list ? mr_json_more(j) : mr_json_key(j, &key); i++) {
        if (!list && !mr_sv_to_i64(mr_str_view(&key), &i))
            MR_GO(mr_invalid("Job %.*s: '%s' is not the number of a task", MR_SV_ARG(job), mr_str_z(&key)));
        mr_json_string(j, &address);
        if (i < 0 || i > INT32_MAX)
            MR_GO(mr_invalid("Job %.*s: there is no task %lld", MR_SV_ARG(job), (long long)i));
        if (!j->error)
            MR_GO(mr_cluster_add(c, job, (int)i, mr_str_view(&address)));
    }
out:
    mr_str_deinit(&key);
    mr_str_deinit(&address);
    return st;
}

/* An object from job names to jobs. */
static mr_status *read_cluster(mr_json *j, mr_cluster *c)
{
    mr_str job = {0};
    mr_status *st = NULL;
    mr_json_begin(j, '{');
    while (!st && mr_json_key(j, &job))
        st = read_job(j, c, mr_str_view(&job));
    mr_str_deinit(&job);
    return st;
}

/* The index may be a string: some programs write "1". A string that is not a number becomes -1. */
static void read_task(mr_json *j, mr_str *job, int64_t *number)
{
    mr_str key = {0}, text = {0};
    mr_json_begin(j, '{');
    while (mr_json_key(j, &key))
        if (strcmp(mr_str_z(&key), "type") == 0) {
            mr_json_string(j, job);
        } else if (strcmp(mr_str_z(&key), "index") != 0) {
            mr_json_skip(j);
        } else if (mr_json_peek(j) == '"') {
            mr_json_string(j, &text);
            if (!mr_sv_to_i64(mr_str_view(&text), number))
                *number = -1;
        } else {
            *number = mr_json_int(j);
        }
    mr_str_deinit(&key);
    mr_str_deinit(&text);
}

/* The whole text. Other keys than cluster and task, such as environment, are skipped. Without a task, job stays empty
 * and *number unchanged. */
static mr_status *read_config(mr_json *j, mr_cluster *c, mr_str *job, int64_t *number)
{
    mr_str key = {0};
    mr_status *st = NULL;
    mr_json_begin(j, '{');
    while (!st && mr_json_key(j, &key))
        if (strcmp(mr_str_z(&key), "cluster") == 0)
            st = read_cluster(j, c);
        else if (strcmp(mr_str_z(&key), "task") == 0)
            read_task(j, job, number);
        else
            mr_json_skip(j);
    mr_str_deinit(&key);
    return st;
}

/* The task may be missing; then out->job is NULL. If it is named, it must be in the cluster. */
mr_status *mr_server_def_read_json(mr_sv text, mr_server_def *out)
{
    mr_json j;
    mr_str job = {0};
    int64_t number = 0;
    *out = (mr_server_def){0};
    mr_json_init(&j, text);
    mr_status *st = read_config(&j, &out->cluster, &job, &number);
    if (!st)
        st = mr_json_status(&j, "cluster");
    if (!st && !out->cluster.tasks.n)
        st = mr_invalid("there are no tasks: {\"cluster\": {\"ps\": [\"host:port\"], \"worker\": [..]}} is expected");
    bool named = job.n > 0, far = number < 0 || number > INT32_MAX;
    if (!st && named && (far || mr_cluster_find(&out->cluster, mr_str_view(&job), (int)number) < 0))
        st = mr_invalid("task %lld of job \"%s\" is not in the cluster", (long long)number, mr_str_z(&job));
    out->task = far ? 0 : (int)number;
    out->job = named ? mr_str_take(&job) : NULL;
    mr_str_deinit(&job);
    if (st)
        mr_server_def_deinit(out);
    return st;
}

mr_status *mr_server_def_from_json(mr_sv text, mr_server_def *out)
{
    mr_status *st = mr_server_def_read_json(text, out);
    if (!st && !out->job) {
        st = mr_invalid("it names no task: \"task\": {\"type\": \"worker\", \"index\": 0}");
        mr_server_def_deinit(out);
    }
    return mr_status_prepend(st, "TF_CONFIG: ");
}

/* The index behind the job that begins at `first`. *whole: its task numbers are 0, 1, 2, ... */
static int job_end(const mr_cluster *c, int first, bool *whole)
{
    int i = first;
    for (*whole = true; i < c->tasks.n && strcmp(c->tasks.p[i].job, c->tasks.p[first].job) == 0; i++)
        *whole &= c->tasks.p[i].number == i - first;
    return i;
}

/* Writes a list if possible, because programs that read TF_CONFIG themselves expect one. */
static int write_job(const mr_cluster *c, int first, mr_str *out)
{
    bool whole;
    int end = job_end(c, first, &whole);
    mr_json_quote(out, mr_sv_of(c->tasks.p[first].job));
    mr_str_appendz(out, whole ? ": [" : ": {");
    for (int i = first; i < end; i++) {
        mr_str_appendz(out, i > first ? ", " : "");
        if (!whole)
            mr_str_printf(out, "\"%d\": ", c->tasks.p[i].number);
        mr_json_quote(out, mr_sv_of(c->tasks.p[i].address));
    }
    mr_str_appendz(out, whole ? "]" : "}");
    return end;
}

/* The inverse of mr_server_def_from_json, for the environment of processes that a launcher starts. */
void mr_server_def_to_json(const mr_cluster *c, const char *job, int number, mr_str *out)
{
    mr_str_appendz(out, "{\"cluster\": {");
    for (int i = 0; i < c->tasks.n;) {
        mr_str_appendz(out, i ? ", " : "");
        i = write_job(c, i, out);
    }
    mr_str_appendz(out, "}, \"task\": {\"type\": ");
    mr_json_quote(out, mr_sv_of(job));
    mr_str_printf(out, ", \"index\": %d}}", number);
}
