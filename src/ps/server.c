/* ps/server.c -- a parameter server from start to end: it joins the manager, follows views, and
 * leaves.
 *
 * The server's thread (ps/inbox.h) owns all state except the fields under `mu`, which callers of
 * the API wait on. Three facts hold between two notes of the inbox:
 *
 * - `ranges` is NULL until the manager's first message says how many ranges there are; after that the number never
 *   changes.
 * - `actions` is empty: each event of a range is followed by mr_ps_server_act.
 * - After `closing` no view, table or call is accepted. The next turn sets `closed`, answers every open call with
 *   UNAVAILABLE and closes the connections, so that peers notice at once. */
#include "base/long_wait.h"
#include "ps/server_internal.h"

#include "base/clock.h"
#include "base/log.h"

#define MS INT64_C(1000000)
#define TICK_NS (20 * MS)
#define JOIN_NS (60000 * MS)
#define LEAVE_NS (600000 * MS)

enum { KEY_CACHE_BYTES = 256 << 20 };

/* ---- messages from the manager ---- */

/* Called once, when the manager has said how many ranges there are. Every range starts empty. */
static void begin_ranges(mr_ps_server *s, int n)
{
    MR_ASSERT(!s->ranges && n >= 1);
    mr_ps_store_init(&s->store, n, s->memory);
    mr_ps_clock_init(&s->clock, n, 0);
    s->ranges = mr_new_array(mr_ps_range_state, n);
    for (int i = 0; i < n; i++)
        mr_psr_init(&s->ranges[i].r, s->id, i, &s->clock, NULL);
}

/* Takes over t. A server that cannot hold a table must stop: tables are identified by their
 * position in the list, so all later tables would have the wrong number. A table whose graph cannot
 * be loaded is kept, with a NULL in `graphs`; pushes to it are refused. */
static void add_table(mr_ps_server *s, mr_ps_table_spec *t)
{
    mr_ps_graph_update *g = NULL;
    mr_status *st = mr_ps_store_add(&s->store, t);
    if (st) {
        mr_ps_table_spec_deinit(t);
        mr_free(t);
        mr_ps_server_fail(s, st);
        return;
    }
    if (t->o.update == MR_PS_GRAPH && (st = mr_ps_graph_update_new(t, &g))) {
        mr_warn("parameters: table '%s': %s", t->name, mr_status_message(st));
        mr_status_free(st);
    }
    mr_vec_push(&s->graphs, g);
    MR_ASSERT(s->graphs.n == s->store.tables.n);
}

/* Adopts a newer view, whose contents move out of *m. Servers that the view no longer names are
 * disconnected first, so that messages queued for them are dropped. Then every range decides what
 * the view means for it (dist/ps_replica.h). */
static void take_view(mr_ps_server *s, mr_ps_map *m)
{
    MR_ASSERT(m->view.epoch > s->map.view.epoch && m->view.ranges.n == s->store.n_ranges);
    int64_t now = mr_now_ns();
    for (int i = s->routes.to.n - 1; i >= 0; i--) {
        uint64_t id = s->routes.to.p[i].id;
        if (id != MR_PS_TO_MANAGER && !mr_ps_map_address(m, id)) {
            mr_ps_server_drop_peer(s, id);
            mr_ps_routes_drop(&s->routes, id);
        }
    }
    mr_ps_map_deinit(&s->map);
    s->map = *m;
    for (int i = 0; i < s->store.n_ranges && i < s->map.view.ranges.n; i++) {
        mr_psr_view(&s->ranges[i].r, &s->map.view.ranges.p[i], now, &s->actions);
        mr_ps_server_act(s, i, NULL);
    }
}

/* The manager's answer to Join or Watch (ps/link.h calls this on the server's thread). Tables are
 * added before the view is adopted, because the view may start traffic that names them. At the end
 * it wakes mr_ps_server_open, which waits for the first answer. */
static void on_news(void *owner, mr_ps_news *n)
{
    mr_ps_server *s = owner;
    if (!s->ranges && n->num_ranges >= 1 && n->num_ranges <= MR_PS_MAX_RANGES)
        begin_ranges(s, n->num_ranges);
    if (!s->ranges || n->num_ranges != s->store.n_ranges ||
        (n->map && n->map->view.ranges.n != s->store.n_ranges)) {
        mr_ps_server_fail(s, mr_error(MR_FAILED_PRECONDITION,
                                      "The manager divides tables into %d ranges, but this server has %d",
                                      n->num_ranges, s->store.n_ranges));
        return;
    }
    for (int i = 0; i < n->tables.n && !s->closing; i++) {
        add_table(s, n->tables.p[i]);
        n->tables.p[i] = NULL;
    }
    /* These clients will not push again, so their numbers and key lists are not needed. */
    for (int i = 0; i < n->forget.n; i++) {
        mr_ps_clock_forget(&s->clock, n->forget.p[i]);
        mr_ps_key_cache_drop_owner(s->keys, n->forget.p[i]);
    }
    if (n->map && n->map->view.epoch > s->map.view.epoch && !s->closing) {
        take_view(s, n->map);
        mr_free(n->map);
        n->map = NULL;
    }
    mr_lock(&s->mu);
    s->joined = true;
    mr_cond_broadcast(&s->changed);
    mr_unlock(&s->mu);
}

/* Only marks the server as closing; turn_server answers the open calls. The first error is kept. */
void mr_ps_server_fail(mr_ps_server *s, mr_status *st)
{
    mr_warn("parameters: this server stops: %s", mr_status_message(st));
    s->closing = true;
    mr_ps_link_stop(&s->link);
    mr_lock(&s->mu);
    mr_status_update(&s->failed, st);
    mr_cond_broadcast(&s->changed);
    mr_unlock(&s->mu);
}

static void on_refused(void *owner, mr_status *st) { mr_ps_server_fail(owner, st); }

/* ---- calls to the manager ---- */

static void free_ask(void *owner, mr_ps_ask *a)
{
    (void)owner;
    mr_ps_ask_deinit(a);
    mr_free(a);
}

/* Completes the head and sends it; the body is empty if memory ran out, and the manager refuses it. */
static void ask_manager(mr_ps_server *s, mr_ps_ask *a, const char *method, mr_pb_writer *w, mr_str *head,
                        int64_t ns)
{
    mr_bytes body = {0};
    mr_status_free(mr_ps_head_end_alone(w, head, &body));
    mr_ps_ask_start(&s->routes, a, MR_PS_TO_MANAGER, s->link.manager, method, &body, mr_now_ns() + ns);
}

/* One Report carries the three kinds: DRAINED and DECLINE are flags, COMPLETE names the new member. */
void mr_ps_server_report(mr_ps_server *s, int range, const mr_psr_action *about)
{
    MR_ASSERT(range >= 0 && range < s->store.n_ranges);
    MR_ASSERT(about->what == MR_PSR_COMPLETE || about->what == MR_PSR_DRAINED || about->what == MR_PSR_DECLINE);
    mr_pb_writer w;
    mr_str head = {0};
    mr_ps_ask *a = mr_new(mr_ps_ask);
    a->answered = free_ask; /* a lost report is repeated by dist/ps_replica.h */
    mr_ps_head_begin(&w, &head);
    mr_pb_put_fixed64(&w, 1, s->id);
    mr_pb_opt_varint(&w, 10, about->epoch);
    mr_pb_opt_varint(&w, 12, (uint64_t)range);
    mr_pb_opt_varint(&w, 13, about->what == MR_PSR_DRAINED);
    mr_pb_opt_fixed64(&w, 14, about->what == MR_PSR_COMPLETE ? about->to : 0);
    mr_pb_opt_varint(&w, 17, about->what == MR_PSR_DECLINE);
    ask_manager(s, a, MR_PS_MANAGER_SERVICE "Report", &w, &head, 1000 * MS);
}

/* The answer to Leave. The manager answers when this server's ranges have moved to others. While it
 * cannot be reached, or a new manager does not know this server yet, tick_server() asks again; any other
 * end wakes all waiters in mr_ps_server_hand_over. */
static void on_left(void *owner, mr_ps_ask *a)
{
    mr_ps_server *s = owner;
    mr_code code = mr_status_code(a->st);
    bool again = (code == MR_UNAVAILABLE || code == MR_NOT_FOUND || code == MR_CANCELLED) && !s->closing &&
                 mr_now_ns() < s->leave_until_ns;
    if (!again) {
        mr_lock(&s->mu);
        s->left = a->st == NULL;
        s->leaving = false;
        mr_status_free(s->failed_to_leave);
        s->failed_to_leave = mr_status_copy(a->st);
        mr_cond_broadcast(&s->changed);
        mr_unlock(&s->mu);
    }
    s->leave_again_ns = again ? mr_now_ns() + 50 * MS : 0;
    free_ask(owner, a);
}

/* Asks the manager to move this server's ranges to others; on_left gets the answer. */
static void ask_to_leave(mr_ps_server *s)
{
    MR_ASSERT(s->leave_until_ns > 0);
    mr_pb_writer w;
    mr_str head = {0};
    mr_ps_ask *a = mr_new(mr_ps_ask);
    a->answered = on_left;
    mr_ps_head_begin(&w, &head);
    mr_pb_put_fixed64(&w, 1, s->id);
    ask_manager(s, a, MR_PS_MANAGER_SERVICE "Leave", &w, &head, s->leave_until_ns - mr_now_ns());
}

/* The first question of one hand-over; on_left repeats it until the deadline set here. */
static void begin_leave(void *owner, mr_ps_note *n)
{
    mr_ps_server *s = owner;
    (void)n;
    s->leave_until_ns = mr_now_ns() + LEAVE_NS;
    ask_to_leave(s);
}

/* Callers may come from several threads: the first one starts the hand-over, all of them wait for
 * its end and get the same result. */
mr_status *mr_ps_server_hand_over(mr_ps_server *s)
{
    mr_status *st = NULL;
    mr_lock(&s->mu);
    bool begin = !s->left && !s->leaving && !s->failed;
    s->leaving |= begin;
    mr_unlock(&s->mu);
    if (begin)
        mr_ps_inbox_put(&s->inbox, &s->leave_note, begin_leave);
    mr_long_wait wait;
    mr_long_wait_begin(&wait, mr_now_ns());
    mr_lock(&s->mu);
    while (s->leaving && !s->failed)
        mr_long_wait_cond(&wait, &s->changed, &s->mu, 0,
                          "the parameter manager at %s: it has not moved this server's ranges to others",
                          s->link.manager);
    st = s->failed ? mr_status_copy(s->failed) : s->left ? NULL : mr_status_copy(s->failed_to_leave);
    mr_unlock(&s->mu);
    return st;
}

/* ---- time ---- */

/* Every 20 ms: lets each range check its timers, repeats Leave when it is due, and keeps the link
 * to the manager alive. */
static int64_t tick_server(void *owner, int64_t now_ns)
{
    mr_ps_server *s = owner;
    for (int i = 0; i < s->store.n_ranges && s->ranges && !s->closing; i++) {
        mr_psr_tick(&s->ranges[i].r, now_ns, &s->actions);
        mr_ps_server_act(s, i, NULL);
    }
    if (s->leave_again_ns && now_ns >= s->leave_again_ns && !s->closing) {
        s->leave_again_ns = 0;
        ask_to_leave(s);
    }
    mr_ps_link_tick(&s->link, now_ns);
    return now_ns + TICK_NS;
}

/* Runs once after each batch of notes, so that messages to one server are sent together. */
static void turn_server(void *owner)
{
    mr_ps_server *s = owner;
    if (s->closing && !s->closed) { /* the connections close, so that peers see the end */
        s->closed = true;
        mr_ps_server_end_pushes(s);
        mr_ps_server_end_line(s);
        mr_ps_routes_close(&s->routes);
    }
    if (s->line)
        mr_ps_server_serve_line(s, mr_now_ns());
    mr_ps_server_flush(s);
}

/* ---- start and end ---- */

/* Starts the thread, then the listener: calls may arrive as soon as the listener is open. */
static mr_status *start_server(mr_ps_server *s, const mr_ps_server_options *o, struct mr_server *task)
{
    if (!o->manager || !o->manager[0])
        return mr_invalid("A parameter server needs the address of its manager (set manager)");
    if (o->memory < 0)
        return mr_invalid("memory is %lld, expected a number of bytes, or 0 for no limit", (long long)o->memory);
    s->memory = (size_t)o->memory;
    s->keys = mr_ps_key_cache_new(KEY_CACHE_BYTES);
    s->routes.inbox = &s->inbox;
    s->inbox.tick = tick_server;
    s->inbox.turn = turn_server;
    MR_TRY(mr_ps_inbox_start(&s->inbox, "ps-server"));
    return mr_ps_listeners_open(o->address ? o->address : "127.0.0.1:0", task, MR_PS_SERVICE, mr_ps_server_handle,
                            s, &s->listeners);
}

/* Runs on the server's thread. arg is the manager's address. */
static void begin_link(void *owner, void *arg)
{
    mr_ps_server *s = owner;
    s->link = (mr_ps_link){.owner = s,
                           .routes = &s->routes,
                           .manager = mr_strdup(arg),
                           .id = s->id,
                           .server = true,
                           .address = mr_ps_listeners_address(s->listeners),
                           .map = &s->map,
                           .tables = &s->store,
                           .news = on_news,
                           .refused = on_refused};
    mr_ps_link_start(&s->link);
}

/* Waits at most JOIN_NS for the manager's first answer. */
static mr_status *wait_joined(mr_ps_server *s, const char *manager)
{
    bool in_time = true;
    int64_t until = mr_now_ns() + JOIN_NS;
    mr_long_wait wait;
    mr_long_wait_begin(&wait, mr_now_ns());
    mr_lock(&s->mu);
    while (!s->joined && !s->failed && in_time)
        in_time = mr_long_wait_cond(&wait, &s->changed, &s->mu, until,
                                    "the parameter manager at %s: it does not answer", manager);
    mr_status *st = s->failed ? mr_status_copy(s->failed) : NULL;
    if (!st && !s->joined)
        st = mr_error(MR_DEADLINE_EXCEEDED, "The parameter manager at %s does not answer", manager);
    mr_unlock(&s->mu);
    return st;
}

/* Returns when the manager has accepted the server. mr_ps_server_close copes with a server of which
 * only a part was started, so it is also the way out after an error. */
mr_status *mr_ps_server_open(const mr_ps_server_options *o, struct mr_server *task, mr_ps_server **out)
{
    mr_ps_server *s = mr_new(mr_ps_server);
    mr_mutex_init(&s->mu);
    mr_cond_init(&s->changed);
    s->inbox.owner = s;
    s->link.closing = true; /* until begin_link */
    s->id = mr_random64() | 1;
    s->answers = mr_ps_tally_new();
    mr_status *st = start_server(s, o, task);
    if (!st) {
        mr_ps_inbox_ask(&s->inbox, begin_link, (void *)(uintptr_t)o->manager);
        st = wait_joined(s, o->manager);
    }
    if (st) {
        mr_ps_server_close(s);
        s = NULL;
    }
    *out = s;
    return st;
}

const char *mr_ps_server_where(const mr_ps_server *s) { return mr_ps_listeners_address(s->listeners); }

/* The last event of the server's thread. Pushes and pulls are ended again after the turn, because a
 * server that was already `closed` may hold calls that came since. */
static void end_server(void *owner, void *arg)
{
    mr_ps_server *s = owner;
    (void)arg;
    s->closing = true;
    mr_ps_link_stop(&s->link);
    turn_server(s);
    mr_ps_server_end_pushes(s);
    mr_ps_server_end_line(s);
}

/* Only after the thread has ended, and all open pushes with it: ranges refer to their parts. */
static void free_ranges(mr_ps_server *s)
{
    MR_ASSERT(!s->inbox.running && !s->pushes && !s->line);
    for (int i = 0; s->ranges && i < s->store.n_ranges; i++)
        mr_ps_range_state_deinit(&s->ranges[i]);
    for (int i = 0; i < s->graphs.n; i++)
        mr_ps_graph_update_free(s->graphs.p[i]);
    if (s->ranges)
        mr_ps_clock_deinit(&s->clock);
    mr_vec_deinit(&s->graphs);
    mr_ps_store_deinit(&s->store);
    mr_free(s->ranges);
}

/* NULL is allowed. The listener closes while the thread still runs, so that calls on their way in
 * get an answer. */
void mr_ps_server_close(mr_ps_server *s)
{
    if (!s)
        return;
    if (s->inbox.running) {
        mr_ps_inbox_ask(&s->inbox, end_server, NULL);
        mr_ps_listeners_close(s->listeners);
        mr_ps_inbox_stop(&s->inbox);
    }
    while (s->outboxes.n > 0)
        mr_ps_server_drop_peer(s, s->outboxes.p[0]->to);
    free_ranges(s);
    mr_vec_deinit(&s->outboxes);
    mr_vec_deinit(&s->actions);
    mr_vec_deinit(&s->routes.to);
    mr_ps_link_deinit(&s->link);
    mr_ps_map_deinit(&s->map);
    mr_ps_key_cache_free(s->keys);
    mr_ps_tally_unref(s->answers);
    mr_status_free(s->failed);
    mr_status_free(s->failed_to_leave);
    mr_cond_deinit(&s->changed);
    mr_mutex_deinit(&s->mu);
    mr_free(s);
}
