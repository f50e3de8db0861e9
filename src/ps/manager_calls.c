/* ps/manager_calls.c -- the methods of the parameter manager; docs/formats/ps.md has their
 * messages.
 *
 * Every method runs on the manager's thread: it changes the state, lets dist/ps_manager.h decide,
 * and carries the decisions out (mr_ps_manager_act). Methods may be called twice, because callers
 * repeat a call whose answer they did not get; the second call has the same result.
 *
 * Tables are identified by their position in the list, which only grows. So the list that a member
 * has is a prefix of the manager's. */
#include "ps/manager_internal.h"

#include "base/clock.h"

#define MS INT64_C(1000000)
#define TABLE_NS (500 * MS) /* how long Table waits until all servers know the new table */

typedef struct asked { /* the fields of all requests; strings point into the message */
    uint64_t id, epoch, forgot, n, member;
    bool server, observer, all, drained, declined;
    mr_sv address, name, view, table;
    int delay, range;
    MR_VEC(mr_sv) tables;
} asked;

/* ---- tables that are being made ---- */

/* Whether every server has at least n tables. */
static bool all_know(const mr_ps_manager *m, int n)
{
    for (int i = 0; i < m->people.n; i++)
        if (m->people.p[i]->server && m->people.p[i]->tables < n)
            return false;
    return true;
}

/* The caller of Table is gone; the table stays. */
static void table_gone(void *owner, mr_ps_held *h)
{
    mr_ps_manager *m = owner;
    for (int i = 0; i < m->new_tables.n; i++)
        if (&m->new_tables.p[i]->held == h) {
            mr_vec_remove_swap(&m->new_tables, i);
            break;
        }
    mr_ps_held_reply(h, mr_error(MR_CANCELLED, "The call was cancelled"), NULL);
}

/* Answers the Table calls whose table is known to all servers, or whose time is over. A server that
 * gets the table later refuses its pushes until then, and clients repeat them. */
void mr_ps_manager_check_tables(mr_ps_manager *m, int64_t now_ns)
{
    for (int i = m->new_tables.n - 1; i >= 0; i--) {
        mr_ps_new_table *t = m->new_tables.p[i];
        if (!all_know(m, t->table + 1) && now_ns < t->until_ns)
            continue;
        mr_pb_writer w;
        mr_str head = {0};
        mr_bytes body = {0};
        mr_vec_remove_swap(&m->new_tables, i);
        mr_ps_head_begin(&w, &head);
        mr_pb_put_varint(&w, 1, (uint64_t)t->table);
        mr_status *st = mr_ps_head_end_alone(&w, &head, &body);
        mr_ps_held_reply(&t->held, st, &body);
    }
}

/* Adds a table, or finds the one of that name if all options agree; *out is its number. A range
 * must have fewer than 2^32 rows. */
static mr_status *add_table(mr_ps_manager *m, mr_sv bytes, int *out)
{
    mr_ps_table_spec *t = mr_new(mr_ps_table_spec);
    mr_status *st = mr_ps_table_spec_get(bytes, t);
    for (int i = 0; !st && i < m->tables.n; i++)
        if (strcmp(m->tables.p[i]->name, t->name) == 0) {
            bool same = mr_ps_table_spec_same(m->tables.p[i], t);
            if (!same)
                st = mr_invalid("Table '%s' already exists with different options", t->name);
            mr_ps_table_spec_deinit(t);
            mr_free(t);
            *out = i;
            return st;
        }
    if (!st && m->tables.n >= MR_PS_MAX_TABLES)
        st = mr_error(MR_RESOURCE_EXHAUSTED, "Cannot add table '%s': there are already %d tables, the maximum", t->name,
                      m->tables.n);
    if (!st && t->o.num_keys / (unsigned)m->num_ranges >= UINT32_MAX - 1)
        st = mr_invalid("Table '%s': %llu keys are too many for %d ranges; start the manager with more num_ranges",
                        t->name, (unsigned long long)t->o.num_keys, m->num_ranges);
    if (st) {
        mr_ps_table_spec_deinit(t);
        mr_free(t);
        return st;
    }
    MR_ASSERT(m->tables.n < MR_PS_MAX_TABLES);
    *out = m->tables.n;
    mr_vec_push(&m->tables, t);
    return NULL;
}

/* The call is held until the servers know the table, so that the client's first push is accepted. */
static void do_table(mr_ps_manager *m, mr_net_call *c, const asked *q)
{
    int table = -1;
    mr_status *st = m->psm.dealt ? NULL : mr_error(MR_UNAVAILABLE, "The ranges have no servers yet");
    if (!st)
        st = add_table(m, q->table, &table);
    if (st) {
        mr_ps_reply(c, st, NULL);
        return;
    }
    mr_ps_new_table *t = mr_new(mr_ps_new_table);
    t->table = table;
    t->until_ns = mr_now_ns() + TABLE_NS;
    mr_vec_push(&m->new_tables, t);
    mr_ps_hold(&t->held, &m->inbox, c, table_gone);
    mr_ps_manager_act(m); /* sends the table to the servers */
    mr_ps_manager_check_tables(m, mr_now_ns());
}

/* ---- joining ---- */

/* Compares table i of a member that joins with ours. */
static mr_status *check_known(const mr_ps_manager *m, const asked *q, int i)
{
    mr_ps_table_spec t;
    MR_TRY(mr_ps_table_spec_get(q->tables.p[i], &t));
    bool same = mr_ps_table_spec_same(m->tables.p[i], &t);
    mr_ps_table_spec_deinit(&t);
    return same ? NULL
                : mr_error(MR_FAILED_PRECONDITION,
                           "The %s's tables differ from the manager's: table %d is '%s' at the manager",
                           q->server ? "server" : "worker", i, m->tables.p[i]->name);
}

/* The tables of a member that joins must agree with ours as far as both lists go. If it has more,
 * this manager is new and adopts them. A member that knew other tables by these numbers would push
 * to the wrong ones. */
static mr_status *adopt_tables(mr_ps_manager *m, const asked *q)
{
    int known = MR_MIN(m->tables.n, q->tables.n);
    for (int i = 0; i < known; i++)
        MR_TRY(check_known(m, q, i));
    for (int i = known; i < q->tables.n; i++) {
        int at = -1;
        MR_TRY(add_table(m, q->tables.p[i], &at));
        if (at != i)
            return mr_error(MR_FAILED_PRECONDITION, "The %s that joins names one table twice",
                            q->server ? "server" : "worker");
    }
    return NULL;
}

/* *p is the member if it is known; on success it is set. A server that brings a view gives a new
 * manager the state of the one before. */
static mr_status *join_server(mr_ps_manager *m, mr_ps_person **p, const asked *q)
{
    mr_ps_map has = {0};
    mr_status *st = NULL;
    if (q->address.n == 0 || q->address.n > 512 || memchr(q->address.p, 0, q->address.n))
        return mr_invalid("A server that joins has no valid address");
    if (q->view.n)
        MR_GO(mr_ps_map_get(q->view, &has));
    MR_GO(adopt_tables(m, q));
    if (!*p)
        *p = mr_ps_person_add(m, q->id, true);
    if (!*p)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "There are too many servers and workers"));
    mr_free((*p)->address);
    (*p)->address = mr_strndup(q->address.p, q->address.n);
    st = mr_psm_join(&m->psm, q->id, q->view.n ? &has.view : NULL, mr_now_ns(), &m->actions);
    if (st) {
        mr_ps_person_remove(m, *p, mr_status_copy(st));
        *p = NULL;
    }
out:
    mr_ps_map_deinit(&has);
    return st;
}

/* All workers that take part in the iterations must ask for the same delay. When the last one has
 * gone, the next one may choose another. */
static mr_status *join_delay(mr_ps_manager *m, const asked *q)
{
    if (m->has_delay && m->delay_told != q->delay && m->delay.n_there > 0)
        return mr_error(MR_FAILED_PRECONDITION,
                        "This worker has a delay of %d, but the others have %d; use one delay for all", q->delay,
                        m->delay_told);
    if (!m->has_delay || m->delay_told != q->delay) {
        mr_delay_deinit(&m->delay);
        mr_delay_init(&m->delay, &(mr_delay_options){.bound = q->delay}, mr_now_ns());
    }
    m->has_delay = true;
    m->delay_told = q->delay;
    return NULL;
}

/* A worker begins its first iteration by joining. */
static void enter_delay(mr_ps_manager *m, const mr_ps_person *p)
{
    mr_ps_manager_delay(m, p->id, MR_DELAY_JOIN, 0);
    const mr_delay_worker *w = mr_delay_find(&m->delay, (int64_t)p->id);
    if (w && w->state != MR_DELAY_GONE)
        mr_ps_manager_delay(m, p->id, MR_DELAY_ASK, w->clock);
}

/* A worker whose clocks were given up is refused for good: servers no longer know which of its
 * pushes they have counted. */
static mr_status *join_worker(mr_ps_manager *m, mr_ps_person **out, const asked *q)
{
    mr_ps_person *p = *out;
    if (q->delay < MR_PS_ADAPTIVE)
        return mr_invalid("delay is %d, expected %d or more", q->delay, MR_PS_ADAPTIVE);
    for (int i = 0; i < m->forgotten.n; i++)
        if (m->forgotten.p[i] == q->id)
            return mr_error(
                MR_FAILED_PRECONDITION,
                "The manager has not heard from this worker for too long; its last pushes may or may not have counted");
    MR_TRY(adopt_tables(m, q));
    /* It knows tables, so there are servers with rows somewhere: new ones must not get empty ranges yet. */
    if (q->tables.n > 0)
        mr_psm_remember(&m->psm);
    if (!p && !q->observer)
        MR_TRY(join_delay(m, q));
    /* A worker that only lost its connection keeps its clock in dist/delay.c. */
    bool back = !p || p->silent;
    if (!p)
        p = mr_ps_person_add(m, q->id, false);
    if (!p)
        return mr_error(MR_RESOURCE_EXHAUSTED, "There are too many servers and workers");
    p->observer = q->observer;
    p->silent = false;
    mr_free(p->name);
    p->name = mr_strndup(q->name.p, MR_MIN(q->name.n, sizeof(((mr_ps_worker_stats *)0)->name) - 1));
    mr_psm_worker_join(&m->psm, p->id, &m->actions);
    if (back && !p->observer)
        enter_delay(m, p);
    *out = p;
    return NULL;
}

/* A member that joins again has a new connection. The end of the old one no longer means anything,
 * but it may be noticed only now, before the new Live comes. So the old Live is answered here.
 * Until the new one comes, only silence shows a loss. */
static void do_join(mr_ps_manager *m, mr_net_call *c, const asked *q)
{
    mr_bytes body = {0};
    mr_ps_person *p = mr_ps_person_find(m, q->id);
    mr_status *st = NULL;
    if (q->id == 0 || (p && p->server != q->server))
        st = mr_invalid("Cannot join with id %016llx: it is 0, or belongs to a %s", (unsigned long long)q->id,
                        q->server ? "worker" : "server");
    if (!st)
        st = q->server ? join_server(m, &p, q) : join_worker(m, &p, q);
    if (!st) {
        mr_ps_manager_answer(&p->live, mr_error(MR_ABORTED, "This server or worker has joined again"), NULL);
        p->heard_ns = mr_now_ns();
        p->epoch = 0;
        p->forgot = m->forgot;
        p->tables = (int)MR_MIN(q->n, (uint64_t)MR_PS_MAX_TABLES);
        st = mr_ps_manager_news(m, p, true, &body);
    }
    mr_ps_reply(c, st, &body);
    mr_ps_manager_act(m);
}

/* ---- calls of members ---- */

/* Notes what the member knows, and holds the call until there is news. mr_ps_manager_act may remove
 * members, so p is looked up again after it. */
static void do_watch(mr_ps_manager *m, mr_net_call *c, mr_ps_person *p, const asked *q)
{
    p->epoch = q->epoch;
    p->tables = (int)MR_MIN(q->n, (uint64_t)MR_PS_MAX_TABLES);
    p->forgot = q->forgot;
    p->watched_ns = mr_now_ns();
    if (p->silent)
        mr_ps_reply(c, mr_error(MR_NOT_FOUND, "This worker was considered lost; it must join again"), NULL);
    else
        mr_ps_manager_keep(m, p, &p->watch, c);
    uint64_t id = p->id;
    mr_psm_heard(&m->psm, id, q->epoch, mr_now_ns(), &m->actions);
    mr_ps_manager_act(m);
    p = mr_ps_person_find(m, id);
    if (p && p->watch && mr_ps_manager_has_news(m, p))
        mr_ps_manager_tell(m, p);
    mr_ps_manager_check_tables(m, mr_now_ns());
}

/* A server reports that a range is complete, drained or declined. Reports of an old epoch have no
 * effect. */
static void do_report(mr_ps_manager *m, mr_net_call *c, const mr_ps_person *p, const asked *q)
{
    if (q->range < 0 || q->range >= m->num_ranges || !p->server) {
        mr_ps_reply(c, mr_invalid("Invalid report: range %d of %d, from a %s", q->range, m->num_ranges,
                                  p->server ? "server" : "worker"),
                    NULL);
        return;
    }
    if (q->declined)
        mr_psm_declined(&m->psm, p->id, q->range, q->epoch, mr_now_ns(), &m->actions);
    else if (q->drained)
        mr_psm_drained(&m->psm, p->id, q->range, q->epoch, &m->actions);
    else
        mr_psm_complete(&m->psm, p->id, q->range, q->epoch, q->member, &m->actions);
    mr_ps_reply(c, NULL, NULL);
    mr_ps_manager_act(m);
}

/* A server's call is held until its ranges have moved (MR_PSM_LET_GO). A worker leaves at once; p
 * is freed. */
static void do_leave(mr_ps_manager *m, mr_net_call *c, mr_ps_person *p)
{
    if (p->server) {
        mr_ps_manager_keep(m, p, &p->leave, c);
        mr_psm_leave(&m->psm, p->id, mr_now_ns(), &m->actions);
        mr_ps_manager_act(m);
        return;
    }
    if (!p->observer)
        mr_ps_manager_delay(m, p->id, MR_DELAY_LEAVE, 0);
    mr_psm_worker_leave(&m->psm, p->id, &m->actions);
    mr_ps_reply(c, NULL, NULL);
    mr_ps_person_remove(m, p, mr_error(MR_CANCELLED, "This worker has left"));
    mr_ps_manager_act(m);
}

/* A worker has finished q->n iterations in all, and asks for the next one. The call is held until
 * dist/delay.h lets it begin. n_done makes a repeated call harmless. */
static void do_iterate(mr_ps_manager *m, mr_net_call *c, mr_ps_person *p, const asked *q)
{
    const mr_delay_worker *w = mr_delay_find(&m->delay, (int64_t)p->id);
    if (p->server || p->observer || !w || p->silent) {
        mr_ps_reply(
            c, mr_error(MR_NOT_FOUND, "Only a worker that has joined, and is no observer, can begin iterations"), NULL);
        return;
    }
    int64_t clock = w->clock;
    mr_ps_manager_keep(m, p, &p->iterate, c);
    if ((int64_t)q->n > p->n_done && w->state == MR_DELAY_WORKING) {
        mr_ps_manager_delay(m, p->id, MR_DELAY_FINISH, clock);
        clock++;
    }
    p->n_done = MR_MAX(p->n_done, (int64_t)q->n);
    mr_ps_manager_delay(m, p->id, MR_DELAY_ASK, clock);
}

/* Lost ranges begin again, empty. The answer is the epoch of the view that says so. */
static void do_restore(mr_ps_manager *m, mr_net_call *c, const asked *q)
{
    mr_pb_writer w;
    mr_str head = {0};
    mr_bytes body = {0};
    mr_status *st = m->psm.dealt ? NULL : mr_error(MR_UNAVAILABLE, "The ranges have no servers yet");
    if (!st) {
        mr_psm_restore(&m->psm, q->all, &m->actions);
        mr_ps_manager_act(m);
        mr_ps_head_begin(&w, &head);
        mr_pb_put_varint(&w, 1, m->psm.view.epoch);
        st = mr_ps_head_end_alone(&w, &head, &body);
    }
    mr_ps_reply(c, st, &body);
}

/* One worker of the answer to Workers: its name, its iterations, and how long it has waited for others. */
static void put_worker(mr_ps_manager *m, mr_pb_writer *w, const mr_ps_person *p, int64_t now_ns)
{
    const mr_delay_worker *d = mr_delay_find(&m->delay, (int64_t)p->id);
    size_t mark = mr_pb_begin(w, 1);
    mr_pb_opt_bytes(w, 1, mr_sv_of(p->name));
    mr_pb_opt_varint(w, 2, (uint64_t)p->n_done);
    mr_pb_opt_varint(w, 3, d ? (uint64_t)mr_delay_waited_ns(d, now_ns) : 0);
    mr_pb_end(w, mark);
}

/* The caller need not be a member: statistics are for any process that can reach the manager. */
static void do_workers(mr_ps_manager *m, mr_net_call *c)
{
    mr_pb_writer w;
    mr_str head = {0};
    mr_bytes body = {0};
    mr_ps_head_begin(&w, &head);
    for (int i = 0; i < m->people.n; i++)
        if (!m->people.p[i]->server && !m->people.p[i]->observer)
            put_worker(m, &w, m->people.p[i], mr_now_ns());
    mr_pb_opt_varint(&w, 2, (uint64_t)m->delay.bound);
    mr_pb_opt_varint(&w, 3, (uint64_t)mr_psm_quiet(&m->psm));
    mr_pb_opt_varint(&w, 4, (uint64_t)mr_psm_lost_ranges(&m->psm));
    mr_status *st = mr_ps_head_end_alone(&w, &head, &body);
    mr_ps_reply(c, st, &body);
}

/* ---- incoming calls ---- */

/* Strings stay in the message. The caller frees q->tables, also after an error. */
static mr_status *read_asked(mr_sv head, asked *q)
{
    mr_pb_reader r;
    uint32_t field, wire;
    q->address = q->name = q->view = q->table = MR_SV("");
    mr_pb_reader_init(&r, head);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1: q->id = mr_pb_fixed64(&r); break;
        case 2: q->server = mr_pb_bool(&r); break;
        case 3: q->address = mr_pb_bytes(&r); break;
        case 4: q->name = mr_pb_bytes(&r); break;
        case 5: q->observer = mr_pb_bool(&r); break;
        case 6: q->delay = mr_pb_int32(&r); break;
        case 7: q->view = mr_pb_bytes(&r); break;
        case 8: mr_vec_push(&q->tables, mr_pb_bytes(&r)); break;
        case 9: q->n = mr_pb_varint(&r); break;
        case 10: q->epoch = mr_pb_varint(&r); break;
        case 11: q->forgot = mr_pb_varint(&r); break;
        case 12: q->range = mr_pb_int32(&r); break;
        case 13: q->drained = mr_pb_bool(&r); break;
        case 14: q->member = mr_pb_fixed64(&r); break;
        case 15: q->table = mr_pb_bytes(&r); break;
        case 16: q->all = mr_pb_bool(&r); break;
        case 17: q->declined = mr_pb_bool(&r); break;
        default: mr_pb_skip(&r);
        }
    return mr_pb_reader_status(&r, "a request to the parameter manager");
}

/* Any call of a member counts as a heartbeat. A peer that has not joined gets NOT_FOUND, which makes it
 * join. */
static void dispatch_call(mr_ps_manager *m, mr_net_call *c, const char *method, const asked *q)
{
    mr_ps_person *p = mr_ps_person_find(m, q->id);
    if (p)
        p->heard_ns = mr_now_ns();
    if (strcmp(method, "Join") == 0)
        do_join(m, c, q);
    else if (strcmp(method, "Workers") == 0)
        do_workers(m, c);
    else if (!p)
        mr_ps_reply(c,
                    mr_error(MR_NOT_FOUND, "No server or worker with id %016llx has joined", (unsigned long long)q->id),
                    NULL);
    else if (strcmp(method, "Live") == 0)
        mr_ps_manager_keep(m, p, &p->live, c);
    else if (strcmp(method, "Watch") == 0)
        do_watch(m, c, p, q);
    else if (strcmp(method, "Report") == 0)
        do_report(m, c, p, q);
    else if (strcmp(method, "Table") == 0)
        do_table(m, c, q);
    else if (strcmp(method, "Leave") == 0)
        do_leave(m, c, p);
    else if (strcmp(method, "Iterate") == 0)
        do_iterate(m, c, p, q);
    else if (strcmp(method, "Restore") == 0)
        do_restore(m, c, q);
    else
        mr_ps_reply(c, mr_error(MR_UNIMPLEMENTED, "Unknown method %s", c->method), NULL);
}

/* A call, now on the manager's thread. Every path answers it, or holds it. */
static void on_call(void *owner, mr_ps_note *n)
{
    mr_ps_manager *m = owner;
    mr_net_call *c = ((mr_ps_call_note *)n)->call;
    MR_ASSERT(m->actions.n == 0);
    mr_ps_frame f = {0};
    asked q = {0};
    mr_free(n);
    mr_status *st = m->closing ? mr_error(MR_UNAVAILABLE, "The parameter manager was stopped")
                               : mr_ps_frame_open(&c->body, &f);
    if (!st)
        st = read_asked(f.head, &q);
    if (st)
        mr_ps_reply(c, st, NULL);
    else
        dispatch_call(m, c, c->method + sizeof MR_PS_MANAGER_SERVICE - 1, &q);
    mr_vec_deinit(&q.tables);
    mr_ps_frame_deinit(&f);
}

/* The listener's handler, on a thread of the transport: it only passes the call on. */
void mr_ps_manager_handle(void *manager, mr_net_call *c)
{
    mr_ps_manager *m = manager;
    if (strncmp(c->method, MR_PS_MANAGER_SERVICE, sizeof MR_PS_MANAGER_SERVICE - 1) != 0)
        mr_ps_reply(c, mr_error(MR_UNIMPLEMENTED, "Unknown method %s", c->method), NULL);
    else
        mr_ps_calls_take(&m->inbox, c, on_call);
}
