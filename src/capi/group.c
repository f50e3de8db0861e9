/* capi/group.c -- millrace/group.h on the client's types. */
#include "millrace/group.h"

#include <stdlib.h>

#include "base/deterministic.h"
#include "capi/internal.h"
#include "group/group.h"
#include "group/place.h"

/* ---- joining ---- */

/* Options that are not set are taken from the environment. */
static mr_status *find_place(const mr_group_options *o, mr_place *p)
{
    *p = (mr_place){.rank = o->rank, .size = o->size, .one_host = true};
    if (o->size == 0)
        MR_TRY(mr_place_find(p));
    if (!o->addresses)
        return NULL;
    while (p->addresses.n)
        mr_free(mr_vec_pop(&p->addresses));
    MR_TRY(mr_place_addresses(p, o->addresses));
    for (int i = 0; i < p->addresses.n; i++)
        p->one_host &= mr_place_is_local(p->addresses.p[i]);
    return NULL;
}

static const char *choose_transport(const mr_group_options *o, const mr_place *p)
{
    const char *wanted = o->transport ? o->transport : getenv("MILLRACE_GROUP_TRANSPORT");
    if (wanted && wanted[0])
        return wanted;
    return p->one_host ? "shm" : "grpc";
}

static mr_status *open_group(const mr_group_options *o, mr_group **out)
{
    mr_place p;
    mr_status *st = find_place(o, &p);
    if (!st) {
        const char *transport = choose_transport(o, &p);
        mr_group_config c = {.name = o->name ? o->name : p.name.n ? mr_str_z(&p.name) : "group", .transport = transport,
                             .rank = p.rank, .size = p.size, .least = o->min_size, .folder = o->folder,
                             .addresses = (const char *const *)p.addresses.p, .n_addresses = p.addresses.n,
                             .join_ns = o->join_ms * 1000000, .timeout_ns = o->timeout_ms * 1000000,
                             .cycle_ns = o->cycle_ms * 1000000, .fusion_bytes = o->fusion_bytes};
        st = mr_group_open(&c, out);
    }
    mr_place_deinit(&p);
    return st;
}

static mr_status *check_options(const mr_group_options *o)
{
    const int64_t most = INT64_MAX / 1000000 / 2;
    if (o->size < 0 || o->join_ms < 0 || o->join_ms > most || o->timeout_ms < 0 || o->timeout_ms > most || o->cycle_ms < 0 ||
        o->cycle_ms > most || o->fusion_bytes < 0 || o->min_size < 0)
        return mr_invalid("group: an option is out of range");
    return NULL;
}

mr_group *mr_group_join(const mr_group_options *options, TF_Status *status)
{
    mr_group_options o;
    mr_group *g = NULL;
    mr_capi_init();
    mr_status *st = mr_capi_take_options(options, &o, sizeof o);
    if (!st)
        st = check_options(&o);
    if (!st)
        st = open_group(&o, &g);
    mr_capi_set_status(status, st);
    return g;
}

void mr_group_free(mr_group *g) { mr_group_close(g); }
int mr_group_rank(mr_group *g) { return g ? mr_group_own_rank(g) : -1; }
int mr_group_size(mr_group *g) { return g ? mr_group_n_members(g) : 0; }
int64_t mr_group_generation(mr_group *g) { return g ? mr_group_number(g) : 0; }
unsigned char mr_group_waiting(mr_group *g) { return g && mr_group_is_wanted(g); }

static mr_status *no_group(void) { return mr_invalid("The group is NULL"); }

void mr_group_reform(mr_group *g, TF_Status *status) { mr_capi_set_status(status, g ? mr_group_form(g) : no_group()); }

/* ---- operations ---- */

/* The way of merging as the layers below have it. */
static mr_status *set_reduction(mr_group_work *w, mr_group_reduction how)
{
    static const mr_merge merges[] = {MR_MERGE_ADD, MR_MERGE_MUL, MR_MERGE_MIN, MR_MERGE_MAX, MR_MERGE_ADD};
    if ((unsigned)how >= (unsigned)MR_COUNT(merges))
        return mr_invalid("group: there is no reduction %d", (int)how);
    w->merge = merges[how];
    w->mean = how == MR_GROUP_MEAN;
    return NULL;
}

static void run_work(mr_group *g, const mr_group_work *w, TF_Status *status)
{
    mr_capi_set_status(status, g ? mr_group_run(g, w) : no_group());
}

static void run_reduction(mr_group *g, mr_group_work w, mr_group_reduction how, TF_Status *status)
{
    mr_status *st = set_reduction(&w, how);
    w.deterministic |= mr_deterministic();
    if (!st && w.kind == MR_GROUP_REDUCE_SCATTER && g && w.count % mr_group_n_members(g))
        st = mr_invalid("group: %lld elements are not a multiple of %d members", (long long)w.count, mr_group_n_members(g));
    if (st)
        mr_capi_set_status(status, st);
    else
        run_work(g, &w, status);
}

void mr_group_all_reduce(mr_group *g, const void *in, void *out, int64_t count, TF_DataType type, mr_group_reduction how,
                         TF_Status *status)
{
    run_reduction(
        g, (mr_group_work){.kind = MR_GROUP_ALL_REDUCE, .type = (mr_dtype)type, .in = in, .out = out, .count = count},
        how, status);
}

void mr_group_all_reduce_in_order(mr_group *g, const void *in, void *out, int64_t count, TF_DataType type, mr_group_reduction how,
                                  TF_Status *status)
{
    run_reduction(g,
                  (mr_group_work){.kind = MR_GROUP_ALL_REDUCE,
                                  .type = (mr_dtype)type,
                                  .in = in,
                                  .out = out,
                                  .count = count,
                                  .deterministic = true},
                  how, status);
}

void mr_group_reduce_scatter(mr_group *g, const void *in, void *out, int64_t count, TF_DataType type, mr_group_reduction how,
                             TF_Status *status)
{
    run_reduction(
        g,
        (mr_group_work){.kind = MR_GROUP_REDUCE_SCATTER, .type = (mr_dtype)type, .in = in, .out = out, .count = count},
        how, status);
}

void mr_group_all_gather(mr_group *g, const void *in, void *out, int64_t count, TF_DataType type, TF_Status *status)
{
    run_work(
        g, &(mr_group_work){.kind = MR_GROUP_ALL_GATHER, .type = (mr_dtype)type, .in = in, .out = out, .count = count},
        status);
}

void mr_group_broadcast(mr_group *g, const void *in, void *out, int64_t count, TF_DataType type, int root, TF_Status *status)
{
    run_work(
        g,
        &(mr_group_work){
            .kind = MR_GROUP_BROADCAST, .type = (mr_dtype)type, .in = in, .out = out, .count = count, .root = root},
        status);
}

void mr_group_all_to_all(mr_group *g, const void *in, void *out, int64_t count, TF_DataType type, TF_Status *status)
{
    run_work(
        g, &(mr_group_work){.kind = MR_GROUP_ALL_TO_ALL, .type = (mr_dtype)type, .in = in, .out = out, .count = count},
        status);
}

void mr_group_barrier(mr_group *g, TF_Status *status)
{
    run_work(g, &(mr_group_work){.kind = MR_GROUP_BARRIER}, status);
}

/* ---- asynchronously ---- */

struct mr_group_pending {
    mr_mutex mu;
    mr_cond changed;
    bool done MR_GUARDED_BY(mu);
    mr_status *st MR_GUARDED_BY(mu);
};

static void pending_free(mr_group_pending *p)
{
    mr_cond_deinit(&p->changed);
    mr_mutex_deinit(&p->mu);
    mr_free(p);
}

static void work_ended(void *arg, mr_status *st)
{
    mr_group_pending *p = arg;
    mr_lock(&p->mu);
    p->done = true;
    p->st = st;
    mr_cond_broadcast(&p->changed);
    mr_unlock(&p->mu);
}

mr_group_pending *mr_group_all_reduce_async(mr_group *g, const char *name, const void *in, void *out, int64_t count, TF_DataType type,
                                            mr_group_reduction how, TF_Status *status)
{
    mr_group_pending *p = mr_new(mr_group_pending);
    mr_mutex_init(&p->mu);
    mr_cond_init(&p->changed);
    mr_group_request r = {.work = {.kind = MR_GROUP_ALL_REDUCE, .type = (mr_dtype)type, .in = in, .out = out, .count = count,
                                   .deterministic = mr_deterministic()},
                          .name = name, .done = work_ended, .arg = p};
    mr_status *st = g ? set_reduction(&r.work, how) : no_group();
    if (!st)
        st = mr_group_begin(g, &r);
    mr_capi_set_status(status, st);
    if (!st)
        return p;
    pending_free(p);
    return NULL;
}

unsigned char mr_group_is_done(mr_group_pending *p)
{
    if (!p)
        return 1;
    mr_lock(&p->mu);
    bool done = p->done;
    mr_unlock(&p->mu);
    return done;
}

void mr_group_wait(mr_group_pending *p, TF_Status *status)
{
    if (!p) {
        mr_capi_set_status(status, mr_invalid("The pending operation is NULL"));
        return;
    }
    mr_lock(&p->mu);
    while (!p->done)
        mr_cond_wait(&p->changed, &p->mu);
    mr_status *st = p->st;
    mr_unlock(&p->mu);
    mr_capi_set_status(status, st);
    pending_free(p);
}

/* ---- memory ---- */

void *mr_group_alloc(mr_group *g, size_t bytes) { return g ? mr_group_memory(g, bytes) : NULL; }

void mr_group_release(mr_group *g, void *memory)
{
    if (g)
        mr_group_memory_free(g, memory);
}
