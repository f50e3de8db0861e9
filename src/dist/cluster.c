/* dist/cluster.c -- the tasks of a cluster.
 *
 * Tasks are sorted by job name and number, each once, so that every process numbers them alike. */
#include "dist/cluster.h"

#include <ctype.h>

#include "base/memory.h"
#include "wire/pb.h"

enum { MAX_TASKS = 1 << 20, MAX_JOB = 63 };

static void task_deinit(mr_task_address *t)
{
    mr_free(t->job);
    mr_free(t->address);
    mr_free(t->name);
}

void mr_cluster_deinit(mr_cluster *c)
{
    for (int i = 0; i < c->tasks.n; i++)
        task_deinit(&c->tasks.p[i]);
    mr_vec_deinit(&c->tasks);
    *c = (mr_cluster){0};
}

/* ---- adding ---- */

/* As in device names: a letter, then letters, digits and underscores. */
static bool job_ok(mr_sv job)
{
    bool ok = job.n > 0 && job.n <= MAX_JOB && isalpha((unsigned char)job.p[0]);
    for (size_t i = 0; ok && i < job.n; i++)
        ok = isalnum((unsigned char)job.p[i]) || job.p[i] == '_';
    return ok;
}

/* host:port, where the host may be an IPv6 address in brackets. */
static bool address_ok(mr_sv a)
{
    size_t at = a.n;
    while (at > 0 && a.p[at - 1] != ':')
        at--;
    int64_t port = -1;
    if (at < 2 || !mr_sv_to_i64((mr_sv){a.p + at, a.n - at}, &port) || port < 0 || port > 65535)
        return false;
    for (size_t i = 0; i < a.n; i++)
        if ((unsigned char)a.p[i] <= ' ' || a.p[i] == ',' || a.p[i] == ';' || a.p[i] == '/')
            return false;
    return true;
}

/* Orders by job name, bytewise, then by number. */
static int compare_task(const mr_task_address *t, mr_sv job, int number)
{
    mr_sv have = mr_sv_of(t->job);
    int d = memcmp(have.p, job.p, have.n < job.n ? have.n : job.n);
    if (d == 0)
        d = (have.n > job.n) - (have.n < job.n);
    return d ? d : (t->number > number) - (t->number < number);
}

/* The index of a task, or where it would be inserted. */
static int place_of(const mr_cluster *c, mr_sv job, int number)
{
    int low = 0, high = c->tasks.n;
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (compare_task(&c->tasks.p[mid], job, number) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The address is checked, but not resolved. The cluster keeps copies. */
mr_status *mr_cluster_add(mr_cluster *c, mr_sv job, int number, mr_sv address)
{
    if (!job_ok(job))
        return mr_invalid("'%.*s' is not a job name: a letter, then letters, digits and underscores",
                          MR_SV_ARG(job));
    if (mr_sv_is(address, "zk"))
        address = MR_SV(MR_ADDRESS_ASKED);
    if (number < 0 || c->tasks.n >= MAX_TASKS)
        return mr_invalid("Job %.*s has no task %d", MR_SV_ARG(job), number);
    if (!address_ok(address))
        return mr_invalid("Task %d of job %.*s: '%.*s' is not host:port", number, MR_SV_ARG(job),
                          MR_SV_ARG(address));
    int at = place_of(c, job, number);
    if (at < c->tasks.n && compare_task(&c->tasks.p[at], job, number) == 0)
        return mr_invalid("Task %d of job %.*s is named twice", number, MR_SV_ARG(job));
    mr_task_address t = {.job = mr_strndup(job.p, job.n),
                         .address = mr_strndup(address.p, address.n),
                         .name = mr_printf("/job:%.*s/replica:0/task:%d", MR_SV_ARG(job), number),
                         .number = number};
    mr_vec_push(&c->tasks, t);
    memmove(&c->tasks.p[at + 1], &c->tasks.p[at], sizeof t * (size_t)(c->tasks.n - 1 - at));
    c->tasks.p[at] = t;
    MR_ASSERT(at == 0 || compare_task(&c->tasks.p[at - 1], job, number) < 0);
    return NULL;
}

mr_status *mr_cluster_add_list(mr_cluster *c, mr_sv job, mr_sv list)
{
    mr_sv rest = list, part;
    for (int i = 0; mr_sv_cut(&rest, ',', &part); i++)
        MR_TRY(mr_cluster_add(c, job, i, mr_sv_trim(part)));
    return NULL;
}

/* After an error *out holds a part of the tasks; the caller deinits it. */
mr_status *mr_cluster_copy(const mr_cluster *c, mr_cluster *out)
{
    *out = (mr_cluster){0};
    for (int i = 0; i < c->tasks.n; i++)
        MR_TRY(mr_cluster_add(out, mr_sv_of(c->tasks.p[i].job), c->tasks.p[i].number,
                              mr_sv_of(c->tasks.p[i].address)));
    return NULL;
}

/* ---- finding ---- */

/* Binary search: tasks are sorted. */
int mr_cluster_find(const mr_cluster *c, mr_sv job, int number)
{
    int at = place_of(c, job, number);
    return at < c->tasks.n && compare_task(&c->tasks.p[at], job, number) == 0 ? at : -1;
}

/* The task's name must be followed by the end or by '/': task 1 is not a prefix of task 10. */
int mr_cluster_find_named(const mr_cluster *c, mr_sv device)
{
    for (int i = 0; i < c->tasks.n; i++) {
        size_t n = strlen(c->tasks.p[i].name);
        if (mr_sv_starts(device, c->tasks.p[i].name) && (device.n == n || device.p[n] == '/'))
            return i;
    }
    return -1;
}

int mr_cluster_count(const mr_cluster *c, mr_sv job)
{
    int n = 0;
    for (int i = 0; i < c->tasks.n; i++)
        n += mr_sv_is(job, c->tasks.p[i].job);
    return n;
}

/* ---- messages ---- */

/* One entry of JobDef's map: a task number and an address. */
static mr_status *decode_task(mr_cluster *c, mr_sv job, mr_pb_reader *r)
{
    int32_t number = 0;
    mr_sv address = MR_SV("");
    uint32_t field, wire;
    while (mr_pb_next(r, &field, &wire))
        switch (field) {
        case 1: number = mr_pb_int32(r); break;
        case 2: address = mr_pb_bytes(r); break;
        default: mr_pb_skip(r);
        }
    MR_TRY(mr_pb_reader_status(r, "JobDef"));
    return mr_cluster_add(c, job, number, address);
}

/* The name may come after the tasks, so a job is read twice. */
static mr_status *decode_job(mr_cluster *c, mr_sv bytes)
{
    mr_pb_reader r, task;
    uint32_t field, wire;
    mr_sv job = MR_SV("");
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire))
        if (field == 1)
            job = mr_pb_bytes(&r);
        else
            mr_pb_skip(&r);
    MR_TRY(mr_pb_reader_status(&r, "JobDef"));
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire))
        if (field == 2 && mr_pb_message(&r, &task))
            MR_TRY(decode_task(c, job, &task));
        else if (field != 2)
            mr_pb_skip(&r);
    return mr_pb_reader_status(&r, "JobDef");
}

/* Adds the tasks of a ClusterDef to c. After an error c holds the tasks that were read before it. */
mr_status *mr_cluster_decode(mr_cluster *c, mr_sv cluster_def)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_pb_reader_init(&r, cluster_def);
    while (mr_pb_next(&r, &field, &wire))
        if (field == 1 && wire == MR_WIRE_BYTES)
            MR_TRY(decode_job(c, mr_pb_bytes(&r)));
        else
            mr_pb_skip(&r);
    return mr_pb_reader_status(&r, "ClusterDef");
}

/* Tasks of one job are neighbours, because they are sorted. */
void mr_cluster_encode(const mr_cluster *c, mr_str *out)
{
    mr_pb_writer w;
    mr_pb_writer_init(&w, out);
    for (int i = 0; i < c->tasks.n;) {
        const char *job = c->tasks.p[i].job;
        size_t in_job = mr_pb_begin(&w, 1);
        mr_pb_put_bytes(&w, 1, mr_sv_of(job));
        for (; i < c->tasks.n && strcmp(c->tasks.p[i].job, job) == 0; i++) {
            size_t in_task = mr_pb_begin(&w, 2);
            mr_pb_opt_varint(&w, 1, (uint64_t)c->tasks.p[i].number);
            mr_pb_put_bytes(&w, 2, mr_sv_of(c->tasks.p[i].address));
            mr_pb_end(&w, in_task);
        }
        mr_pb_end(&w, in_job);
    }
}

/* ---- ServerDef ---- */

void mr_server_def_deinit(mr_server_def *d)
{
    mr_cluster_deinit(&d->cluster);
    mr_free(d->job);
    mr_str_deinit(&d->config);
    *d = (mr_server_def){0};
}

/* The server's own task must be in its cluster. After an error the caller frees d. */
static mr_status *decode_server(mr_sv bytes, mr_server_def *d)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv job = MR_SV(""), config = MR_SV(""), protocol = MR_SV("");
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1: {
            mr_sv cluster = mr_pb_bytes(&r);
            MR_TRY(mr_cluster_decode(&d->cluster, cluster));
            break;
        }
        case 2: job = mr_pb_bytes(&r); break;
        case 3: d->task = mr_pb_int32(&r); break;
        case 4: config = mr_pb_bytes(&r); break;
        case 5: protocol = mr_pb_bytes(&r); break;
        case 6: d->port = mr_pb_int32(&r); break;
        default: mr_pb_skip(&r);
        }
    MR_TRY(mr_pb_reader_status(&r, "ServerDef"));
    /* An empty protocol is taken for "grpc". */
    if (protocol.n && !mr_sv_is(protocol, "grpc"))
        return mr_error(MR_NOT_FOUND,
                        "No server factory registered for the given ServerDef: protocol \"%.*s\"; there is \"grpc\"",
                        MR_SV_ARG(protocol));
    if (mr_cluster_find(&d->cluster, job, d->task) < 0)
        return mr_invalid("Task %d of job \"%.*s\" is not in the cluster", d->task, MR_SV_ARG(job));
    d->job = mr_strndup(job.p, job.n);
    mr_str_append(&d->config, config.p, config.n);
    return NULL;
}

mr_status *mr_server_def_decode(mr_sv server_def, mr_server_def *out)
{
    *out = (mr_server_def){0};
    mr_status *st = decode_server(server_def, out);
    if (st)
        mr_server_def_deinit(out);
    return st;
}
