/* ps/link.c -- how a parameter server or a client stays in touch with the manager.
 *
 * States: asking (a Join is open), joined (Live and Watch are open), or waiting for `retry_at_ns`.
 * Never asking and joined at once.
 *
 *     waiting -> asking     mr_ps_link_tick, after RETRY_NS: a new connection, then Join
 *     asking  -> joined     the manager's answer
 *     asking  -> waiting    an error that may pass; after a final one `refused` is called, and the link ends
 *     joined  -> waiting    the end of Live, or an error of Watch
 *
 * `round` grows when a link is lost, and each call remembers the round it was made in, so an answer from
 * before the loss changes nothing.
 *
 * Everything runs on the owner's thread. Callbacks into the owner (`news`, `refused`) may stop the
 * link, so `closing` is checked again after them. */
#include "ps/link.h"

#include "base/clock.h"

#define MS INT64_C(1000000)
#define RETRY_NS (20 * MS)
#define JOIN_NS (2000 * MS)
#define WATCH_EXTRA_NS (3000 * MS)

typedef struct link_ask {
    mr_ps_ask ask; /* first */
    mr_ps_link *link;
    int round;
} link_ask;

/* ---- messages of the manager ---- */

/* Frees what the owner has not kept. */
static void news_deinit(mr_ps_news *n)
{
    if (n->map)
        mr_ps_map_deinit(n->map);
    mr_free(n->map);
    for (int i = 0; i < n->tables.n; i++)
        if (n->tables.p[i]) {
            mr_ps_table_spec_deinit(n->tables.p[i]);
            mr_free(n->tables.p[i]);
        }
    mr_vec_deinit(&n->tables);
    mr_vec_deinit(&n->forget);
}

/* Adds a table to the news; after an error the news is unchanged. */
static mr_status *take_table(mr_ps_news *n, mr_sv bytes)
{
    if (n->tables.n >= MR_PS_MAX_TABLES)
        return mr_invalid("The manager sent more than %d tables", MR_PS_MAX_TABLES);
    mr_ps_table_spec *t = mr_new(mr_ps_table_spec);
    mr_status *st = mr_ps_table_spec_get(bytes, t);
    if (st)
        mr_free(t);
    else
        mr_vec_push(&n->tables, t);
    return st;
}

/* On error n holds what was read so far; news_deinit frees it. */
static mr_status *read_news(mr_sv head, mr_ps_news *n)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_status *st = NULL;
    mr_pb_reader_init(&r, head);
    while (!st && mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1:
            if (!n->map) {
                n->map = mr_new(mr_ps_map);
                st = mr_ps_map_get(mr_pb_bytes(&r), n->map);
            } else {
                mr_pb_fail(&r, "two views");
            }
            break;
        case 2: st = take_table(n, mr_pb_bytes(&r)); break;
        case 3: mr_ps_get_numbers(&r, 1 << 20, &n->forget); break;
        case 4: n->num_ranges = mr_pb_int32(&r); break;
        case 5: n->lost_ms = mr_pb_int64(&r); break;
        case 7: n->forgot = mr_pb_varint(&r); break;
        case 8: n->delay = mr_pb_int64(&r); break;
        default: mr_pb_skip(&r);
        }
    return st ? st : mr_pb_reader_status(&r, "News");
}

/* Passes a message on to the owner. An error means that the message itself was bad. */
static mr_status *tell_news(mr_ps_link *l, const mr_bytes *reply)
{
    mr_ps_frame f;
    mr_ps_news n = {0};
    mr_status *st = mr_ps_frame_open(reply, &f);
    if (!st)
        st = read_news(f.head, &n);
    if (!st) {
        l->lost_ms = n.lost_ms > 0 && n.lost_ms < 3600000 ? n.lost_ms : l->lost_ms;
        l->forgot = n.forgot;
        l->news(l->owner, &n);
    }
    news_deinit(&n);
    mr_ps_frame_deinit(&f);
    return st;
}

/* ---- calls ---- */

static void start_watch(mr_ps_link *l);

/* Makes a call of the present round. */
static void send_call(mr_ps_link *l, const char *method, void (*answered)(void *owner, mr_ps_ask *a),
                      mr_bytes *body, int64_t deadline_ns)
{
    link_ask *a = mr_new(link_ask);
    a->link = l;
    a->round = l->round;
    a->ask.answered = answered;
    mr_ps_ask_start(l->routes, &a->ask, MR_PS_TO_MANAGER, l->manager, method, body, deadline_ns);
}

/* The manager is gone: the next tick after RETRY_NS looks for it. */
static void lose_manager(mr_ps_link *l)
{
    MR_ASSERT(!l->closing);
    l->joined = l->asking = false;
    l->round++;
    l->retry_at_ns = mr_now_ns() + RETRY_NS;
}

/* Live never has an answer; however it ends, the manager is gone. */
static void on_live_end(void *owner, mr_ps_ask *ask)
{
    link_ask *a = (link_ask *)ask;
    (void)owner;
    if (a->round == a->link->round && !a->link->closing)
        lose_manager(a->link);
    mr_ps_ask_deinit(ask);
    mr_free(a);
}

/* The call has no deadline: it lasts as long as the connection. */
static void start_live(mr_ps_link *l)
{
    mr_pb_writer w;
    mr_str head = {0};
    mr_bytes body = {0};
    mr_ps_head_begin(&w, &head);
    mr_pb_put_fixed64(&w, 1, l->id);
    mr_status_free(
        mr_ps_head_end_alone(&w, &head, &body)); /* without memory the body is empty; the manager refuses it */
    send_call(l, MR_PS_MANAGER_SERVICE "Live", on_live_end, &body, 0);
}

/* The end of a Watch: news, or a heartbeat without any, and then the next Watch. Any error
 * counts as the loss of the manager. */
static void on_watched(void *owner, mr_ps_ask *ask)
{
    link_ask *a = (link_ask *)ask;
    mr_ps_link *l = a->link;
    (void)owner;
    if (a->round == l->round && !l->closing) {
        mr_status *st = ask->st ? mr_status_copy(ask->st) : tell_news(l, &ask->reply);
        if (!st && !l->closing)
            start_watch(l);
        else if (!l->closing)
            lose_manager(l);
        mr_status_free(st);
    }
    mr_ps_ask_deinit(ask);
    mr_free(a);
}

/* Says what this side knows (tables, view, forgotten clients), so that the manager sends only the
 * rest. */
static void start_watch(mr_ps_link *l)
{
    mr_pb_writer w;
    mr_str head = {0};
    mr_bytes body = {0};
    mr_ps_head_begin(&w, &head);
    mr_pb_put_fixed64(&w, 1, l->id);
    mr_pb_opt_varint(&w, 9, (uint64_t)l->tables->tables.n);
    mr_pb_opt_varint(&w, 10, l->map->view.epoch);
    mr_pb_opt_varint(&w, 11, l->forgot);
    mr_status_free(mr_ps_head_end_alone(&w, &head, &body));
    send_call(l, MR_PS_MANAGER_SERVICE "Watch", on_watched, &body, mr_now_ns() + l->lost_ms * MS + WATCH_EXTRA_NS);
}

/* Codes with which the manager refuses this peer for good. */
static bool is_final(mr_code c)
{
    return c == MR_FAILED_PRECONDITION || c == MR_INVALID_ARGUMENT || c == MR_PERMISSION_DENIED;
}

/* The manager's answer to Join. An error that may pass leaves the link waiting for its next try. */
static void on_joined(void *owner, mr_ps_ask *ask)
{
    link_ask *a = (link_ask *)ask;
    mr_ps_link *l = a->link;
    (void)owner;
    if (a->round == l->round && !l->closing) {
        mr_status *st = ask->st ? mr_status_copy(ask->st) : tell_news(l, &ask->reply);
        MR_ASSERT(l->asking && !l->joined);
        l->asking = false;
        l->retry_at_ns = mr_now_ns() + RETRY_NS;
        if (!st && !l->closing) {
            l->joined = true;
            start_live(l);
            start_watch(l);
        } else if (st && is_final(mr_status_code(st))) {
            l->closing = true;
            l->refused(l->owner, mr_status_copy(st));
        }
        mr_status_free(st);
    }
    mr_ps_ask_deinit(ask);
    mr_free(a);
}

/* For mr_ps_view_put: the address of a server in the owner's view; never NULL. */
static const char *address_in(void *map, uint64_t id)
{
    const char *a = mr_ps_map_address(map, id);
    return a ? a : "";
}

/* Introduces this side. A server sends its view, from which a new manager learns the state. Tables
 * are sent by clients too, because pushes name them by number. */
static void start_join(mr_ps_link *l)
{
    MR_ASSERT(!l->joined && !l->asking);
    mr_pb_writer w;
    mr_str head = {0};
    mr_bytes body = {0};
    mr_ps_head_begin(&w, &head);
    mr_pb_put_fixed64(&w, 1, l->id);
    mr_pb_opt_varint(&w, 2, l->server);
    mr_pb_opt_bytes(&w, 3, mr_sv_of(l->address ? l->address : ""));
    mr_pb_opt_bytes(&w, 4, mr_sv_of(l->name ? l->name : ""));
    mr_pb_opt_varint(&w, 5, l->observer);
    mr_pb_opt_varint(&w, 6, (uint64_t)(uint32_t)l->delay);
    if (l->server && l->map->view.epoch) {
        size_t mark = mr_pb_begin(&w, 7);
        mr_ps_view_put(&w, &l->map->view, address_in, (void *)(uintptr_t)l->map);
        mr_pb_end(&w, mark);
    }
    for (int i = 0; i < l->tables->tables.n; i++) {
        size_t mark = mr_pb_begin(&w, 8);
        mr_ps_table_spec_put(&w, l->tables->tables.p[i]);
        mr_pb_end(&w, mark);
    }
    mr_pb_opt_varint(&w, 9, (uint64_t)l->tables->tables.n);
    mr_status_free(mr_ps_head_end_alone(&w, &head, &body));
    l->asking = true;
    l->tries++;
    send_call(l, MR_PS_MANAGER_SERVICE "Join", on_joined, &body, mr_now_ns() + JOIN_NS);
}

void mr_ps_link_start(mr_ps_link *l)
{
    l->lost_ms = 1000;
    start_join(l);
}

/* Looks for the manager when it is time. It takes a new connection, because the transport may wait
 * before it tries the old one again. */
int64_t mr_ps_link_tick(mr_ps_link *l, int64_t now_ns)
{
    if (l->closing)
        return INT64_MAX;
    if (!l->joined && !l->asking && now_ns >= l->retry_at_ns) {
        mr_ps_routes_drop(l->routes, MR_PS_TO_MANAGER);
        start_join(l);
    }
    return now_ns + RETRY_NS;
}

void mr_ps_link_stop(mr_ps_link *l) { l->closing = true; }

void mr_ps_link_deinit(mr_ps_link *l)
{
    mr_free(l->manager);
    l->manager = NULL;
}
