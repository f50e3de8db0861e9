/* ps/manager.c -- who is a member of the parameter server, and what the members are told.
 *
 * A member (mr_ps_person) is a server or a worker that joined. The end of its Live call shows that
 * its process is gone. Its Watch calls are signs of life and bring it views.
 *
 * - A server that is lost is forgotten: if it speaks again, it is told to join.
 * - A worker that is lost is no longer waited for, but its last pushes may still be on their way.
 *   Only
 * after a long silence its clocks are given up; after that it cannot come back.
 *
 * dist/ps_manager.h decides about servers and ranges, dist/delay.h about iterations. Both put
 * actions into a list that is carried out, and emptied, before the next event. `people` and `by_id`
 * hold the same members. */
#include "ps/manager_internal.h"

#include "base/clock.h"
#include "base/log.h"

#define MS INT64_C(1000000)

enum {
    DEFAULT_RANGES = 240,
    DEFAULT_LOST_MS = 1000,
    WORKER_PATIENCE = 30, /* times as long as a server */
    SETTLE_MS = 400, /* a new manager waits for servers that still hold ranges; they look for it every 20 ms */
};

/* ---- members ---- */

/* The key in by_id. Peers choose their ids; a hash keeps them from colliding in the map without
 * effort. */
static uint64_t mix_id(uint64_t id) { return mr_hash64(&id, sizeof id); }

mr_ps_person *mr_ps_person_find(mr_ps_manager *m, uint64_t id)
{
    mr_ps_person *p = mr_imap_get(&m->by_id, mix_id(id));
    return p && p->id == id ? p : NULL;
}

/* Refuses an id whose hash is in use, so that by_id needs no buckets. */
mr_ps_person *mr_ps_person_add(mr_ps_manager *m, uint64_t id, bool server)
{
    MR_ASSERT(id != 0);
    if (m->people.n >= MR_PS_MAX_PEOPLE || mr_imap_get(&m->by_id, mix_id(id)))
        return NULL;
    mr_ps_person *p = mr_new(mr_ps_person);
    p->id = id;
    p->server = server;
    mr_vec_push(&m->people, p);
    mr_imap_put(&m->by_id, mix_id(id), p);
    return p;
}

/* Takes over st and body, also when there is no call. The place is cleared first, because the reply
 * may free the call. */
void mr_ps_manager_answer(mr_ps_held_call **place, mr_status *st, mr_bytes *body)
{
    mr_ps_held_call *h = *place;
    *place = NULL;
    if (h) {
        mr_ps_held_reply(&h->held, st, body);
    } else {
        mr_status_free(st);
        if (body)
            mr_bytes_deinit(body);
    }
}

/* Answers its calls before anything else, so that a process that is still alive learns of it. */
void mr_ps_person_remove(mr_ps_manager *m, mr_ps_person *p, mr_status *why)
{
    mr_ps_held_call **held[] = {&p->live, &p->watch, &p->leave, &p->iterate};
    for (int i = 0; i < MR_COUNT(held); i++)
        mr_ps_manager_answer(held[i], mr_status_copy(why), NULL);
    mr_status_free(why);
    MR_ASSERT(mr_ps_person_find(m, p->id) == p);
    for (int i = 0; i < m->people.n; i++)
        if (m->people.p[i] == p) {
            mr_vec_remove_swap(&m->people, i);
            break;
        }
    mr_imap_remove(&m->by_id, mix_id(p->id));
    mr_free(p->name);
    mr_free(p->address);
    mr_free(p);
}

/* A held call was cancelled: its caller is gone, or gave up. Only the end of Live means that the
 * member is lost; other calls may simply have been made again. */
static void on_gone(void *owner, mr_ps_held *h)
{
    mr_ps_manager *m = owner;
    mr_ps_held_call *c = (mr_ps_held_call *)h;
    mr_ps_person *p = mr_ps_person_find(m, c->id);
    bool was_live = p && c->place == &p->live;
    *c->place = NULL;
    mr_ps_held_reply(h, mr_error(MR_CANCELLED, "The call was cancelled"), NULL);
    if (was_live && !m->closing)
        mr_ps_manager_lost(m, p);
}

/* The call stays open until mr_ps_manager_answer, or until on_gone. */
void mr_ps_manager_keep(mr_ps_manager *m, mr_ps_person *p, mr_ps_held_call **place, mr_net_call *c)
{
    mr_ps_manager_answer(place, mr_error(MR_ABORTED, "The same call was made again"), NULL);
    mr_ps_held_call *h = mr_new(mr_ps_held_call);
    h->id = p->id;
    h->place = place;
    *place = h;
    mr_ps_hold(&h->held, &m->inbox, c, on_gone);
}

/* ---- news ---- */

bool mr_ps_manager_has_news(const mr_ps_manager *m, const mr_ps_person *p)
{
    return (m->psm.dealt && p->epoch != m->psm.view.epoch) || p->tables < m->tables.n ||
           (p->server && p->forgot != m->forgot);
}

static const char *address_of(void *manager, uint64_t id)
{
    mr_ps_person *p = mr_ps_person_find(manager, id);
    return p && p->address ? p->address : "";
}

/* The view as bytes, made once for each epoch. Borrowed until the view changes. */
static mr_status *view_bytes(mr_ps_manager *m, mr_sv *out)
{
    if (m->view_epoch != m->psm.view.epoch || !m->view.n) {
        mr_pb_writer w;
        mr_str_clear(&m->view);
        mr_pb_writer_init(&w, &m->view);
        mr_ps_view_put(&w, &m->psm.view, address_of, m);
        m->view_epoch = m->psm.view.epoch;
        MR_TRY(mr_pb_writer_status(&w, "View"));
    }
    *out = mr_str_view(&m->view);
    return NULL;
}

/* The clients that were forgotten since the server last heard. The list is bounded: a server that
 * missed more never drops some clocks, which costs memory but does no harm. */
static void put_forgotten(mr_pb_writer *w, const mr_ps_manager *m, const mr_ps_person *p)
{
    uint64_t missed = m->forgot - MR_MIN(p->forgot, m->forgot);
    int n = (int)MR_MIN(missed, (uint64_t)m->forgotten.n);
    mr_ps_numbers last = {m->forgotten.p + m->forgotten.n - n, n, n};
    if (n > 0)
        mr_ps_put_numbers(w, 3, &last);
}

/* An answer to Join or Watch: only what the member does not know yet. On error *out is empty. */
mr_status *mr_ps_manager_news(mr_ps_manager *m, const mr_ps_person *p, bool join, mr_bytes *out)
{
    mr_pb_writer w;
    mr_str head = {0};
    mr_sv view;
    mr_ps_head_begin(&w, &head);
    if (m->psm.dealt && p->epoch != m->psm.view.epoch) {
        mr_status *st = view_bytes(m, &view);
        if (st) {
            mr_str_deinit(&head);
            return st;
        }
        mr_pb_put_bytes(&w, 1, view);
    }
    for (int i = p->tables; i < m->tables.n; i++) {
        size_t mark = mr_pb_begin(&w, 2);
        mr_ps_table_spec_put(&w, m->tables.p[i]);
        mr_pb_end(&w, mark);
    }
    if (p->server && !join)
        put_forgotten(&w, m, p);
    mr_pb_put_varint(&w, 4, (uint64_t)m->num_ranges);
    mr_pb_put_varint(&w, 5, (uint64_t)(m->lost_ns / MS));
    mr_pb_opt_varint(&w, 7, m->forgot);
    mr_pb_opt_varint(&w, 8, (uint64_t)m->delay.bound);
    return mr_ps_head_end_alone(&w, &head, out);
}

/* Also used as a heartbeat, with nothing new in it. */
void mr_ps_manager_tell(mr_ps_manager *m, mr_ps_person *p)
{
    mr_bytes body = {0};
    if (!p->watch)
        return;
    mr_status *st = mr_ps_manager_news(m, p, false, &body);
    mr_ps_manager_answer(&p->watch, st, &body);
}

/* Answering a Watch removes no member from the list, so the loop is safe. */
static void tell_all(mr_ps_manager *m)
{
    for (int i = 0; i < m->people.n; i++)
        if (m->people.p[i]->watch && mr_ps_manager_has_news(m, m->people.p[i]))
            mr_ps_manager_tell(m, m->people.p[i]);
}

/* ---- carrying out actions ---- */

/* Notes that servers may drop a client's clocks. The list keeps at least the newer half of its
 * maximum. */
static void forget_client(mr_ps_manager *m, uint64_t client)
{
    MR_ASSERT(m->forgotten.n <= MR_PS_MAX_GONE && (uint64_t)m->forgotten.n <= m->forgot);
    if (m->forgotten.n >= MR_PS_MAX_GONE) {
        int half = m->forgotten.n / 2;
        memmove(m->forgotten.p, m->forgotten.p + half,
                (size_t)(m->forgotten.n - half) * sizeof *m->forgotten.p);
        m->forgotten.n -= half;
    }
    mr_vec_push(&m->forgotten, client);
    m->forgot++;
}

/* Carries out one action of dist/ps_manager.h. Views are sent by tell_all, once for all actions. */
static void do_action(mr_ps_manager *m, const mr_psm_action *a)
{
    mr_ps_person *p = a->id ? mr_ps_person_find(m, a->id) : NULL;
    switch (a->what) {
    case MR_PSM_PUBLISH: break; /* by tell_all */
    case MR_PSM_SEND_VIEW:
        if (p && mr_ps_manager_has_news(m, p))
            mr_ps_manager_tell(m, p);
        break;
    case MR_PSM_LET_GO:
        if (p)
            mr_ps_manager_answer(&p->leave, NULL, NULL);
        break;
    case MR_PSM_KEEP:
        if (p)
            mr_ps_manager_answer(
                &p->leave,
                mr_error(MR_FAILED_PRECONDITION, "No other server can take over this server's ranges"),
                NULL);
        break;
    case MR_PSM_DECLINED:
        mr_warn("parameters: server %s has no memory for range %d", p && p->address ? p->address : "", a->range);
        break;
    case MR_PSM_LOST_RANGE: break; /* counted by mr_ps_manager_act */
    case MR_PSM_FORGET_CLIENT: forget_client(m, a->id); break;
    case MR_PSM_WORKERS: break;
    }
}

/* Lost ranges are counted and reported in one line, because a lost server may lose hundreds. */
void mr_ps_manager_act(mr_ps_manager *m)
{
    int lost = 0;
    for (int i = 0; i < m->actions.n; i++) {
        mr_psm_action a = m->actions.p[i];
        lost += a.what == MR_PSM_LOST_RANGE;
        do_action(m, &a);
    }
    if (lost > 0)
        mr_warn("parameters: all copies of %d %s are lost", lost, lost == 1 ? "range" : "ranges");
    m->actions.n = 0;
    tell_all(m);
}

/* Passes an event to dist/delay.h and answers the Iterate calls of all workers that may begin now. */
void mr_ps_manager_delay(mr_ps_manager *m, uint64_t worker, mr_delay_message message, int64_t iteration)
{
    MR_ASSERT(m->begun.n == 0);
    mr_delay_step(&m->delay, &(mr_delay_event){(int64_t)worker, message, iteration}, mr_now_ns(), &m->begun);
    for (int i = 0; i < m->begun.n; i++) {
        mr_delay_action a = m->begun.p[i];
        mr_ps_person *p = mr_ps_person_find(m, (uint64_t)a.worker);
        if (a.what == MR_DELAY_BEGIN && p)
            mr_ps_manager_answer(&p->iterate, NULL, NULL);
    }
    m->begun.n = 0;
}

/* A worker stays known as `silent`. A server is removed, and p is freed. */
void mr_ps_manager_lost(mr_ps_manager *m, mr_ps_person *p)
{
    uint64_t id = p->id;
    if (!p->server) {
        if (!p->silent && !p->observer)
            mr_ps_manager_delay(m, id, MR_DELAY_LOST, 0);
        p->silent = true;
        return;
    }
    mr_info("parameters: server %s is lost", p->address ? p->address : "");
    mr_psm_lost(&m->psm, id, mr_now_ns(), &m->actions);
    mr_ps_person_remove(m, p, mr_error(MR_UNAVAILABLE, "The manager considers this server lost"));
    mr_ps_manager_act(m);
}

/* ---- time ---- */

/* One member's timers: a heartbeat for its Watch, and what its silence means. May free it. */
static void check_member(mr_ps_manager *m, mr_ps_person *p, int64_t now_ns)
{
    int64_t silent_ns = now_ns - p->heard_ns;
    if (p->watch && now_ns - p->watched_ns >= m->lost_ns / 4)
        mr_ps_manager_tell(m, p);
    if (silent_ns > m->lost_ns && (p->server || !p->silent)) {
        mr_ps_manager_lost(m, p);
    } else if (!p->server && silent_ns > m->lost_ns * WORKER_PATIENCE) {
        mr_psm_worker_leave(&m->psm, p->id, &m->actions);
        mr_ps_person_remove(
            m, p, mr_error(MR_FAILED_PRECONDITION, "The manager has not heard from this worker for too long"));
        mr_ps_manager_act(m);
    }
}

static int64_t tick_ns(const mr_ps_manager *m) { return MR_MAX(m->lost_ns / 40, 2 * MS); }

/* When the manager itself was not scheduled for a while, members may have spoken meanwhile, and
 * their messages are still unread. So the time it slept does not count as their silence. */
static void excuse_sleep(mr_ps_manager *m, int64_t now_ns)
{
    int64_t late_ns = m->ticked_ns ? now_ns - m->ticked_ns - tick_ns(m) : 0;
    m->ticked_ns = now_ns;
    for (int i = 0; late_ns > m->lost_ns / 8 && i < m->people.n; i++)
        m->people.p[i]->heard_ns = MR_MIN(now_ns, m->people.p[i]->heard_ns + late_ns);
}

/* Goes through the members from the end, because looking at one may remove it and others. */
static int64_t tick_manager(void *owner, int64_t now_ns)
{
    mr_ps_manager *m = owner;
    excuse_sleep(m, now_ns);
    for (int i = m->people.n - 1; i >= 0; i--)
        if (i < m->people.n)
            check_member(m, m->people.p[i], now_ns);
    int64_t next = mr_psm_tick(&m->psm, now_ns, &m->actions);
    mr_ps_manager_act(m);
    mr_ps_manager_check_tables(m, now_ns);
    return MR_MIN(next, now_ns + tick_ns(m));
}

/* ---- start and end ---- */

/* 0 means the default everywhere. */
static mr_status *check_options(const mr_ps_manager_options *o)
{
    if (o->replicas < 0 || o->replicas > MR_PS_MAX_REPLICAS)
        return mr_invalid("replicas is %d, expected 1 to %d", o->replicas, MR_PS_MAX_REPLICAS);
    if (o->num_ranges < 0 || o->num_ranges > MR_PS_MAX_RANGES)
        return mr_invalid("num_ranges is %d, expected 1 to %d", o->num_ranges, MR_PS_MAX_RANGES);
    if (o->servers < 0 || o->servers > MR_PS_MAX_SERVERS)
        return mr_invalid("servers is %d, expected 1 to %d", o->servers, MR_PS_MAX_SERVERS);
    if (o->lost_ms < 0 || o->lost_ms > 3600000)
        return mr_invalid("lost_ms is %lld, expected 0 to 3600000", (long long)o->lost_ms);
    return NULL;
}

/* Inside one process there is nothing to wait for: servers cannot be left over from another
 * manager, and none is lost without the process. Hence no settling and no patience. */
static mr_status *start_manager(mr_ps_manager *m, const mr_ps_manager_options *o, struct mr_server *task)
{
    const char *address = o->address ? o->address : "127.0.0.1:0";
    bool inside = strncmp(address, MR_PS_INSIDE, sizeof MR_PS_INSIDE - 1) == 0;
    MR_TRY(check_options(o));
    m->num_ranges = o->num_ranges ? o->num_ranges : DEFAULT_RANGES;
    m->lost_ns = (o->lost_ms ? o->lost_ms : DEFAULT_LOST_MS) * MS;
    mr_psm_options with = {.num_ranges = m->num_ranges,
                           .replicas = o->replicas ? o->replicas : 2,
                           .servers = o->servers ? o->servers : 1,
                           .settle_ns = inside ? 0 : SETTLE_MS * MS,
                           .patience_ns = inside ? 0 : MR_MAX(2 * m->lost_ns, 1000 * MS),
                           .stamp = (uint64_t)mr_wall_us()};
    MR_TRY(mr_psm_init(&m->psm, &with, mr_now_ns()));
    mr_delay_init(&m->delay, &(mr_delay_options){.bound = MR_DELAY_EVENTUAL}, mr_now_ns());
    m->inbox.tick = tick_manager;
    MR_TRY(mr_ps_inbox_start(&m->inbox, "ps-manager"));
    return mr_ps_listeners_open(address, task, MR_PS_MANAGER_SERVICE, mr_ps_manager_handle, m, &m->listeners);
}

/* After an error nothing is left: mr_ps_manager_close accepts a manager of which only a part was started. */
mr_status *mr_ps_manager_open(const mr_ps_manager_options *o, struct mr_server *task, mr_ps_manager **out)
{
    mr_ps_manager *m = mr_new(mr_ps_manager);
    m->inbox.owner = m;
    mr_status *st = start_manager(m, o, task);
    if (st) {
        mr_ps_manager_close(m);
        m = NULL;
    }
    *out = m;
    return st;
}

const char *mr_ps_manager_where(const mr_ps_manager *m) { return mr_ps_listeners_address(m->listeners); }

/* On the manager's thread. Runs twice: before the listener closes, because a listener waits for
 * held calls, and after it, for calls that came in between. */
static void end_members(void *owner, void *arg)
{
    mr_ps_manager *m = owner;
    (void)arg;
    m->closing = true;
    while (m->people.n > 0)
        mr_ps_person_remove(m, m->people.p[0],
                            mr_error(MR_UNAVAILABLE, "The parameter manager was stopped"));
    while (m->new_tables.n > 0)
        mr_ps_held_reply(&mr_vec_pop(&m->new_tables)->held,
                         mr_error(MR_UNAVAILABLE, "The parameter manager was stopped"), NULL);
}

/* Also the way out of a failed start: every part may be missing. */
void mr_ps_manager_close(mr_ps_manager *m)
{
    if (!m)
        return;
    mr_ps_inbox_ask(&m->inbox, end_members, NULL);
    mr_ps_listeners_close(m->listeners);
    mr_ps_inbox_ask(&m->inbox, end_members, NULL);
    mr_ps_inbox_stop(&m->inbox);
    MR_ASSERT(m->people.n == 0 && m->new_tables.n == 0);
    for (int i = 0; i < m->tables.n; i++) {
        mr_ps_table_spec_deinit(m->tables.p[i]);
        mr_free(m->tables.p[i]);
    }
    mr_vec_deinit(&m->tables);
    mr_vec_deinit(&m->people);
    mr_vec_deinit(&m->new_tables);
    mr_vec_deinit(&m->forgotten);
    mr_vec_deinit(&m->actions);
    mr_vec_deinit(&m->begun);
    mr_imap_deinit(&m->by_id);
    mr_str_deinit(&m->view);
    mr_delay_deinit(&m->delay);
    mr_psm_deinit(&m->psm);
    mr_free(m);
}
