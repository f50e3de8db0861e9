/* ps/client.c -- a client of the parameter server from start to end: its thread, views, and waiting
 * for tasks.
 *
 * The thread runs from mr_ps_open to mr_ps_close. It wakes all waiters on `changed` when a task ends, a view or a table
 * comes, or the manager refuses this client for good. After `closing` nothing is sent, and open tasks end.
 *
 * A task is in `tasks` from mr_ps_task_begin until its callback has returned, so a caller that
 * waits for it continues after the callback. Its error stays in `failed` until somebody asks for
 * it. */
#include "ps/client_internal.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#define MS INT64_C(1000000)
#define TICK_NS (5 * MS)
#define IDLE_NS (50 * MS)
#define DEFAULT_TIMEOUT_MS 60000

enum { KEY_CACHE_BYTES = 64 << 20 };

/* ---- messages from the manager ---- */

/* Disconnects servers that the new view no longer names, and forgets which key lists they have. */
static void drop_lost_routes(mr_ps *ps, const mr_ps_map *m)
{
    for (int i = ps->routes.to.n - 1; i >= 0; i--) {
        uint64_t id = ps->routes.to.p[i].id;
        if (id == MR_PS_TO_MANAGER || mr_ps_map_address(m, id))
            continue;
        mr_ps_key_cache_drop_owner(ps->keys, id);
        mr_ps_routes_drop(&ps->routes, id);
    }
}

/* Adopts a newer view, whose contents move out of *m. The thread reads ps->map without the lock, so
 * only this thread may replace it. */
static void take_view(mr_ps *ps, mr_ps_map *m)
{
    MR_ASSERT(m->view.epoch > ps->map.view.epoch);
    drop_lost_routes(ps, m);
    mr_lock(&ps->mu);
    mr_ps_map_deinit(&ps->map);
    ps->map = *m;
    mr_status_free(mr_psc_view(ps->psc, &ps->map.view, mr_now_ns(), &ps->actions)); /* it was checked */
    ps->stats.epoch = (int64_t)ps->map.view.epoch;
    ps->stats.servers = ps->map.view.servers.n;
    mr_cond_broadcast(&ps->changed);
    mr_unlock(&ps->mu);
}

/* Fails everything that waits, now and later. The first reason is kept. Takes over st. */
static void on_refused(void *owner, mr_status *st)
{
    mr_ps *ps = owner;
    mr_lock(&ps->mu);
    mr_status_update(&ps->refused, st);
    mr_cond_broadcast(&ps->changed);
    mr_unlock(&ps->mu);
}

/* Takes over t. A table that cannot be added makes the client unusable: tables are identified by
 * their position, so later ones would have the wrong number. */
static void add_table(mr_ps *ps, mr_ps_table_spec *t)
{
    mr_status *st = mr_ps_store_add(&ps->tables, t);
    if (st) {
        mr_ps_table_spec_deinit(t);
        mr_free(t);
        on_refused(ps, st);
        return;
    }
    mr_lock(&ps->mu);
    ps->table_at[ps->n_tables++] = t;
    MR_ASSERT(ps->n_tables == ps->tables.tables.n);
    mr_cond_broadcast(&ps->changed);
    mr_unlock(&ps->mu);
}

/* The manager's answer to Join or Watch, on the client's thread. Tables are added before the view
 * is adopted: a caller that the view wakes may use them. */
static void on_news(void *owner, mr_ps_news *n)
{
    mr_ps *ps = owner;
    if (!ps->tables.n_ranges && n->num_ranges >= 1 && n->num_ranges <= MR_PS_MAX_RANGES)
        mr_ps_store_init(&ps->tables, n->num_ranges, 0);
    if (n->num_ranges != ps->tables.n_ranges || (n->map && n->map->view.ranges.n != n->num_ranges)) {
        on_refused(ps, mr_error(MR_FAILED_PRECONDITION,
                                "The manager divides tables into %d ranges, but this client has %d",
                                n->num_ranges, ps->tables.n_ranges));
        return;
    }
    mr_lock(&ps->mu);
    ps->n_ranges = n->num_ranges;
    ps->delay_now = ps->o.observer ? ps->o.delay : n->delay;
    mr_unlock(&ps->mu);
    for (int i = 0; i < n->tables.n && ps->n_tables < MR_PS_MAX_TABLES; i++) {
        add_table(ps, n->tables.p[i]);
        n->tables.p[i] = NULL;
    }
    if (n->map && n->map->view.epoch > ps->map.view.epoch) {
        take_view(ps, n->map);
        mr_free(n->map);
        n->map = NULL;
    }
}

/* ---- the client's thread ---- */

/* Logs the push or pull that has been open longest, once per period, if it has been open for at
 * least one. The thread does this instead of the waiting callers, because there are several ways to
 * wait: ops, Python, a push that finds no room. */
static void tell_late_locked(mr_ps *ps, int64_t now_ns) MR_REQUIRES(ps->mu);
/* Looks ten times per period, because a task becomes late between two looks. */
static void tell_late_locked(mr_ps *ps, int64_t now_ns)
{
    uint32_t pos = 0;
    uint64_t key;
    void *task;
    const mr_ps_client_task *late = NULL;
    int64_t period_ns = mr_long_wait_period_ns();
    if (now_ns < ps->look_ns)
        return;
    ps->look_ns = now_ns + period_ns / 10;
    while (mr_imap_next(&ps->tasks, &pos, &key, &task))
        if (!late || ((mr_ps_client_task *)task)->since_ns < late->since_ns)
            late = task;
    if (!late || now_ns - late->since_ns < period_ns)
        return;
    ps->look_ns = now_ns + period_ns;
    const char *address = mr_ps_map_address(&ps->map, mr_psc_waits_for(ps->psc, late->number));
    mr_info("Still waiting for the parameter server at %s: it has not answered a %s table '%s' (%.0f s)",
            address ? address : "an unknown address", late->pull ? "pull of" : "push to",
            ps->table_at[late->change.table]->name, (double)(now_ns - late->since_ns) / 1e9);
}

/* Timers of the link and of open tasks; rarer while no task is open. */
static int64_t tick_client(void *owner, int64_t now_ns)
{
    mr_ps *ps = owner;
    mr_ps_link_tick(&ps->link, now_ns);
    mr_lock(&ps->mu);
    tell_late_locked(ps, now_ns);
    bool busy = mr_psc_open(ps->psc) > 0;
    mr_psc_tick(ps->psc, now_ns, &ps->actions);
    mr_unlock(&ps->mu);
    return now_ns + (busy ? TICK_NS : IDLE_NS);
}

/* Copies the counts of the thread to the statistics, which other threads read under the lock. */
static void count_bytes(mr_ps *ps)
{
    mr_lock(&ps->mu);
    ps->stats.bytes_sent = ps->routes.bytes_sent;
    ps->stats.bytes_received = ps->routes.bytes_received;
    ps->stats.retries = mr_psc_resent(ps->psc);
    mr_unlock(&ps->mu);
}

/* Runs after each batch of notes. Bytes are counted before tasks end, so that a caller who sees the
 * end of its task finds its bytes in the statistics. */
static void turn_client(void *owner)
{
    mr_ps *ps = owner;
    count_bytes(ps);
    mr_ps_send_all(ps);
    count_bytes(ps);
}

static void on_nudge(void *owner, mr_ps_note *n)
{
    mr_ps *ps = owner;
    (void)n;
    mr_lock(&ps->mu);
    ps->nudged = false;
    mr_unlock(&ps->mu);
}

/* At most one nudge is in the inbox at a time; the turn after it handles all actions that were
 * added. */
void mr_ps_nudge_locked(mr_ps *ps)
{
    if (!ps->nudged) {
        ps->nudged = true;
        mr_ps_inbox_put(&ps->inbox, &ps->nudge, on_nudge);
    }
}

/* The last reference frees the task. */
void mr_ps_task_unref_locked(mr_ps *ps, mr_ps_client_task *t)
{
    (void)ps;
    MR_ASSERT(t->refs > 0);
    if (--t->refs == 0)
        mr_ps_task_free(t);
}

/* ---- waiting ---- */

/* Removes and returns the error of a task; NULL if it did not fail. The caller owns it. */
static mr_status *take_failed_locked(mr_ps *ps, int64_t number) MR_REQUIRES(ps->mu);
static mr_status *take_failed_locked(mr_ps *ps, int64_t number)
{
    for (int i = 0; i < ps->failed.n; i++)
        if (ps->failed.p[i].number == number) {
            mr_status *st = ps->failed.p[i].st;
            mr_vec_remove_swap(&ps->failed, i);
            return st;
        }
    return NULL;
}

/* A task that has ended without an error leaves no trace, so waiting for it again returns NULL. */
mr_status *mr_ps_end(mr_ps *ps, mr_ps_task t)
{
    mr_status *st;
    mr_lock(&ps->mu);
    if (t <= 0 || t > ps->last) {
        st = mr_error(MR_NOT_FOUND, "There is no task %lld", (long long)t);
    } else {
        while (mr_imap_get(&ps->tasks, (uint64_t)t)) /* the thread logs a long wait: tell_late_locked */
            mr_cond_wait(&ps->changed, &ps->mu);
        st = take_failed_locked(ps, t);
    }
    mr_unlock(&ps->mu);
    return st;
}

/* Whether a task with a number up to `through` is open. */
static bool any_open_locked(mr_ps *ps, int64_t through) MR_REQUIRES(ps->mu);
static bool any_open_locked(mr_ps *ps, int64_t through)
{
    uint32_t pos = 0;
    uint64_t key;
    void *task;
    while (mr_imap_next(&ps->tasks, &pos, &key, &task))
        if ((int64_t)key <= through)
            return true;
    return false;
}

/* Waits for the tasks that exist now; others may begin meanwhile. */
static void wait_all_locked(mr_ps *ps) MR_REQUIRES(ps->mu);
static void wait_all_locked(mr_ps *ps)
{
    int64_t last = ps->last;
    while (any_open_locked(ps, last))
        mr_cond_wait(&ps->changed, &ps->mu);
}

void mr_ps_settle(mr_ps *ps)
{
    mr_lock(&ps->mu);
    wait_all_locked(ps);
    mr_unlock(&ps->mu);
}

/* Returns the error of the task that was begun first, and drops the others. */
mr_status *mr_ps_end_all(mr_ps *ps)
{
    mr_status *st = NULL;
    int64_t first = INT64_MAX;
    mr_lock(&ps->mu);
    wait_all_locked(ps);
    for (int i = 0; i < ps->failed.n; i++)
        first = MR_MIN(first, ps->failed.p[i].number);
    if (ps->failed.n > 0)
        st = take_failed_locked(ps, first);
    for (int i = 0; i < ps->failed.n; i++)
        mr_status_free(ps->failed.p[i].st);
    ps->failed.n = 0;
    mr_unlock(&ps->mu);
    return st;
}

/* ---- algebra ---- */

/* Both tables must have the same keys and width. b is ignored by operations on one table. */
static mr_status *check_algebra(mr_ps *ps, mr_ps_algebra what, int a, int b)
{
    mr_status *st = NULL;
    const mr_ps_table_spec *x = mr_ps_find_table(ps, a, &st), *y = x;
    if ((unsigned)what > MR_PS_NORM1)
        st = mr_invalid("Unknown algebra operation %d", (int)what);
    if (!st && (what == MR_PS_DOT || what == MR_PS_AXPY || what == MR_PS_COPY || what == MR_PS_MULTIPLY))
        y = mr_ps_find_table(ps, b, &st);
    if (!st && (x->o.num_keys != y->o.num_keys || x->o.width != y->o.width))
        st = mr_invalid("Tables '%s' and '%s' differ: %llu keys of width %d, and %llu keys of width %d", x->name,
                        y->name, (unsigned long long)x->o.num_keys, x->o.width, (unsigned long long)y->o.num_keys,
                        y->o.width);
    return st;
}

/* A task with one piece per range. It starts after all earlier tasks have ended, so that it sees
 * their pushes. Sums are added up in the order of the ranges, which makes the result the same every
 * time. */
mr_status *mr_ps_compute(mr_ps *ps, mr_ps_algebra what, int a, int b, double alpha, double *result)
{
    mr_ps_task number;
    bool reduce = what == MR_PS_DOT || what == MR_PS_NORM1;
    *result = 0;
    MR_TRY(check_algebra(ps, what, a, b));
    mr_ps_settle(ps);
    int n = mr_ps_n_ranges(ps);
    mr_ps_client_task *t = mr_new(mr_ps_client_task);
    t->pull = t->reduce = reduce;
    t->change =
        (mr_ps_change){.kind = MR_PS_CHANGE_ALGEBRA, .table = a, .what = what, .other = b, .alpha = alpha};
    for (int i = 0; i < n; i++) {
        mr_vec_push(&t->pieces, (mr_psc_piece){.range = i});
        mr_vec_push(&t->at, 0);
    }
    mr_vec_push(&t->at, 0);
    double *sums = t->sums = mr_new_array(double, n); /* owned here: the task is gone when mr_ps_end returns */
    mr_status *st = mr_ps_task_begin(ps, t, NULL, 0, &number);
    if (!st)
        st = mr_ps_end(ps, number);
    for (int i = 0; !st && i < n; i++)
        *result += sums[i];
    mr_free(sums);
    return st;
}

/* ---- statistics ---- */

/* The counts of bytes are those of the last turn of the client's thread. */
void mr_ps_count(mr_ps *ps, mr_ps_stats *out)
{
    mr_lock(&ps->mu);
    *out = ps->stats;
    out->iteration = ps->iteration;
    out->delay = ps->delay_now;
    mr_unlock(&ps->mu);
    out->struct_size = sizeof *out;
}

/* ---- start and end ---- */

/* Starts a manager and a server inside this process, which other processes cannot reach. *manager is the
 * address, owned by the caller, also on error. */
static mr_status *open_inside(mr_ps *ps, char **manager)
{
    char *a = mr_printf(MR_PS_INSIDE "%d/%016llx/manager", (int)getpid(), (unsigned long long)ps->id);
    char *b = mr_printf(MR_PS_INSIDE "%d/%016llx/server", (int)getpid(), (unsigned long long)ps->id);
    mr_ps_manager_options m = {.struct_size = sizeof m, .address = a, .replicas = 1, .lost_ms = 60000};
    mr_ps_server_options s = {.struct_size = sizeof s, .address = b, .manager = a};
    mr_status *st = mr_ps_manager_open(&m, NULL, &ps->own_manager);
    if (!st)
        st = mr_ps_server_open(&s, NULL, &ps->own_server);
    *manager = a;
    mr_free(b);
    return st;
}

/* Runs on the client's thread. arg is the manager's address. */
static void begin_link(void *owner, void *arg)
{
    mr_ps *ps = owner;
    ps->link = (mr_ps_link){.owner = ps,
                            .routes = &ps->routes,
                            .manager = mr_strdup(arg),
                            .id = ps->id,
                            .observer = ps->o.observer,
                            .name = ps->name,
                            .delay = ps->o.delay,
                            .map = &ps->map,
                            .tables = &ps->tables,
                            .news = on_news,
                            .refused = on_refused};
    mr_ps_link_start(&ps->link);
}

/* Waits for the first view. The manager sends it when enough servers have joined. */
static mr_status *wait_for_view(mr_ps *ps, const char *manager)
{
    bool in_time = true;
    int64_t until = mr_now_ns() + ps->timeout_ns;
    mr_long_wait wait;
    mr_long_wait_begin(&wait, mr_now_ns());
    mr_lock(&ps->mu);
    while (ps->stats.epoch == 0 && !ps->refused && in_time)
        in_time = mr_long_wait_cond(&wait, &ps->changed, &ps->mu, until, "the parameter manager at %s: %s", manager,
                                    ps->n_ranges > 0 ? "it waits for more servers" : "it does not answer");
    mr_status *st = mr_status_copy(ps->refused);
    bool met = ps->n_ranges > 0;
    mr_unlock(&ps->mu);
    if (st || in_time)
        return st;
    return met ? mr_error(MR_DEADLINE_EXCEEDED, "The parameter manager at %s waits for more servers", manager)
               : mr_error(MR_DEADLINE_EXCEEDED, "The parameter manager at %s does not answer", manager);
}

/* manager NULL: everything inside this process. */
static mr_status *start_client(mr_ps *ps, const char *manager)
{
    char *inside = NULL;
    mr_status *st = NULL;
    if (!manager) {
        MR_GO(open_inside(ps, &inside));
        manager = inside;
    }
    ps->inbox.tick = tick_client;
    ps->inbox.turn = turn_client;
    MR_GO(mr_ps_inbox_start(&ps->inbox, "ps-client"));
    mr_ps_inbox_ask(&ps->inbox, begin_link, (void *)(uintptr_t)manager);
    MR_GO(wait_for_view(ps, manager));
out:
    mr_free(inside);
    return st;
}

static mr_status *check_options(const mr_ps_options *o)
{
    if (o->delay < MR_PS_ADAPTIVE)
        return mr_invalid("delay is %d, expected %d or more", o->delay, MR_PS_ADAPTIVE);
    if (o->half > 2)
        return mr_invalid("half is %d, expected 0 to 2", o->half);
    if (o->timeout_ms < 0 || o->max_bytes < 0)
        return mr_invalid("timeout_ms is %lld and max_bytes is %lld, expected 0 or more", (long long)o->timeout_ms,
                          (long long)o->max_bytes);
    return NULL;
}

/* Returns when the first view has come. mr_ps_close copes with a client of which only a part was
 * started. */
mr_status *mr_ps_open(const mr_ps_options *o, mr_ps **out)
{
    *out = NULL;
    MR_TRY(check_options(o));
    mr_ps *ps = mr_new(mr_ps);
    mr_mutex_init(&ps->mu);
    mr_cond_init(&ps->changed);
    ps->o = *o;
    ps->id = mr_random64() | 1;
    ps->seed = ps->seed_sent = ps->id;
    ps->delay_now = o->delay;
    ps->name = o->name ? mr_strdup(o->name)
                       : mr_printf("worker-%d-%04x", (int)getpid(), (unsigned)(ps->id & 0xffff));
    ps->timeout_ns = (o->timeout_ms ? MR_MIN(o->timeout_ms, INT64_C(1) << 40) : DEFAULT_TIMEOUT_MS) * MS;
    ps->psc = mr_psc_new(ps->id, &(mr_psc_options){.max_bytes = (size_t)o->max_bytes});
    ps->keys = mr_ps_key_cache_new(KEY_CACHE_BYTES);
    ps->inbox.owner = ps;
    ps->routes.inbox = &ps->inbox;
    ps->link.closing = true; /* until begin_link */
    mr_status *st = start_client(ps, o->manager);
    ps->o.manager = ps->o.name = NULL;
    if (st) {
        mr_ps_close(ps);
        return st;
    }
    *out = ps;
    return NULL;
}

/* The last event of the client's thread: cancels all open tasks, so that their callbacks run and
 * waiting callers continue. */
static void end_client(void *owner, void *arg)
{
    mr_ps *ps = owner;
    uint32_t pos = 0;
    uint64_t key;
    void *task;
    (void)arg;
    ps->closing = true;
    mr_ps_link_stop(&ps->link);
    mr_lock(&ps->mu);
    while (mr_imap_next(&ps->tasks, &pos, &key, &task))
        mr_psc_cancel(ps->psc, (int64_t)key, mr_now_ns(), &ps->actions);
    mr_unlock(&ps->mu);
    mr_ps_send_all(ps); /* ends the tasks */
    mr_ps_routes_close(&ps->routes);
}

/* Tells the manager, so that the other workers do not wait for this one. A short timeout: the
 * manager may be gone, and would notice anyway. */
static void leave_manager(mr_ps *ps)
{
    mr_pb_writer w;
    mr_str head = {0};
    mr_lock(&ps->mu);
    bool known = ps->n_ranges > 0 && !ps->refused;
    mr_unlock(&ps->mu);
    if (!known)
        return;
    mr_ps_question_begin(ps, &w, &head);
    mr_status_free(mr_ps_ask_manager(ps, MR_PS_MANAGER_SERVICE "Leave", &w, &head, 300 * MS, NULL));
}

/* After the thread has ended. end_client has ended all tasks; those left here were begun after that. */
static void free_tasks(mr_ps *ps)
{
    MR_ASSERT(!ps->inbox.running);
    uint32_t pos = 0;
    uint64_t key;
    void *task;
    while (mr_imap_next(&ps->tasks, &pos, &key, &task))
        mr_ps_task_free(task);
    mr_imap_deinit(&ps->tasks);
    for (int i = 0; i < ps->failed.n; i++)
        mr_status_free(ps->failed.p[i].st);
    for (int i = 0; i < ps->kept_back.n; i++)
        mr_ps_residuals_free(ps->kept_back.p[i].residuals);
    mr_vec_deinit(&ps->failed);
    mr_vec_deinit(&ps->kept_back);
}

/* NULL is allowed. Ops stop using the client first. Inside one process the manager is closed before
 * the server, because it would report the server as lost. */
void mr_ps_close(mr_ps *ps)
{
    if (!ps)
        return;
    mr_status_free(mr_ps_bind_store(ps, NULL)); /* returns when no op is using it */
    if (ps->inbox.running) {
        if (!ps->own_manager)
            leave_manager(ps);
        mr_ps_inbox_ask(&ps->inbox, end_client, NULL);
        mr_ps_inbox_stop(&ps->inbox);
    }
    mr_ps_manager_close(ps->own_manager);
    mr_ps_server_close(ps->own_server);
    free_tasks(ps);
    mr_vec_deinit(&ps->actions);
    mr_vec_deinit(&ps->routes.to);
    mr_ps_link_deinit(&ps->link);
    mr_ps_map_deinit(&ps->map);
    mr_ps_store_deinit(&ps->tables);
    mr_ps_key_cache_free(ps->keys);
    mr_psc_free(ps->psc);
    mr_status_free(ps->refused);
    mr_free(ps->name);
    mr_cond_deinit(&ps->changed);
    mr_mutex_deinit(&ps->mu);
    mr_free(ps);
}
