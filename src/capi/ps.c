/* capi/ps.c -- millrace/ps.h: checks the arguments of clients and calls src/ps. */
#include "millrace/ps.h"

#include "capi/cluster_internal.h"
#include "capi/internal.h"
#include "ps/client.h"
#include "ps/manager.h"
#include "ps/server.h"

static mr_status *no_client(void) { return mr_invalid("The parameter server client is NULL"); }

/* ---- the manager and servers ---- */

/* The address of the manager of a cluster: the first parameter server task. */
static mr_status *manager_of(const mr_cluster_task *t, const char **out)
{
    int i = mr_cluster_find(&t->def.cluster, MR_SV("ps"), 0);
    if (i < 0)
        return mr_invalid("The cluster has no job 'ps'; its task 0 runs the parameter server manager");
    *out = t->def.cluster.tasks.p[i].address;
    return NULL;
}

mr_ps_manager *mr_ps_manager_start(const mr_ps_manager_options *options, TF_Status *status)
{
    mr_ps_manager_options o;
    mr_ps_manager *m = NULL;
    mr_capi_init();
    mr_status *st = mr_capi_take_options(options, &o, sizeof o);
    if (!st)
        st = mr_ps_manager_open(&o, o.task ? o.task->server : NULL, &m);
    mr_capi_set_status(status, st);
    return m;
}

const char *mr_ps_manager_address(const mr_ps_manager *m) { return m ? mr_ps_manager_where(m) : ""; }
void mr_ps_manager_free(mr_ps_manager *m) { mr_ps_manager_close(m); }

mr_ps_server *mr_ps_server_start(const mr_ps_server_options *options, TF_Status *status)
{
    mr_ps_server_options o;
    mr_ps_server *s = NULL;
    mr_capi_init();
    mr_status *st = mr_capi_take_options(options, &o, sizeof o);
    if (!st && o.task && !o.manager)
        st = manager_of(o.task, &o.manager);
    if (!st)
        st = mr_ps_server_open(&o, o.task ? o.task->server : NULL, &s);
    mr_capi_set_status(status, st);
    return s;
}

const char *mr_ps_server_address(const mr_ps_server *s) { return s ? mr_ps_server_where(s) : ""; }
void mr_ps_server_free(mr_ps_server *s) { mr_ps_server_close(s); }

void mr_ps_server_leave(mr_ps_server *s, TF_Status *status)
{
    mr_capi_set_status(status,
                       s ? mr_ps_server_hand_over(s) : mr_invalid("The parameter server is NULL"));
}

/* ---- a client ---- */

mr_ps *mr_ps_connect(const mr_ps_options *options, TF_Status *status)
{
    mr_ps_options o;
    mr_ps *ps = NULL;
    mr_capi_init();
    mr_status *st = mr_capi_take_options(options, &o, sizeof o);
    if (!st && o.task)
        st = manager_of(o.task, &o.manager);
    if (!st)
        st = mr_ps_open(&o, &ps);
    mr_capi_set_status(status, st);
    return ps;
}

void mr_ps_free(mr_ps *ps) { mr_ps_close(ps); }

int mr_ps_table(mr_ps *ps, const char *name, const mr_ps_table_options *options, TF_Status *status)
{
    mr_ps_table_options o;
    int table = -1;
    mr_status *st = ps ? NULL : no_client();
    if (!st && (!name || !options))
        st = mr_invalid("The name or the options of a table are NULL");
    if (!st)
        st = mr_capi_take_options(options, &o, sizeof o);
    if (!st)
        st = mr_ps_make_table(ps, mr_sv_of(name), &o, &table);
    mr_capi_set_status(status, st);
    return st ? -1 : table;
}

/* ---- tasks ---- */

typedef struct told { /* a client's callback */
    void (*done)(void *arg, mr_ps_task t, const TF_Status *status);
    void *arg;
} told;

static void call_done(void *arg, mr_ps_task t, const mr_status *st)
{
    told *to = arg;
    TF_Status status = {.error = mr_status_copy(st)};
    to->done(to->arg, t, &status);
    mr_status_free(status.error);
    mr_free(to);
}

/* Checks the arguments and begins a push or pull. The callback of the client is wrapped in a told, which call_done
 * frees after the call, or this function after an error. */
static mr_status *begin_job(mr_ps *ps, mr_ps_job *j, const mr_ps_call *call, mr_ps_task *task)
{
    mr_ps_call c;
    if (!ps)
        return no_client();
    if (j->keys.n > 0 && !(j->pull ? (const void *)j->out : (const void *)j->floats))
        return mr_invalid("values is NULL although there are %zu keys", j->keys.n);
    MR_TRY(mr_capi_take_options(call, &c, sizeof c));
    if (c.num_after < 0 || (c.num_after > 0 && !c.after))
        return mr_invalid("after is NULL, or its length %d is negative", c.num_after);
    j->call = &c;
    if (c.done) {
        told *to = mr_new(told);
        *to = (told){c.done, c.arg};
        j->done = call_done;
        j->arg = to;
    }
    mr_status *st = mr_ps_begin(ps, j, task);
    if (st)
        mr_free(j->arg);
    return st;
}

static mr_ps_task begin_listed(mr_ps *ps, mr_ps_job *j, const mr_ps_call *call, TF_Status *status)
{
    mr_ps_task task = 0;
    bool listed = j->keys.list || j->keys.n == 0;
    mr_status *st =
        listed ? begin_job(ps, j, call, &task) : mr_invalid("keys is NULL although there are %zu keys", j->keys.n);
    mr_capi_set_status(status, st);
    return st ? 0 : task;
}

static mr_ps_task begin_range(mr_ps *ps, mr_ps_job *j, const mr_ps_call *call, TF_Status *status)
{
    mr_ps_task task = 0;
    mr_status *st = begin_job(ps, j, call, &task);
    mr_capi_set_status(status, st);
    return st ? 0 : task;
}

mr_ps_task mr_ps_push(mr_ps *ps, int table, const uint64_t *keys, size_t n, const float *values,
                      const mr_ps_call *call, TF_Status *status)
{
    mr_ps_job j = {
        .kind = MR_PS_CHANGE_PUSH, .table = table, .keys = {.list = keys, .n = n}, .floats = values};
    return begin_listed(ps, &j, call, status);
}

mr_ps_task mr_ps_pull(mr_ps *ps, int table, const uint64_t *keys, size_t n, float *values,
                      const mr_ps_call *call, TF_Status *status)
{
    mr_ps_job j = {.pull = true, .table = table, .keys = {.list = keys, .n = n}, .out = values};
    return begin_listed(ps, &j, call, status);
}

mr_ps_task mr_ps_push_range(mr_ps *ps, int table, uint64_t first, size_t n, const float *values,
                            const mr_ps_call *call, TF_Status *status)
{
    mr_ps_job j = {
        .kind = MR_PS_CHANGE_PUSH, .table = table, .keys = {.first = first, .n = n}, .floats = values};
    return begin_range(ps, &j, call, status);
}

mr_ps_task mr_ps_pull_range(mr_ps *ps, int table, uint64_t first, size_t n, float *values,
                            const mr_ps_call *call, TF_Status *status)
{
    mr_ps_job j = {.pull = true, .table = table, .keys = {.first = first, .n = n}, .out = values};
    return begin_range(ps, &j, call, status);
}

void mr_ps_wait(mr_ps *ps, mr_ps_task t, TF_Status *status)
{
    mr_capi_set_status(status, ps ? mr_ps_end(ps, t) : no_client());
}
void mr_ps_wait_all(mr_ps *ps, TF_Status *status)
{
    mr_capi_set_status(status, ps ? mr_ps_end_all(ps) : no_client());
}

mr_ps_task mr_ps_flush(mr_ps *ps, int table, TF_Status *status)
{
    mr_ps_task task = 0;
    mr_status *st = ps ? mr_ps_begin_flush(ps, table, &task) : no_client();
    mr_capi_set_status(status, st);
    return st ? 0 : task;
}

void mr_ps_bind(mr_ps *ps, const char *name, TF_Status *status)
{
    mr_capi_set_status(status, ps ? mr_ps_bind_store(ps, name) : no_client());
}

/* ---- vectors, iterations, snapshots and statistics ---- */

void mr_ps_vector(mr_ps *ps, mr_ps_algebra what, int a, int b, double alpha, double *result,
                  TF_Status *status)
{
    double none = 0;
    mr_capi_set_status(status,
                       ps ? mr_ps_compute(ps, what, a, b, alpha, result ? result : &none) : no_client());
}

int64_t mr_ps_iteration(mr_ps *ps, TF_Status *status)
{
    int64_t i = -1;
    mr_status *st = ps ? mr_ps_next_iteration(ps, &i) : no_client();
    mr_capi_set_status(status, st);
    return st ? -1 : i;
}

void mr_ps_snapshot(mr_ps *ps, const char *folder, TF_Status *status)
{
    mr_capi_set_status(status, !ps      ? no_client()
                               : folder ? mr_ps_save(ps, folder)
                                        : mr_invalid("folder is NULL"));
}

void mr_ps_restore(mr_ps *ps, const char *folder, TF_Status *status)
{
    mr_capi_set_status(status, !ps      ? no_client()
                               : folder ? mr_ps_load(ps, folder)
                                        : mr_invalid("folder is NULL"));
}

void mr_ps_get_stats(mr_ps *ps, mr_ps_stats *out)
{
    mr_ps_stats s = {0};
    if (!out || out->struct_size < sizeof(size_t) || out->struct_size > (1 << 16))
        return;
    size_t size = out->struct_size;
    if (ps)
        mr_ps_count(ps, &s);
    memset(out, 0, size);
    memcpy(out, &s, MR_MIN(size, sizeof s)); /* an older program's struct is shorter */
    out->struct_size = size;
}

unsigned char mr_ps_settled(mr_ps *ps, TF_Status *status)
{
    bool quiet = false;
    mr_status *st = ps ? mr_ps_is_quiet(ps, &quiet) : no_client();
    mr_capi_set_status(status, st);
    return !st && quiet;
}

int mr_ps_worker_waits(mr_ps *ps, mr_ps_worker_stats *rows, int max, TF_Status *status)
{
    int n = 0;
    mr_status *st = ps ? mr_ps_waits(ps, rows, max, &n) : no_client();
    mr_capi_set_status(status, st);
    return st ? 0 : n;
}
