/* ps/client_begin.c -- checks, filters, splits and begins pushes and pulls.
 *
 * All of this runs on the caller's thread. The caller's keys and floats are copied into the task's
 * blob before any filter changes them. Then the rows are split at the borders of the ranges: piece
 * i of a task has the rows at[i] to at[i + 1], so `at` has one entry more than `pieces`. The task
 * becomes visible to the client's thread only in mr_ps_task_begin, under the lock. */
#include "ps/client_internal.h"

#include "base/clock.h"

void mr_ps_task_free(mr_ps_client_task *t)
{
    if (!t)
        return;
    mr_ps_blob_unref(t->blob);
    mr_free(t->present);
    mr_vec_deinit(&t->pieces);
    mr_vec_deinit(&t->at);
    mr_status_free(t->why);
    mr_free(t);
}

/* ---- splitting ---- */

/* bytes is an upper bound: keys may go as a hash, and floats may be packed. */
static void add_piece(mr_ps_client_task *t, int range, size_t rows, size_t at)
{
    MR_ASSERT(range >= 0 && (t->pieces.n == 0 || mr_vec_last(&t->pieces).range < range));
    mr_vec_push(&t->pieces,
                (mr_psc_piece){.range = range, .bytes = rows * (t->width * sizeof(float) + sizeof(uint64_t))});
    mr_vec_push(&t->at, at);
}

/* The first row at or after `from` whose key is not below `end`. */
static size_t find_end(mr_ps_keys k, size_t from, uint64_t end)
{
    size_t lo = from, hi = k.n;
    if (!k.list)
        return end <= k.first ? from : (size_t)MR_MIN((uint64_t)k.n, end - k.first);
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (k.list[mid] < end)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Splits the rows at the borders of the ranges. all: a piece also for ranges without keys, for
 * tables that aggregate: every range counts the pushes of a round. */
static void split_rows(mr_ps_client_task *t, uint64_t num_keys, int n_ranges, mr_ps_keys k, bool all)
{
    size_t at = 0;
    for (int range = 0; range < n_ranges && (all || at < k.n);) {
        if (!all) /* skip the ranges without keys */
            range = mr_ps_range_of(num_keys, n_ranges, k.list ? k.list[at] : k.first + at);
        size_t end = find_end(k, at, mr_ps_range_first(num_keys, n_ranges, range + 1));
        add_piece(t, range, end - at, at);
        at = end;
        range++;
    }
    MR_ASSERT(at == k.n || all);
    mr_vec_push(&t->at, k.n);
    MR_ASSERT(t->at.n == t->pieces.n + 1);
}

/* ---- checking ---- */

/* Keys come from the API's caller: a list must rise, a range must be inside the table. */
static mr_status *check_keys(const mr_ps_table_spec *t, mr_ps_keys k)
{
    if (k.list)
        return mr_status_prepend(mr_ps_keys_check(k.list, k.n, t->o.num_keys), "Table '%s': ", t->name);
    if (k.n && (k.first >= t->o.num_keys || k.n > t->o.num_keys - k.first))
        return mr_invalid("Table '%s' has %llu keys; %zu keys from %llu on are out of range", t->name,
                          (unsigned long long)t->o.num_keys, k.n, (unsigned long long)k.first);
    return NULL;
}

/* Filters are for pushes. `modified` needs a rule under which a change may be sent later. */
static mr_status *check_call(const mr_ps_table_spec *t, const mr_ps_job *j)
{
    const mr_ps_call *c = j->call;
    if (!c)
        return NULL;
    if (!(c->keep >= 0 && c->keep <= 1) || !(c->modified >= 0))
        return mr_invalid("keep is %g, expected 0 to 1; modified is %g, expected 0 or more", (double)c->keep,
                          (double)c->modified);
    if (j->pull && (c->keep > 0 || c->modified > 0 || c->kkt))
        return mr_invalid("Filters (keep, modified, kkt) apply to pushes, not to pulls");
    if (c->modified > 0 && t->o.update != MR_PS_ADD && t->o.update != MR_PS_SGD &&
        t->o.update != MR_PS_ASSIGN)
        return mr_invalid("Table '%s': the filter 'modified' needs update ADD, SGD or ASSIGN", t->name);
    if (c->kkt && t->o.update != MR_PS_PROXIMAL)
        return mr_invalid("Table '%s': the KKT filter needs update PROXIMAL", t->name);
    return NULL;
}

/* ---- filters ---- */

/* What the filter `modified` holds back of a table; made when it is first needed. */
static mr_ps_residuals *residuals_locked(mr_ps *ps, int table, const mr_ps_table_spec *t) MR_REQUIRES(ps->mu);
static mr_ps_residuals *residuals_locked(mr_ps *ps, int table, const mr_ps_table_spec *t)
{
    while (ps->kept_back.n <= table)
        mr_vec_push(&ps->kept_back, (mr_ps_kept_back){0});
    mr_ps_residuals **r = &ps->kept_back.p[table].residuals;
    if (!*r)
        *r = mr_ps_residuals_new(mr_ps_table_push_width(t), t->o.update == MR_PS_ASSIGN);
    return *r;
}

/* The filter needs the keys as a list, which is made for the moment if the push is of a range. The
 * lock is held for the whole filter: pushes of several threads share the residuals. */
static mr_status *filter_modified(mr_ps *ps, const mr_ps_table_spec *t, const mr_ps_job *j,
                                  mr_ps_client_task *k, float *floats, mr_ps_filter_stats *stats)
{
    uint64_t *made = NULL;
    const uint64_t *keys = k->change.keys.list;
    if (!keys) {
        made = mr_try_alloc(j->keys.n * sizeof *made);
        if (!made)
            return mr_error(MR_RESOURCE_EXHAUSTED, "No memory for %zu keys", j->keys.n);
        for (size_t i = 0; i < j->keys.n; i++)
            made[i] = j->keys.first + i;
        keys = made;
    }
    mr_lock(&ps->mu);
    mr_status *st = mr_ps_filter_modified(residuals_locked(ps, j->table, t), keys, j->keys.n, floats,
                                          t->o.width, j->call->modified, k->present, stats);
    mr_unlock(&ps->mu);
    mr_free(made);
    return st;
}

/* Decides which rows are sent (k->present). The order is fixed: KKT, `modified`, random skip.
 * floats may be changed; they are the task's copy. */
static mr_status *filter_rows(mr_ps *ps, const mr_ps_table_spec *t, const mr_ps_job *j, mr_ps_client_task *k,
                              float *floats)
{
    MR_ASSERT(!j->pull && !k->present && j->call);
    const mr_ps_call *c = j->call;
    mr_ps_filter_stats stats = {0};
    size_t n = j->keys.n;
    int push_width = mr_ps_table_push_width(t);
    k->present = mr_try_alloc(n + 1);
    if (!k->present)
        return mr_error(MR_RESOURCE_EXHAUSTED, "No memory to filter %zu rows", n);
    memset(k->present, 1, n);
    if (c->kkt) {
        float threshold = c->kkt_threshold > 0 ? c->kkt_threshold : t->o.l1 * MR_PS_KKT_SHARE;
        mr_ps_filter_kkt(c->kkt, floats, n, t->o.width, push_width, threshold, k->present, &stats);
    }
    if (c->modified > 0)
        MR_TRY(filter_modified(ps, t, j, k, floats, &stats));
    if (c->keep > 0 && c->keep < 1) {
        mr_lock(&ps->mu);
        uint64_t seed = ++ps->seed;
        mr_unlock(&ps->mu);
        mr_ps_filter_skip(floats, n, push_width, c->keep, seed, k->present, &stats);
    }
    return NULL;
}

/* ---- copying ---- */

/* Copies the caller's keys, and the floats of a push, into a blob of the task. */
static mr_status *copy_in(mr_ps_client_task *k, const mr_ps_job *j)
{
    size_t keys = 0, floats = 0, bytes;
    bool ok = !j->keys.list || mr_size_mul(j->keys.n, sizeof(uint64_t), &keys);
    ok = ok && (j->pull || mr_size_mul(j->keys.n, k->width * sizeof(float), &floats)) &&
         mr_size_add(keys, floats, &bytes);
    k->blob = ok ? mr_ps_blob_new(bytes) : NULL;
    if (!k->blob)
        return mr_error(MR_RESOURCE_EXHAUSTED, "No memory for a task of %zu keys", j->keys.n);
    if (keys)
        memcpy(k->blob->data, j->keys.list, keys);
    if (floats)
        memcpy(k->blob->data + keys, j->floats, floats);
    k->change.keys = (mr_ps_keys){keys ? (const uint64_t *)k->blob->data : NULL, j->keys.first, j->keys.n};
    k->change.floats = (const float *)(k->blob->data + keys);
    return NULL;
}

/* Statistics: rows that were pushed, and rows that the filters left. */
static void count_rows(mr_ps *ps, const mr_ps_client_task *k)
{
    size_t sent = k->change.keys.n;
    for (size_t i = 0; k->present && i < k->change.keys.n; i++)
        sent -= !k->present[i];
    mr_lock(&ps->mu);
    ps->stats.rows_offered += (int64_t)k->change.keys.n;
    ps->stats.rows_sent += (int64_t)sent;
    mr_unlock(&ps->mu);
}

/* Fills in a task. After an error the caller frees it. */
static mr_status *make_task(mr_ps *ps, const mr_ps_table_spec *t, const mr_ps_job *j, mr_ps_client_task *k)
{
    k->pull = j->pull;
    k->whole = j->whole;
    k->out = j->out;
    k->done = j->done;
    k->arg = j->arg;
    k->change = (mr_ps_change){.kind = j->kind, .table = j->table};
    k->width = !j->pull   ? mr_ps_change_width(t, j->kind)
               : j->whole ? mr_ps_table_row_floats(t)
                          : (size_t)t->o.width;
    MR_TRY(copy_in(k, j));
    if (!j->pull && j->call &&
        (j->call->kkt || j->call->modified > 0 || (j->call->keep > 0 && j->call->keep < 1)))
        MR_TRY(filter_rows(ps, t, j, k, (float *)(uintptr_t)k->change.floats));
    if (!j->pull && j->kind == MR_PS_CHANGE_PUSH)
        count_rows(ps, k);
    mr_lock(&ps->mu);
    int n_ranges = ps->n_ranges;
    mr_unlock(&ps->mu);
    split_rows(k, t->o.num_keys, n_ranges, k->change.keys,
               !j->pull && j->kind == MR_PS_CHANGE_PUSH && t->o.aggregate > 1);
    return NULL;
}

/* ---- starting ---- */

/* What a push counts against max_bytes; pulls count nothing. */
static size_t bytes_of(const mr_ps_client_task *t)
{
    size_t n = 0;
    for (int i = 0; !t->pull && i < t->pieces.n; i++)
        n += t->pieces.p[i].bytes;
    return n;
}

/* Waits until the pushes under way leave room for another. The client's thread wakes it. */
static mr_status *wait_for_room_locked(mr_ps *ps, size_t bytes, int64_t until_ns) MR_REQUIRES(ps->mu);
static mr_status *wait_for_room_locked(mr_ps *ps, size_t bytes, int64_t until_ns)
{
    bool in_time = true;
    while (!mr_psc_room(ps->psc, bytes) && !ps->refused && in_time)
        in_time = mr_cond_wait_until(&ps->changed, &ps->mu, until_ns);
    if (ps->refused)
        return mr_status_copy(ps->refused);
    return in_time ? NULL
                   : mr_error(MR_DEADLINE_EXCEEDED, "No room for a push of %zu bytes: earlier pushes are not answered",
                              bytes);
}

/* The deadline counts from here, including the wait for room. */
mr_status *mr_ps_task_begin(mr_ps *ps, mr_ps_client_task *t, const mr_ps_task *after, int n_after,
                            mr_ps_task *number)
{
    int64_t now = mr_now_ns(), until = now + ps->timeout_ns;
    MR_ASSERT(t->at.n == t->pieces.n + 1 && t->refs == 0);
    mr_lock(&ps->mu);
    mr_status *st = t->pull ? mr_status_copy(ps->refused) : wait_for_room_locked(ps, bytes_of(t), until);
    if (!st)
        st = mr_psc_begin(ps->psc, !t->pull, t->pieces.p, t->pieces.n, after, n_after, until, mr_now_ns(),
                          &t->number, &ps->actions);
    if (!st) {
        t->refs = 1;
        t->since_ns = now;
        mr_imap_put(&ps->tasks, (uint64_t)t->number, t);
        *number = ps->last = t->number;
        mr_ps_nudge_locked(ps);
    }
    mr_unlock(&ps->mu);
    if (st)
        mr_ps_task_free(t);
    return st;
}

/* If it fails, nothing is sent; but filters may have changed what `modified` holds back by then. */
mr_status *mr_ps_begin(mr_ps *ps, const mr_ps_job *j, mr_ps_task *number)
{
    mr_status *st = NULL;
    const mr_ps_table_spec *t = mr_ps_find_table(ps, j->table, &st);
    mr_ps_client_task *k = mr_new(mr_ps_client_task);
    if (!st)
        st = check_keys(t, j->keys);
    if (!st)
        st = check_call(t, j);
    if (!st)
        st = make_task(ps, t, j, k);
    if (st) {
        mr_ps_task_free(k);
        return st;
    }
    return mr_ps_task_begin(ps, k, j->call ? j->call->after : NULL, j->call ? j->call->num_after : 0, number);
}

/* An ordinary push without filters. What it takes out of the residuals is lost if the push fails. */
mr_status *mr_ps_begin_flush(mr_ps *ps, int table, mr_ps_task *task)
{
    uint64_t *keys = NULL;
    float *values = NULL;
    size_t n = 0;
    mr_status *st = NULL;
    *task = 0;
    if (!mr_ps_find_table(ps, table, &st))
        return st;
    mr_lock(&ps->mu);
    mr_ps_residuals *r = table < ps->kept_back.n ? ps->kept_back.p[table].residuals : NULL;
    if (r && mr_ps_residuals_count(r) > 0)
        st = mr_ps_residuals_flush(r, &keys, &values, &n);
    mr_unlock(&ps->mu);
    if (!st && n > 0)
        st = mr_ps_begin(
            ps,
            &(mr_ps_job){
                .kind = MR_PS_CHANGE_PUSH, .table = table, .keys = {.list = keys, .n = n}, .floats = values},
            task);
    mr_free(keys);
    mr_free(values);
    return st;
}
