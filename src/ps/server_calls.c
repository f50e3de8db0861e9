/* ps/server_calls.c -- incoming calls of a parameter server, and pushes.
 *
 * A push is split into one part for each range. Each part is offered to its range
 * (dist/ps_replica.h), which answers now or when the tail of the chain has the record. The call is
 * answered when the last part is. So `left` is the number of parts without an answer, plus one
 * while the push is being split.
 *
 * A range knows its part by address (the cookie). The part stays until the call is answered, and
 * the server answers open calls before it frees its ranges. */
#include "ps/server_internal.h"

#include "base/clock.h"

/* ---- pushes ---- */

static bool any_error(const mr_ps_push_call *p)
{
    for (int i = 0; i < p->n; i++)
        if (p->codes.p[i] != MR_OK)
            return true;
    return false;
}

/* The message that goes into the answer; codes are reported for each part. Borrowed. */
static mr_status *first_error(const mr_ps_push_call *p)
{
    for (int i = 0; i < p->n; i++)
        if (p->parts[i].st)
            return p->parts[i].st;
    return NULL;
}

/* Answers the call, takes it off the server's list and frees it. Takes over st and body. */
static void push_end(mr_ps_push_call *p, mr_status *st, mr_bytes *body)
{
    mr_ps_reply(p->call, st, body);
    MR_ASSERT(*p->link == p);
    MR_ASSERT(p->server->under_way >= (p->blob ? p->blob->n : 0));
    *p->link = p->next;
    if (p->next)
        p->next->link = p->link;
    for (int i = 0; i < p->n; i++)
        mr_status_free(p->parts[i].st);
    p->server->under_way -= p->blob ? p->blob->n : 0;
    mr_ps_blob_unref(p->blob);
    mr_vec_deinit(&p->codes);
    mr_vec_deinit(&p->epochs);
    mr_vec_deinit(&p->versions);
    mr_free(p);
}

void mr_ps_server_end_pushes(mr_ps_server *s)
{
    while (s->pushes)
        push_end(s->pushes, mr_error(MR_UNAVAILABLE, "The parameter server was stopped"), NULL);
    MR_ASSERT(s->line || s->under_way == 0); /* only waiting pulls are left under way */
}

/* The answer of a push that succeeded in full is empty, which is the common case. */
static void push_reply(mr_ps_push_call *p)
{
    mr_pb_writer w;
    mr_str head = {0};
    mr_bytes body = {0};
    MR_ASSERT(p->left == 0);
    mr_ps_head_begin(&w, &head);
    if (any_error(p)) {
        mr_ps_put_numbers(&w, 1, &p->codes);
        mr_ps_put_numbers(&w, 2, &p->epochs);
        mr_ps_put_numbers(&w, 3, &p->versions);
        mr_pb_opt_bytes(&w, 4, mr_sv_of(mr_status_message(first_error(p))));
    }
    mr_status *st = mr_ps_head_end_alone(&w, &head, &body);
    push_end(p, st, &body);
}

/* One part has its result. May end the call and free it, with the part. */
void mr_ps_push_answered(mr_ps_push_part *part, mr_code code, uint64_t epoch, uint64_t version)
{
    mr_ps_push_call *p = part->of;
    int i = (int)(part - p->parts);
    MR_ASSERT(!part->answered && i >= 0 && i < p->n && p->left > 0);
    part->answered = true;
    p->codes.p[i] = code == MR_OK && part->st ? mr_status_code(part->st) : code;
    p->epochs.p[i] = epoch;
    p->versions.p[i] = version;
    if (--p->left == 0)
        push_reply(p);
}

/* Keeps the call open. The parts share the request's bytes (u->blob), which count as under way
 * until the call is answered. */
static mr_ps_push_call *push_new(mr_ps_server *s, mr_net_call *c, const mr_ps_request *q,
                                 const mr_ps_unpacked *u)
{
    int n = q->ranges.n;
    mr_ps_push_call *p = mr_calloc(1, sizeof *p + (size_t)n * sizeof *p->parts);
    p->call = c;
    p->server = s;
    s->under_way += u->blob ? u->blob->n : 0;
    p->n = n;
    p->left = n + 1; /* do_push holds one more, so that no answer frees the call under it */
    p->blob = mr_ps_blob_ref(u->blob);
    p->next = s->pushes;
    p->link = &s->pushes;
    if (p->next)
        p->next->link = &p->next;
    s->pushes = p;
    for (int i = 0; i < n; i++) {
        p->parts[i].of = p;
        p->parts[i].range = (int)q->ranges.p[i];
        mr_vec_push(&p->codes, 0);
        mr_vec_push(&p->epochs, 0);
        mr_vec_push(&p->versions, 0);
    }
    return p;
}

/* Memory for new rows is reserved before the range sees the push: a push that was refused for lack
 * of memory must not be counted. If the range will refuse the push anyway, nothing is reserved. */
static void offer_part(mr_ps_server *s, const mr_ps_request *q, mr_ps_push_part *part, int i, int64_t now_ns)
{
    MR_ASSERT(s->actions.n == 0 && part->range >= 0 && part->range < s->store.n_ranges);
    mr_psr *r = &s->ranges[part->range].r;
    if (mr_psr_admits(r, q->epochs.p[i]) == MR_OK)
        part->st = mr_ps_store_check(&s->store, part->range, &part->change);
    if (part->st) { /* final: the push is not counted */
        mr_ps_push_answered(part, mr_status_code(part->st), r->view.epoch, 0);
        return;
    }
    mr_psr_push push = {.client = q->client,
                        .ts = q->ts,
                        .prev = q->ts - q->prevs.p[i],
                        .epoch = q->epochs.p[i],
                        .generation = q->generations.p[i],
                        .cookie = (uint64_t)(uintptr_t)part};
    mr_psr_push_part(r, &push, now_ns, &s->actions);
    mr_ps_server_act(s, part->range, NULL);
}

/* On success the call has been taken over: it is answered when all parts are. On error the caller
 * answers it. Nothing is changed before the whole request has been checked. */
static mr_status *do_push(mr_ps_server *s, mr_net_call *c, const mr_ps_request *q, const mr_ps_frame *f)
{
    mr_ps_unpacked u = {0};
    const mr_ps_table_spec *t;
    int n = q->ranges.n;
    if (n == 0 || q->prevs.n != n || q->generations.n != n || q->client == 0)
        return mr_invalid("Invalid push: it has no ranges or no client id, or its lists differ in length");
    for (int i = 0; i < n; i++)
        if (q->prevs.p[i] == 0 || q->prevs.p[i] > q->ts)
            return mr_invalid("Push %llu names an invalid predecessor: %llu before it", (unsigned long long)q->ts,
                              (unsigned long long)q->prevs.p[i]);
    MR_TRY(mr_ps_server_know_table(s, q->table));
    t = s->store.tables.p[q->table];
    size_t width = mr_ps_change_width(t, q->kind);
    size_t room = mr_ps_server_room(s);
    /* A quick check before unpacking, which is limited by `room` too. */
    if (c->body.n > room)
        return mr_error(MR_UNAVAILABLE, "No memory for a push of %zu bytes at present", c->body.n);
    mr_status *st = width ? mr_ps_request_unpack(q, f, t, s->store.n_ranges, width, room, s->keys, &u) : NULL;
    if (st) {
        mr_ps_unpacked_deinit(&u);
        return st;
    }
    int64_t now = mr_now_ns();
    mr_ps_push_call *p = push_new(s, c, q, &u);
    for (int i = 0; i < n; i++) {
        mr_ps_push_part *part = &p->parts[i];
        part->change = (mr_ps_change){
            .kind = q->kind, .table = q->table, .what = q->what, .other = q->other, .alpha = q->alpha};
        if (width) {
            part->change.keys = u.parts.p[i];
            part->change.floats = u.floats + u.at.p[i] * width;
        }
        offer_part(s, q, part, i, now);
    }
    mr_ps_unpacked_deinit(&u);
    if (--p->left == 0)
        push_reply(p);
    return NULL;
}

/* ---- calls ---- */

/* Push and Reduce. A push that succeeded answers by itself, later. */
static void do_request(mr_ps_server *s, mr_net_call *c, const char *method)
{
    mr_ps_frame f = {0};
    mr_ps_request q = {0};
    mr_bytes body = {0};
    bool taken = false;
    mr_status *st = mr_ps_frame_open(&c->body, &f);
    if (!st)
        st = mr_ps_request_get(f.head, s->store.n_ranges, &q);
    if (!st && strcmp(method, "Push") == 0)
        taken = !(st = do_push(s, c, &q, &f));
    else if (!st)
        st = mr_ps_server_reduce(s, &q, &body);
    mr_ps_request_deinit(&q);
    mr_ps_frame_deinit(&f);
    if (!taken)
        mr_ps_reply(c, st, &body);
}

/* A call, now on the server's thread. A server that has not joined, or is closing, answers
 * UNAVAILABLE, which makes clients try again. */
static void on_call(void *owner, mr_ps_note *n)
{
    mr_ps_server *s = owner;
    mr_net_call *c = ((mr_ps_call_note *)n)->call;
    const char *method = c->method + sizeof MR_PS_SERVICE - 1;
    mr_free(n);
    if (!s->ranges || s->closing)
        mr_ps_reply(c,
                    mr_error(MR_UNAVAILABLE, s->closing ? "The parameter server was stopped"
                                                        : "The parameter server has not joined its manager yet"),
                    NULL);
    else if (strcmp(method, "Push") == 0 || strcmp(method, "Reduce") == 0)
        do_request(s, c, method);
    else if (strcmp(method, "Pull") == 0)
        mr_ps_server_pull(s, c);
    else if (strcmp(method, "Chain") == 0)
        mr_ps_server_chain(s, c);
    else if (strcmp(method, "Copy") == 0)
        mr_ps_server_copy(s, c);
    else
        mr_ps_reply(c, mr_error(MR_UNIMPLEMENTED, "Unknown method %s", c->method), NULL);
}

/* The listener's handler, on a thread of the transport: it only passes the call on. */
void mr_ps_server_handle(void *server, mr_net_call *c)
{
    mr_ps_server *s = server;
    if (strncmp(c->method, MR_PS_SERVICE, sizeof MR_PS_SERVICE - 1) != 0)
        mr_ps_reply(c, mr_error(MR_UNIMPLEMENTED, "Unknown method %s", c->method), NULL);
    else
        mr_ps_calls_take(&s->inbox, c, on_call);
}
