/* ps/client.c -- a worker's side of the parameter server. */
#include "ps/client.h"

#include "base/thread.h"
#include "ps/keys.h"

enum { N_SLOTS = 240 };

struct mr_ps {
    mr_mutex mu;
    mr_ps_store store MR_GUARDED_BY(mu);
    mr_ps_task last MR_GUARDED_BY(mu);
    mr_ps_stats stats MR_GUARDED_BY(mu);
    int64_t iteration MR_GUARDED_BY(mu);
};

mr_status *mr_ps_open(const mr_ps_options *o, mr_ps **out)
{
    if (o->manager || o->task)
        return mr_error(MR_UNIMPLEMENTED, "Parameters are held in this process only");
    mr_ps *ps = mr_new(mr_ps);
    mr_mutex_init(&ps->mu);
    mr_ps_store_init(&ps->store, N_SLOTS, 0);
    *out = ps;
    return NULL;
}

void mr_ps_close(mr_ps *ps)
{
    if (!ps)
        return;
    mr_ps_store_deinit(&ps->store);
    mr_mutex_deinit(&ps->mu);
    mr_free(ps);
}

static mr_status *make_table_locked(mr_ps *ps, mr_ps_table_spec *t, int *out)
{
    for (int i = 0; i < ps->store.tables.n; i++)
        if (strcmp(ps->store.tables.p[i]->name, t->name) == 0) {
            bool same = mr_ps_table_spec_same(ps->store.tables.p[i], t);
            *out = i;
            return same ? mr_error(MR_ALREADY_EXISTS, " ") : mr_invalid("Table '%s' is there with other options", t->name);
        }
    *out = ps->store.tables.n;
    return mr_ps_store_add(&ps->store, t);
}

mr_status *mr_ps_make_table(mr_ps *ps, mr_sv name, const mr_ps_table_options *o, int *out)
{
    mr_ps_table_spec *t = mr_new(mr_ps_table_spec);
    mr_status *st = mr_ps_table_spec_init(t, name, o);
    if (!st) {
        mr_lock(&ps->mu);
        st = make_table_locked(ps, t, out);
        mr_unlock(&ps->mu);
        if (!st)
            return NULL;
        mr_ps_table_spec_deinit(t);
    }
    mr_free(t);
    if (mr_status_code(st) != MR_ALREADY_EXISTS)
        return st;
    mr_status_free(st);
    return NULL;
}

static mr_status *do_slot(mr_ps *ps, const mr_ps_job *j, int slot, mr_ps_keys k, size_t at)
{
    const mr_ps_table_spec *t = ps->store.tables.p[j->table];
    if (j->pull) {
        mr_ps_store_read(&ps->store, j->table, slot, k, j->whole, j->out + at * (j->whole ? mr_ps_table_row_floats(t) : (size_t)t->o.width));
        return NULL;
    }
    mr_ps_change c = {.kind = j->kind, .table = j->table, .keys = k, .floats = j->floats + at * mr_ps_change_width(t, j->kind)};
    MR_TRY(mr_ps_store_check(&ps->store, slot, &c));
    mr_ps_store_change(&ps->store, slot, &c);
    return NULL;
}

static mr_status *do_all_locked(mr_ps *ps, const mr_ps_job *j)
{
    const mr_ps_table_spec *t = ps->store.tables.p[j->table];
    mr_ps_keys k = j->keys;
    for (size_t at = 0; at < k.n;) {
        uint64_t first = k.list ? k.list[at] : k.first + at;
        int slot = mr_ps_slot_of(t->o.num_keys, N_SLOTS, first);
        uint64_t end = mr_ps_slot_first(t->o.num_keys, N_SLOTS, slot + 1);
        size_t n = 1;
        while (at + n < k.n && (k.list ? k.list[at + n] : k.first + at + n) < end)
            n++;
        MR_TRY(do_slot(ps, j, slot, (mr_ps_keys){k.list ? k.list + at : NULL, first, n}, at));
        at += n;
    }
    return NULL;
}

mr_status *mr_ps_begin(mr_ps *ps, const mr_ps_job *j, mr_ps_task *task)
{
    mr_status *st = NULL;
    mr_lock(&ps->mu);
    if (j->table < 0 || j->table >= ps->store.tables.n)
        st = mr_invalid("There is no table %d", j->table);
    else if (j->keys.list)
        st = mr_ps_keys_check(j->keys.list, j->keys.n, ps->store.tables.p[j->table]->o.num_keys);
    else if (j->keys.n && (j->keys.first >= ps->store.tables.p[j->table]->o.num_keys ||
                           j->keys.n > ps->store.tables.p[j->table]->o.num_keys - j->keys.first))
        st = mr_invalid("Table '%s' has no such keys", ps->store.tables.p[j->table]->name);
    if (!st)
        st = do_all_locked(ps, j);
    if (!st) {
        *task = ++ps->last;
        *(j->pull ? &ps->stats.pulls : &ps->stats.pushes) += 1;
    }
    mr_unlock(&ps->mu);
    if (!st && j->done)
        j->done(j->arg, *task, NULL);
    return st;
}

mr_status *mr_ps_end(mr_ps *ps, mr_ps_task t)
{
    mr_lock(&ps->mu);
    bool known = t > 0 && t <= ps->last;
    mr_unlock(&ps->mu);
    return known ? NULL : mr_error(MR_NOT_FOUND, "There is no task %lld", (long long)t);
}

mr_status *mr_ps_end_all(mr_ps *ps)
{
    (void)ps;
    return NULL;
}

mr_status *mr_ps_begin_flush(mr_ps *ps, int table, mr_ps_task *task)
{
    (void)ps, (void)table;
    *task = 0;
    return NULL;
}

mr_status *mr_ps_compute(mr_ps *ps, mr_ps_algebra what, int a, int b, double alpha, double *result)
{
    mr_status *st = NULL;
    mr_ps_change c = {.kind = MR_PS_CHANGE_ALGEBRA, .table = a, .what = what, .other = b, .alpha = alpha};
    mr_lock(&ps->mu);
    *result = 0;
    for (int i = 0; !st && i < N_SLOTS; i++) {
        double sum = 0;
        st = mr_ps_store_check(&ps->store, i, &c);
        if (!st && (what == MR_PS_DOT || what == MR_PS_NORM1))
            st = mr_ps_store_reduce(&ps->store, i, what, a, b, &sum);
        else if (!st)
            mr_ps_store_change(&ps->store, i, &c);
        *result += sum;
    }
    mr_unlock(&ps->mu);
    return st;
}

mr_status *mr_ps_next_iteration(mr_ps *ps, int64_t *out)
{
    mr_lock(&ps->mu);
    *out = ++ps->iteration;
    mr_unlock(&ps->mu);
    return NULL;
}

void mr_ps_count(mr_ps *ps, mr_ps_stats *out)
{
    mr_lock(&ps->mu);
    *out = ps->stats;
    out->iteration = ps->iteration;
    out->servers = 1;
    mr_unlock(&ps->mu);
}
