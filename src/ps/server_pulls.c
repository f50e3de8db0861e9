/* ps/server_pulls.c -- answers pulls (values) and reductions (sums).
 *
 * An answer has a code for each part, and the values of the parts that are served, one after the
 * other.
 *
 * Answers that are not sent yet count against the server's memory budget, beside tables and pushes
 * under way. A pull that finds no room waits in line. Later pulls wait behind it, so that a large
 * one gets its turn. When no other answer is being sent, the first in line is served however full
 * the server is; otherwise a full server could not be read. So a server exceeds its budget by at
 * most one answer. A pull that is larger than the whole budget is an error.
 *
 * `line_end` points at the link where the next pull goes; it is valid only while `line` is not
 * NULL. */
#include "ps/server_internal.h"

#include "base/clock.h"

#define MAX_ANSWER ((size_t)1 << 30)
#define LINE_NS INT64_C(1000000000) /* longest wait in line; after it the client gets UNAVAILABLE and tries again */

enum { MAX_LINE = 1024 };

/* UNAVAILABLE if the table may exist already: the client may have heard of it before this server. */
mr_status *mr_ps_server_know_table(const mr_ps_server *s, int table)
{
    if (table < 0 || table >= MR_PS_MAX_TABLES)
        return mr_invalid("There is no table %d", table);
    return table < s->store.tables.n ? NULL
                                     : mr_error(MR_UNAVAILABLE, "Table %d is not known here yet", table);
}

typedef struct answer { /* to a pull or a sum */
    mr_ps_numbers codes, epochs;
    bool bad; /* some part was not served */
    mr_ps_blob *blob;
    size_t n_rows, n_bytes;
} answer;

static void answer_deinit(answer *a)
{
    mr_vec_deinit(&a->codes);
    mr_vec_deinit(&a->epochs);
    mr_ps_blob_unref(a->blob);
}

/* Which parts this server serves at present, and in which epoch it is. */
static void judge_parts(const mr_ps_server *s, const mr_ps_request *q, answer *a)
{
    for (int i = 0; i < q->ranges.n; i++) {
        const mr_psr *r = &s->ranges[q->ranges.p[i]].r;
        mr_code code = mr_psr_admits(r, q->epochs.p[i]);
        mr_vec_push(&a->codes, code);
        mr_vec_push(&a->epochs, r->view.epoch);
        a->bad |= code != MR_OK;
    }
}

/* Copies the rows of the served parts into one blob, which counts against the budget until it is
 * sent. */
static mr_status *read_parts(const mr_ps_server *s, const mr_ps_request *q, const mr_ps_unpacked *u,
                             size_t width, size_t bytes, answer *a)
{
    a->blob = mr_ps_blob_new_counted(bytes, s->answers);
    if (!a->blob)
        return mr_error(MR_RESOURCE_EXHAUSTED, "No memory for %zu rows of %zu floats", u->n_rows, width);
    for (int i = 0; i < q->ranges.n; i++) {
        int range = (int)q->ranges.p[i];
        if (a->codes.p[i] != MR_OK)
            continue;
        MR_TRY(mr_ps_keys_in_range(&s->store, q->table, range, u->parts.p[i]));
        mr_ps_store_read(&s->store, q->table, range, u->parts.p[i], q->whole,
                         (float *)a->blob->data + a->n_rows * width);
        a->n_rows += u->parts.p[i].n;
        MR_ASSERT(a->n_rows <= u->n_rows);
    }
    a->n_bytes = a->n_rows * width * sizeof(float);
    return NULL;
}

/* Packs the values as the client asked: 16-bit floats, Snappy, rows of zeros left out. The packed
 * bytes count against the budget; the blob is freed with the answer. */
static mr_status *pack_values(const mr_ps_server *s, const mr_ps_request *q, size_t width, answer *a,
                              mr_bytes *raw)
{
    mr_str packed = {0};
    mr_ps_codec codec = {.form = (mr_ps_form)(q->answer_form ? q->answer_form - 1 : 0),
                         .snappy = q->snappy,
                         .seed = (uint64_t)mr_now_ns()};
    uint8_t *present = mr_try_alloc(a->n_rows + 1);
    if (!present)
        return mr_error(MR_RESOURCE_EXHAUSTED, "No memory to pack %zu rows", a->n_rows);
    mr_ps_values_nonzero((const float *)a->blob->data, a->n_rows, (int)width, present);
    mr_status *st =
        mr_ps_values_pack(&codec, (const float *)a->blob->data, present, a->n_rows, (int)width, &packed);
    mr_free(present);
    if (st) {
        mr_str_deinit(&packed);
        return st;
    }
    a->n_bytes = packed.n;
    mr_ps_bytes_add_str(raw, &packed, s->answers);
    return NULL;
}

/* Writes the body. width 0: the values are sums, which are never packed. */
static mr_status *answer_put(const mr_ps_server *s, const mr_ps_request *q, size_t width, answer *a, mr_bytes *body)
{
    mr_pb_writer w;
    mr_str head = {0};
    mr_bytes raw = {0};
    bool packed = width > 0 && (q->answer_form || q->snappy);
    if (packed)
        MR_TRY(pack_values(s, q, width, a, &raw));
    else if (a->blob)
        mr_ps_bytes_add(&raw, a->blob, a->blob->data, a->n_bytes);
    mr_ps_head_begin(&w, &head);
    if (a->bad) {
        mr_ps_put_numbers(&w, 1, &a->codes);
        mr_ps_put_numbers(&w, 2, &a->epochs);
    }
    mr_pb_opt_varint(&w, 5, packed);
    mr_pb_opt_varint(&w, 6, a->n_bytes);
    return mr_ps_head_end(&w, &head, &raw, body);
}

/* ---- memory for answers ---- */

/* Bytes left of the budget. Answers are counted atomically, because the transport frees them. */
size_t mr_ps_server_room(const mr_ps_server *s)
{
    size_t taken = s->store.used + s->under_way + atomic_load(&s->answers->bytes);
    return s->memory ? s->memory - MR_MIN(s->memory, taken) : SIZE_MAX;
}

/* Whether an answer may be made now: it fits, or no other answer is being sent. */
static bool may_answer(const mr_ps_server *s, size_t bytes)
{
    return bytes <= mr_ps_server_room(s) || atomic_load(&s->answers->bytes) == 0;
}

/* Refuses answers that no amount of waiting could serve; else *bytes is the answer's size. */
static mr_status *check_answer(const mr_ps_server *s, size_t n_rows, size_t width, size_t *bytes)
{
    if (!mr_size_mul(n_rows, width * sizeof(float), bytes) || *bytes > MAX_ANSWER)
        return mr_error(MR_RESOURCE_EXHAUSTED, "%zu rows of %zu floats are too many for one answer", n_rows, width);
    if (s->memory && *bytes > s->memory)
        return mr_error(MR_RESOURCE_EXHAUSTED,
                        "A pull of %zu bytes exceeds this server's whole memory budget of %zu bytes", *bytes,
                        s->memory);
    return NULL;
}

/* Either answers the pull (*later is 0) or reports how many bytes it would need (*later), and then
 * has changed nothing. first: no other pull is waiting before it. */
static mr_status *do_pull(mr_ps_server *s, const mr_ps_request *q, const mr_ps_frame *f, bool first, size_t *later,
                          mr_bytes *body)
{
    answer a = {0};
    mr_ps_unpacked u = {0};
    mr_status *st = NULL;
    size_t bytes = 0;
    MR_GO(mr_ps_server_know_table(s, q->table));
    const mr_ps_table_spec *t = s->store.tables.p[q->table];
    size_t width = q->whole ? mr_ps_table_row_floats(t) : (size_t)t->o.width;
    MR_GO(mr_ps_request_unpack(q, f, t, s->store.n_ranges, 0, SIZE_MAX, s->keys, &u));
    MR_GO(check_answer(s, u.n_rows, width, &bytes));
    if (bytes > 0 && (!first || !may_answer(s, bytes))) {
        *later = bytes;
        goto out;
    }
    judge_parts(s, q, &a);
    MR_GO(read_parts(s, q, &u, width, bytes, &a));
    MR_GO(answer_put(s, q, width, &a, body));
out:
    mr_ps_unpacked_deinit(&u);
    answer_deinit(&a);
    return st;
}

/* Parses the call and does do_pull; repeated for a pull that waited in line. The call stays the
 * caller's. */
static mr_status *answer_pull(mr_ps_server *s, const mr_net_call *c, bool first, size_t *later, mr_bytes *body)
{
    mr_ps_frame f = {0};
    mr_ps_request q = {0};
    *later = 0;
    mr_status *st = mr_ps_frame_open(&c->body, &f);
    if (!st)
        st = mr_ps_request_get(f.head, s->store.n_ranges, &q);
    if (!st)
        st = do_pull(s, &q, &f, first, later, body);
    mr_ps_request_deinit(&q);
    mr_ps_frame_deinit(&f);
    return st;
}

/* ---- the line of waiting pulls ---- */

/* Removes a pull from any place in the line; it still has to be answered. */
static void leave_line(mr_ps_server *s, mr_ps_waiting_pull *w)
{
    mr_ps_waiting_pull **at = &s->line;
    MR_ASSERT(s->line && s->n_line > 0);
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    if (s->line_end == &w->next)
        s->line_end = at;
    s->n_line--;
    MR_ASSERT(s->under_way >= w->body);
    s->under_way -= w->body;
    MR_ASSERT(s->n_line >= 0 && (s->n_line == 0) == !s->line);
}

/* The client cancelled the call, or its connection broke. */
static void on_gone(void *owner, mr_ps_held *h)
{
    leave_line(owner, (mr_ps_waiting_pull *)h);
    mr_ps_held_reply(h, mr_error(MR_CANCELLED, "The call was cancelled"), NULL);
}

/* Puts the call at the end of the line. Its request stays in memory meanwhile and counts as under
 * way. */
static void enter_line(mr_ps_server *s, mr_net_call *c, size_t bytes)
{
    mr_ps_waiting_pull *w = mr_new(mr_ps_waiting_pull);
    *w = (mr_ps_waiting_pull){.bytes = bytes, .body = c->body.n, .until_ns = mr_now_ns() + LINE_NS};
    if (c->deadline_ns)
        w->until_ns = MR_MIN(w->until_ns, c->deadline_ns);
    if (!s->line)
        s->line_end = &s->line;
    *s->line_end = w;
    s->line_end = &w->next;
    s->n_line++;
    s->under_way += w->body;
    mr_ps_hold(&w->held, &s->inbox, c, on_gone);
}

static mr_status *no_room(size_t bytes)
{
    return mr_error(MR_UNAVAILABLE, "No memory for a pull of %zu bytes at present", bytes);
}

/* A pull waits behind those in line, even if there is room for it. A full line is answered UNAVAILABLE at once. */
void mr_ps_server_pull(mr_ps_server *s, mr_net_call *c)
{
    size_t later;
    mr_bytes body = {0};
    mr_status *st = answer_pull(s, c, !s->line, &later, &body);
    if (later && s->n_line < MAX_LINE && c->body.n <= mr_ps_server_room(s)) {
        enter_line(s, c, later);
        return;
    }
    mr_ps_reply(c, later ? no_room(later) : st, &body);
}

/* Serves from the front until the first pull still has no room. One whose time is over is answered
 * UNAVAILABLE. */
void mr_ps_server_serve_line(mr_ps_server *s, int64_t now_ns)
{
    while (s->line && (now_ns >= s->line->until_ns || may_answer(s, s->line->bytes))) {
        mr_ps_waiting_pull *w = s->line;
        mr_bytes body = {0};
        size_t later = w->bytes;
        mr_status *st = may_answer(s, w->bytes) ? answer_pull(s, w->held.call, true, &later, &body) : NULL;
        leave_line(s, w);
        mr_ps_held_reply(&w->held, later ? no_room(later) : st, &body);
    }
}

/* UNAVAILABLE makes clients repeat their pulls. */
void mr_ps_server_end_line(mr_ps_server *s)
{
    while (s->line) {
        mr_ps_waiting_pull *w = s->line;
        leave_line(s, w);
        mr_ps_held_reply(&w->held, mr_error(MR_UNAVAILABLE, "The parameter server was stopped"), NULL);
    }
}

/* ---- sums ---- */

/* One double for each part, 0 for parts that are not served; the client adds them up. */
mr_status *mr_ps_server_reduce(mr_ps_server *s, const mr_ps_request *q, mr_bytes *body)
{
    answer a = {0};
    mr_status *st = NULL;
    MR_GO(mr_ps_server_know_table(s, q->table));
    judge_parts(s, q, &a);
    a.n_bytes = (size_t)q->ranges.n * sizeof(double);
    a.blob = mr_ps_blob_new(a.n_bytes);
    if (!a.blob)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "No memory for %d sums", q->ranges.n));
    memset(a.blob->data, 0, a.n_bytes);
    for (int i = 0; i < q->ranges.n; i++)
        if (a.codes.p[i] == MR_OK)
            MR_GO(mr_ps_store_reduce(&s->store, (int)q->ranges.p[i], q->what, q->table, q->other,
                                     (double *)a.blob->data + i));
    MR_GO(answer_put(s, q, 0, &a, body));
out:
    answer_deinit(&a);
    return st;
}
