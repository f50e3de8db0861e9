/* distbelief/downpour_values.c -- the tables of a Downpour job, and their initial values.
 *
 * Besides the model's tables a job has NAME/job: the steps that all replicas have pushed (two keys),
 * whether the tables have their initial values, and how many pieces of these have been pushed. Servers
 * add to these keys, so replicas may write them at the same time. */
#include "base/clock.h"
#include "base/log.h"
#include "base/long_wait.h"
#include "distbelief/downpour_internal.h"

enum { KEYS_AT_ONCE = 1 << 16 };

/* ---- tables ---- */

/* The tables of the model have the job's update rule. */
static mr_ps_table_options table_options(const mr_downpour_options *o, uint64_t keys, int64_t width)
{
    return (mr_ps_table_options){.struct_size = sizeof(mr_ps_table_options), .num_keys = keys, .width = (int)width,
                                 .update = o->update, .rate = o->rate, .a = o->a, .b = o->b, .epsilon = o->epsilon};
}

/* Finds or makes the table JOB/what. model: it holds parameters; otherwise values are added. */
static mr_status *make_table(mr_downpour_replica *p, const char *what, uint64_t keys, int64_t width, bool model,
                             int *out)
{
    mr_ps_table_options t = {.struct_size = sizeof t, .num_keys = keys, .width = 1, .update = MR_PS_ADD};
    if (width < 1 || width > MR_PS_MAX_WIDTH)
        return mr_invalid("'%s': a row has %lld numbers, but a key of the parameter server has 1 to %d", what,
                          (long long)width, MR_PS_MAX_WIDTH);
    if (model)
        t = table_options(&p->o, keys, width);
    char *name = mr_printf("%s/%s", p->o.name, what);
    mr_status *st = mr_ps_make_table(p->ps, mr_sv_of(name), &t, out);
    mr_free(name);
    return st;
}

/* All replicas make the same tables; the first one creates them. A model without dense gradients has no vector. */
mr_status *mr_downpour_replica_make_tables(mr_downpour_replica *p)
{
    p->vector = -1;
    MR_TRY(make_table(p, "job", JOB_KEYS, 1, false, &p->job));
    if (p->m.keys)
        MR_TRY(make_table(p, "vector", p->m.keys, p->m.width, true, &p->vector));
    for (int i = 0; i < p->m.parts.n; i++) {
        const mr_mirror_part *part = &p->m.parts.p[i];
        if (part->rows)
            MR_TRY(make_table(p, part->name, (uint64_t)part->dims[0], part->columns, true, &p->tables[i]));
    }
    return NULL;
}

/* Starts a task and waits for it. */
static mr_status *run_job(mr_downpour_replica *p, const mr_ps_job *j)
{
    mr_ps_task task;
    MR_TRY(mr_ps_begin(p->ps, j, &task));
    return mr_ps_end(p->ps, task);
}

/* Reads the job's table, and notes the steps of all replicas. */
static mr_status *read_keys(mr_downpour_replica *p, float job[JOB_KEYS])
{
    MR_TRY(run_job(p, &(mr_ps_job){.pull = true, .table = p->job, .keys = {NULL, 0, JOB_KEYS}, .out = job}));
    p->stats.steps_of_all = (int64_t)job[KEY_BLOCKS] * STEPS_A_BLOCK + (int64_t)job[KEY_STEPS];
    return NULL;
}

/* The steps that all replicas have pushed. */
mr_status *mr_downpour_replica_read_job(mr_downpour_replica *p, int64_t *steps)
{
    float job[JOB_KEYS];
    MR_TRY(read_keys(p, job));
    *steps = p->stats.steps_of_all;
    return NULL;
}

/* The two keys together are the count: whole blocks, and the steps beyond them. A float counts exactly only up to
 * 2^24, so a single key would stop growing. */
void mr_downpour_replica_count_steps(mr_downpour_replica *p, int64_t steps, float rise[2])
{
    MR_ASSERT(steps >= 0);
    int64_t before = p->counted;
    p->counted += steps;
    rise[KEY_STEPS] =
        (float)(p->counted % STEPS_A_BLOCK - before % STEPS_A_BLOCK); /* negative when a block becomes full */
    rise[KEY_BLOCKS] = (float)(p->counted / STEPS_A_BLOCK - before / STEPS_A_BLOCK);
    MR_ASSERT(rise[KEY_BLOCKS] >= 0);
}

/* ---- initial values ---- */

/* The number of floats that the servers keep for a key: its values and the state of its update rule. */
static mr_status *row_floats(const mr_downpour_replica *p, uint64_t keys, int64_t width, size_t *out)
{
    mr_ps_table_spec spec;
    mr_ps_table_options o = table_options(&p->o, keys, width);
    MR_TRY(mr_ps_table_spec_init(&spec, MR_SV("values"), &o));
    *out = mr_ps_table_row_floats(&spec);
    mr_ps_table_spec_deinit(&spec);
    return NULL;
}

/* Adds 1 to a key of the job's table. */
static mr_status *add_one(mr_downpour_replica *p, uint64_t key)
{
    float one = 1;
    return run_job(p, &(mr_ps_job){.table = p->job, .keys = {NULL, key, 1}, .floats = &one});
}

/* Sets the values of keys, and keeps the state of the update rule (such as sums of squares). */
static mr_status *set_keys(mr_downpour_replica *p, int table, mr_ps_keys keys, size_t width, size_t row, const float *values, float *room)
{
    MR_TRY(run_job(p, &(mr_ps_job){.pull = true, .whole = true, .table = table, .keys = keys, .out = room}));
    for (size_t k = 0; k < keys.n; k++)
        memcpy(room + k * row, values + k * width, width * sizeof *room);
    MR_TRY(run_job(p, &(mr_ps_job){.kind = MR_PS_CHANGE_SET, .table = table, .keys = keys, .floats = room}));
    return add_one(p, KEY_GIVEN);
}

/* Sets the values of a table in pieces, so that other replicas see the progress. */
static mr_status *set_table(mr_downpour_replica *p, int table, uint64_t keys, int64_t width, const float *values)
{
    size_t row, n, most = (size_t)MR_MIN(keys, (uint64_t)KEYS_AT_ONCE);
    mr_status *st = NULL;
    MR_TRY(row_floats(p, keys, width, &row));
    float *room = mr_size_mul(most, row, &n) ? mr_try_calloc(n, sizeof *room) : NULL;
    if (!room)
        return mr_error(MR_RESOURCE_EXHAUSTED, "Out of memory: cannot set the rows of %zu keys", most);
    for (uint64_t k = 0; k < keys && !st; k += most) {
        mr_ps_keys piece = {NULL, k, (size_t)MR_MIN(keys - k, (uint64_t)most)};
        st = set_keys(p, table, piece, (size_t)width, row, values + k * (uint64_t)width, room);
    }
    mr_free(room);
    return st;
}

/* Pushes this replica's variables as the initial values of all tables. */
static mr_status *give_values(mr_downpour_replica *p)
{
    MR_TRY(add_one(p, KEY_GIVEN));
    MR_TRY(mr_mirror_read(&p->m, p->s, &p->fetched));
    if (p->vector >= 0)
        MR_TRY(set_table(p, p->vector, p->m.keys, p->m.width, p->fetched.vector));
    for (int i = 0; i < p->m.parts.n; i++) {
        const mr_mirror_part *part = &p->m.parts.p[i];
        if (part->rows)
            MR_TRY(set_table(p, p->tables[i], (uint64_t)part->dims[0], part->columns, p->fetched.tables[i]));
    }
    p->stats.gave_values = 1;
    return add_one(p, KEY_READY);
}

/* Replica 0 pushes its variables as initial values, and the others wait for that. Replica 1 does it
 * when there has been no progress for patience_ms, replica 2 after twice that, and so on. No replica
 * trains before. A large model takes longer than patience_ms, so pushed pieces are counted: while the
 * count grows everybody waits, also a replica 0 that restarts. */
mr_status *mr_downpour_replica_see_values(mr_downpour_replica *p)
{
    int64_t since = mr_now_ns();
    float job[JOB_KEYS], given = 0;
    double seconds;
    mr_long_wait wait;
    mr_long_wait_begin(&wait, since);
    for (;;) {
        MR_TRY(mr_downpour_replica_check(p));
        MR_TRY(read_keys(p, job));
        if (job[KEY_READY] > 0)
            return NULL;
        int64_t now = mr_now_ns();
        if (job[KEY_GIVEN] != given)
            since = now;
        given = job[KEY_GIVEN];
        /* Once pieces have been pushed, even replica 0 waits for patience_ms: another replica may still be pushing. */
        if ((now - since) / 1000000 / p->o.patience_ms >= (int64_t)p->o.replica + (given > 0))
            return give_values(p);
        if (mr_long_wait_due(&wait, now, &seconds))
            mr_info(
                "Still waiting for replica 0 of '%s': it has not pushed all initial values to the parameter servers "
                "(%.0f s)",
                p->o.name, seconds);
        mr_sleep_ns(WATCH_MS * 1000000);
    }
}
