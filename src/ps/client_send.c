/* ps/client_send.c -- sends what was decided, and handles the answers; on the client's thread.
 *
 * Parts of one task that go to one server travel in one message, a group. Keys and floats that go
 * unchanged are pieces of the task's own memory; small pieces are copied together, and packed ones
 * (16 bits, Snappy, rows left out) are made for the message. A key list that the server has seen
 * goes as its hash; if the server has forgotten it, the message is made again with the list.
 *
 * A group holds a reference to its task, because an answer may come after the task has ended. All
 * parts of a group have the same task, server and timestamp, and their ranges rise.
 *
 * How the bytes of a group travel:
 *
 *     keys      nothing for a range of keys; raw; packed with `compress`; a hash with `cache_keys`
 *     values    raw; packed if `half` or `compress` is set for a push, or if a filter left rows out */
#include "ps/client_internal.h"

#include "base/clock.h"

#define MS INT64_C(1000000)
#define ANSWER_NS (20000 * MS)
#define MAX_BYTES ((size_t)64 << 20) /* of one message, unless a single part has more */

enum { MAX_PARTS = 400, SMALL_PIECE = 4096, MAX_FAILED = 4096 };

typedef struct group { /* a message: parts of one task for one server */
    mr_ps_ask ask;     /* first */
    mr_ps_client_task *task;
    bool empty;  /* a push that was given up: only its number is sent */
    bool hashed; /* its keys went as a hash */
    bool whole;  /* its keys must not go as a hash: the server did not know it */
    uint64_t hash;
    size_t bytes;
    MR_VEC(mr_psc_action) parts;
} group;

/* ---- rows of a group ---- */

/* The first row of part i, counted in the task. */
static size_t part_at(const group *g, int i) { return g->task->at.p[g->parts.p[i].piece]; }

static size_t part_rows(const group *g, int i)
{
    int piece = g->parts.p[i].piece;
    MR_ASSERT(piece >= 0 && piece < g->task->pieces.n);
    return g->task->at.p[piece + 1] - g->task->at.p[piece];
}

static size_t group_rows(const group *g)
{
    size_t n = 0;
    for (int i = 0; i < g->parts.n; i++)
        n += part_rows(g, i);
    return n;
}

/* Adds the rows of all parts to a message: as pieces of the task's memory, or copied together if
 * they are small. Parts that are neighbours in memory become one piece. base: address of row 0. */
static mr_status *add_rows(const group *g, const char *base, size_t row_bytes, mr_bytes *raw)
{
    size_t n = group_rows(g), at = 0;
    if (n * row_bytes >= (size_t)SMALL_PIECE * (size_t)g->parts.n) {
        for (int i = 0; i < g->parts.n;) {
            size_t from = part_at(g, i), end = from;
            for (; i < g->parts.n && part_at(g, i) == end; i++)
                end += part_rows(g, i);
            mr_ps_bytes_add(raw, g->task->blob, base + from * row_bytes, (end - from) * row_bytes);
        }
        return NULL;
    }
    mr_ps_blob *b = mr_ps_blob_new(n * row_bytes);
    if (!b)
        return mr_error(MR_RESOURCE_EXHAUSTED, "No memory for a message of %zu rows", n);
    for (int i = 0; i < g->parts.n; i++) {
        memcpy(b->data + at, base + part_at(g, i) * row_bytes, part_rows(g, i) * row_bytes);
        at += part_rows(g, i) * row_bytes;
    }
    mr_ps_bytes_add(raw, b, b->data, at);
    mr_ps_blob_unref(b);
    return NULL;
}

/* The rows of all parts in one block: *out points into the task if they are contiguous there, else
 * to *made, a copy that the caller frees. */
static mr_status *gather_rows(const group *g, const void *base, size_t row_bytes, const void **out,
                              void **made)
{
    size_t n = group_rows(g), at = 0;
    *made = NULL;
    bool one = true;
    for (int i = 1; i < g->parts.n; i++)
        one &= part_at(g, i) == part_at(g, i - 1) + part_rows(g, i - 1);
    *out = (const char *)base + part_at(g, 0) * row_bytes;
    if (one)
        return NULL;
    *made = mr_try_alloc(n * row_bytes);
    if (!*made)
        return mr_error(MR_RESOURCE_EXHAUSTED, "No memory for a message of %zu rows", n);
    for (int i = 0; i < g->parts.n; i++) {
        memcpy((char *)*made + at, (const char *)base + part_at(g, i) * row_bytes,
               part_rows(g, i) * row_bytes);
        at += part_rows(g, i) * row_bytes;
    }
    *out = *made;
    return NULL;
}

/* ---- keys ---- */

/* Differences between keys, as varints (keys.c). */
static mr_status *put_packed_keys(mr_ps_request *q, const uint64_t *keys, size_t n, mr_bytes *raw)
{
    mr_str packed = {0};
    mr_status *st = mr_ps_keys_pack(keys, n, &packed);
    if (st) {
        mr_str_deinit(&packed);
        return st;
    }
    q->key_form = MR_PS_KEYS_PACKED;
    q->key_bytes = packed.n;
    mr_bytes_add_str(raw, &packed);
    return NULL;
}

/* Chooses how the keys go: raw, packed, or as a hash that the server knows. ps->keys is used only
 * by this thread. */
static mr_status *put_keys(mr_ps *ps, group *g, mr_ps_request *q, mr_bytes *raw)
{
    const uint64_t *list = g->task->change.keys.list;
    const void *keys;
    void *made = NULL;
    size_t n = group_rows(g);
    mr_status *st = NULL;
    if (!ps->o.cache_keys && !ps->o.compress) {
        q->key_bytes = n * sizeof(uint64_t);
        return add_rows(g, (const char *)list, sizeof(uint64_t), raw);
    }
    MR_GO(gather_rows(g, list, sizeof(uint64_t), &keys, &made));
    /* A list that the server may not know yet goes in full, and the server is asked to remember it. */
    if (ps->o.cache_keys) {
        q->key_hash = g->hash = mr_ps_keys_hash(keys, n);
        g->hashed = !g->whole && mr_ps_key_cache_get(ps->keys, g->ask.to, g->hash, NULL);
        q->remember = !g->hashed;
        mr_lock(&ps->mu);
        ps->stats.key_lists++;
        ps->stats.key_hits += g->hashed;
        mr_unlock(&ps->mu);
    }
    if (g->hashed)
        q->key_form = MR_PS_KEYS_HASH;
    else if (ps->o.compress)
        MR_GO(put_packed_keys(q, keys, n, raw));
    else
        MR_GO((q->key_bytes = n * sizeof(uint64_t), add_rows(g, (const char *)list, sizeof(uint64_t), raw)));
out:
    mr_free(made);
    return st;
}

/* ---- values ---- */

/* Each message has another seed, so that the errors of random rounding are independent. */
static mr_status *put_packed_values(mr_ps *ps, const group *g, mr_ps_request *q, mr_bytes *raw)
{
    const mr_ps_client_task *t = g->task;
    const void *values, *present = NULL;
    void *made = NULL, *made_present = NULL;
    mr_str packed = {0};
    mr_ps_codec codec = {.form = (mr_ps_form)ps->o.half, .snappy = ps->o.compress, .seed = ++ps->seed_sent};
    mr_status *st = NULL;
    MR_GO(gather_rows(g, t->change.floats, t->width * sizeof(float), &values, &made));
    if (t->present)
        MR_GO(gather_rows(g, t->present, 1, &present, &made_present));
    MR_GO(mr_ps_values_pack(&codec, values, present, group_rows(g), (int)t->width, &packed));
    q->packed = true;
    q->value_bytes = packed.n;
    mr_bytes_add_str(raw, &packed);
out:
    mr_str_deinit(&packed);
    mr_free(made);
    mr_free(made_present);
    return st;
}

/* SET carries state, which must not be rounded, so it goes raw. Rows that a filter left out can
 * only be expressed by packing. */
static mr_status *put_values(mr_ps *ps, const group *g, mr_ps_request *q, mr_bytes *raw)
{
    const mr_ps_client_task *t = g->task;
    if (group_rows(g) == 0)
        return NULL;
    if (t->present || ((ps->o.half || ps->o.compress) && t->change.kind == MR_PS_CHANGE_PUSH))
        return put_packed_values(ps, g, q, raw);
    q->value_bytes = group_rows(g) * t->width * sizeof(float);
    return add_rows(g, (const char *)t->change.floats, t->width * sizeof(float), raw);
}

/* ---- messages ---- */

/* One entry per part. Pulls have no predecessors and generations. */
static void put_parts(const group *g, mr_ps_request *q)
{
    bool listed = g->task->change.keys.list && !g->empty;
    for (int i = 0; i < g->parts.n; i++) {
        const mr_psc_action *a = &g->parts.p[i];
        mr_vec_push(&q->ranges, (uint64_t)a->range);
        mr_vec_push(&q->epochs, a->epoch);
        if (!g->task->pull) {
            mr_vec_push(&q->prevs, a->ts - a->prev);
            mr_vec_push(&q->generations, a->generation);
        }
        if (listed)
            mr_vec_push(&q->counts, part_rows(g, i));
    }
}

/* On error raw may hold pieces; the caller frees them. */
static mr_status *fill_request(mr_ps *ps, group *g, mr_ps_request *q, mr_bytes *raw)
{
    MR_ASSERT(g->parts.n > 0 && g->parts.n <= MAX_PARTS);
    const mr_ps_client_task *t = g->task;
    const mr_ps_change *c = &t->change;
    q->client = ps->id;
    q->table = c->table;
    q->kind = g->empty ? MR_PS_CHANGE_NONE : c->kind;
    q->ts = t->pull ? 0 : g->parts.p[0].ts;
    put_parts(g, q);
    if (g->empty)
        return NULL;
    q->what = c->what;
    q->other = c->other;
    q->alpha = c->alpha;
    q->whole = t->whole;
    if (c->kind == MR_PS_CHANGE_ALGEBRA)
        return NULL;
    if (!c->keys.list) {
        q->first = c->keys.first;
        q->n = c->keys.n;
    } else if (group_rows(g) > 0) {
        MR_TRY(put_keys(ps, g, q, raw));
    }
    if (!t->pull)
        return put_values(ps, g, q, raw);
    q->answer_form = ps->o.half && !t->whole ? 1 + ps->o.half : 0;
    q->snappy = ps->o.compress && !t->whole;
    return NULL;
}

static void on_answer(void *owner, mr_ps_ask *ask);

/* A message that cannot be made, for lack of memory, is treated as if the server had answered so. */
static void group_send(mr_ps *ps, group *g)
{
    mr_pb_writer w;
    mr_str head = {0};
    mr_bytes raw = {0}, body = {0};
    mr_ps_request q = {0};
    const char *method = !g->task->pull    ? MR_PS_SERVICE "Push"
                         : g->task->reduce ? MR_PS_SERVICE "Reduce"
                                           : MR_PS_SERVICE "Pull";
    uint64_t to = g->parts.p[0].to;
    g->ask.to = to;
    mr_status *st = fill_request(ps, g, &q, &raw);
    if (!st) {
        mr_ps_head_begin(&w, &head);
        mr_ps_request_put(&w, &q);
        st = mr_ps_head_end(&w, &head, &raw, &body);
    }
    mr_ps_request_deinit(&q);
    mr_bytes_deinit(&raw);
    g->ask.answered = on_answer;
    if (st) {
        g->ask.st = st;
        g->ask.routes = &ps->routes;
        on_answer(ps, &g->ask);
        return;
    }
    mr_ps_ask_start(&ps->routes, &g->ask, to, mr_ps_map_address(&ps->map, to), method, &body,
                    mr_now_ns() + ANSWER_NS);
}

/* ---- answers ---- */

typedef struct said { /* an answer; an empty list means MR_OK or 0 for every part */
    mr_ps_numbers codes, epochs, versions;
    mr_sv why;
    bool packed;
    uint64_t value_bytes;
} said;

/* An answer has one entry per part in each list, or none at all. `why` points into the message. */
static mr_status *read_said(mr_sv head, int n, said *s)
{
    mr_pb_reader r;
    uint32_t field, wire;
    s->why = MR_SV("");
    mr_pb_reader_init(&r, head);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1: mr_ps_get_numbers(&r, n, &s->codes); break;
        case 2: mr_ps_get_numbers(&r, n, &s->epochs); break;
        case 3: mr_ps_get_numbers(&r, n, &s->versions); break;
        case 4: s->why = mr_pb_bytes(&r); break;
        case 5: s->packed = mr_pb_bool(&r); break;
        case 6: s->value_bytes = mr_pb_varint(&r); break;
        default: mr_pb_skip(&r);
        }
    MR_TRY(mr_pb_reader_status(&r, "an answer of a parameter server"));
    bool right = (!s->codes.n || s->codes.n == n) && (!s->epochs.n || s->epochs.n == n) &&
                 (!s->versions.n || s->versions.n == n);
    return right ? NULL
                 : mr_invalid("An answer of a parameter server has %d codes, %d epochs and %d versions for %d parts",
                              s->codes.n, s->epochs.n, s->versions.n, n);
}

/* The result of part i. A server may send any number, so unknown codes become UNKNOWN. */
static mr_code code_of(const said *s, int i)
{
    uint64_t c = s->codes.n ? s->codes.p[i] : MR_OK;
    return c <= MR_UNAUTHENTICATED ? (mr_code)c : MR_UNKNOWN;
}

/* Copies the values of the served parts to where the caller wants them (task->out). */
static mr_status *take_values(const group *g, const mr_ps_frame *f, const said *s)
{
    const mr_ps_client_task *t = g->task;
    size_t rows = 0, row_bytes = t->width * sizeof(float), at = 0;
    float *unpacked = NULL;
    mr_status *st = NULL;
    mr_ps_blob *b = NULL;
    /* Parts that were not served have no values in the answer. */
    for (int i = 0; i < g->parts.n; i++)
        rows += code_of(s, i) == MR_OK ? part_rows(g, i) : 0;
    if (s->packed) {
        MR_GO(mr_ps_frame_take(f, 0, (size_t)s->value_bytes, &b));
        unpacked = mr_try_alloc(rows * row_bytes);
        if (!unpacked)
            MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "No memory for %zu rows", rows));
        MR_GO(mr_ps_values_unpack((mr_sv){b->data, b->n}, rows, (int)t->width, unpacked));
    } else if (s->value_bytes != rows * row_bytes || s->value_bytes > f->raw_n) {
        MR_GO(mr_invalid("A parameter server sent %llu bytes of values for %zu rows of %zu bytes",
                         (unsigned long long)s->value_bytes, rows, row_bytes));
    }
    for (int i = 0; i < g->parts.n; i++) {
        size_t n = part_rows(g, i) * row_bytes;
        char *to = (char *)t->out + part_at(g, i) * row_bytes;
        if (code_of(s, i) != MR_OK || n == 0)
            continue;
        if (unpacked)
            memcpy(to, (char *)unpacked + at, n);
        else
            MR_GO(mr_ps_frame_read(f, at, n, to));
        at += n;
    }
out:
    mr_free(unpacked);
    mr_ps_blob_unref(b);
    return st;
}

/* One double per part, whether it was served or not. */
static mr_status *take_sums(const group *g, const mr_ps_frame *f, const said *s)
{
    for (int i = 0; i < g->parts.n; i++)
        if (code_of(s, i) == MR_OK)
            MR_TRY(mr_ps_frame_read(f, (size_t)i * sizeof(double), sizeof(double),
                                    &g->task->sums[g->parts.p[i].piece]));
    return NULL;
}

/* Codes after which the same request may succeed. */
static bool is_passing(mr_code c)
{
    return c == MR_UNAVAILABLE || c == MR_CANCELLED || c == MR_DEADLINE_EXCEEDED;
}

/* Passes the result of each part to dist/ps_client.h, which decides whether to try again. st: the
 * result of all parts. Gives up the group's reference to the task. */
static void tell_parts(mr_ps *ps, group *g, const mr_status *st, const said *s)
{
    int64_t now = mr_now_ns();
    mr_code all = mr_status_code(st);
    if (is_passing(all))
        all = MR_UNAVAILABLE;
    mr_lock(&ps->mu);
    if (!g->task->why && st && all != MR_UNAVAILABLE)
        g->task->why = mr_status_copy(st);
    if (!g->task->why && !st && s->why.n)
        g->task->why = mr_error(MR_UNKNOWN, "%.*s", MR_SV_ARG(s->why));
    for (int i = 0; i < g->parts.n; i++) {
        const mr_psc_action *a = &g->parts.p[i];
        mr_psc_answer(ps->psc, g->ask.to, a->task, a->piece, a->try, st ? all : code_of(s, i),
                      !st && s->epochs.n ? s->epochs.p[i] : 0, !st && s->versions.n ? s->versions.p[i] : 0,
                      now, &ps->actions);
    }
    mr_ps_task_unref_locked(ps, g->task);
    mr_unlock(&ps->mu);
}

static void group_free(group *g)
{
    mr_ps_ask_deinit(&g->ask);
    mr_vec_deinit(&g->parts);
    mr_free(g);
}

/* The server has forgotten a key list: the same group is sent with the list. true: it is under way. */
static bool send_again(mr_ps *ps, group *g)
{
    if (mr_status_code(g->ask.st) != MR_NOT_FOUND || !g->hashed || ps->closing)
        return false;
    mr_ps_key_cache_drop(ps->keys, g->ask.to, g->hash);
    mr_ps_ask_deinit(&g->ask);
    g->ask = (mr_ps_ask){0};
    g->hashed = false;
    g->whole = true;
    group_send(ps, g);
    return true;
}

/* The end of a group. The values of a task that has ended are dropped, because its caller may have
 * freed the memory. */
static void on_answer(void *owner, mr_ps_ask *ask)
{
    mr_ps *ps = owner;
    group *g = (group *)ask;
    mr_ps_frame f = {0};
    said s = {.why = MR_SV("")};
    if (send_again(ps, g))
        return;
    mr_status *st = ask->st ? mr_status_copy(ask->st) : mr_ps_frame_open(&ask->reply, &f);
    if (!st)
        st = read_said(f.head, g->parts.n, &s);
    if (!st && g->task->pull && !g->task->ended)
        st = g->task->reduce ? take_sums(g, &f, &s) : take_values(g, &f, &s);
    if (!st && g->hash && !g->hashed)
        mr_ps_key_cache_put(ps->keys, ask->to, g->hash, NULL);
    tell_parts(ps, g, st, &s);
    mr_status_free(st);
    mr_ps_frame_deinit(&f);
    mr_vec_deinit(&s.codes);
    mr_vec_deinit(&s.epochs);
    mr_vec_deinit(&s.versions);
    group_free(g);
}

/* ---- carrying out actions ---- */

typedef MR_VEC(group *) groups;
typedef MR_VEC(mr_ps_client_task *) ended_tasks;

static void add_part_locked(mr_ps *ps, groups *gs, const mr_psc_action *a) MR_REQUIRES(ps->mu);
/* Adds a part to the group of its task and server, or begins a new one. Parts of a task for a
 * server come close together, so only the newest groups are searched. A task that has ended (its
 * push was given up) is represented by an empty one that has only a number. */
static void add_part_locked(mr_ps *ps, groups *gs, const mr_psc_action *a)
{
    mr_ps_client_task *t = mr_imap_get(&ps->tasks, (uint64_t)a->task);
    group *g = NULL;
    size_t bytes = t && !a->empty ? t->pieces.p[a->piece].bytes : 0;
    for (int i = gs->n - 1; i >= 0 && i >= gs->n - 16; i--) {
        group *x = gs->p[i];
        if (x->parts.p[0].task == a->task && x->parts.p[0].to == a->to && x->empty == a->empty) {
            bool fits = x->parts.n < MAX_PARTS && x->bytes + bytes <= MAX_BYTES &&
                        mr_vec_last(&x->parts).range < a->range && x->parts.p[0].ts == a->ts;
            g = fits ? x : NULL;
            break;
        }
    }
    if (!g) {
        g = mr_new(group);
        if (!t) {
            MR_ASSERT(a->empty);
            t = mr_new(mr_ps_client_task);
            t->number = a->task;
            t->ended = true;
        }
        t->refs++;
        g->task = t;
        g->empty = a->empty;
        mr_vec_push(gs, g);
    }
    g->bytes += bytes;
    mr_vec_push(&g->parts, *a);
}

/* The error that the caller of a failed task gets: the message of a server if there is one, else what
 * happened and where. The caller owns it. */
static mr_status *end_status(mr_ps *ps, const mr_ps_client_task *t, const mr_psc_action *a)
{
    const mr_ps_table_spec *spec =
        t->change.table < ps->tables.tables.n ? ps->tables.tables.p[t->change.table] : NULL;
    const char *table = spec ? spec->name : "?", *what = t->pull ? "pull from" : "push to";
    if (a->code == MR_OK)
        return NULL;
    if (t->why)
        return mr_error(a->code, "%s table '%s': %s", what, table, mr_status_message(t->why));
    const mr_ps_range *s = a->range >= 0 ? mr_psc_range(ps->psc, a->range) : NULL;
    const char *at = s && mr_ps_range_head(s) ? mr_ps_map_address(&ps->map, mr_ps_range_head(s)) : NULL;
    const char *why = a->code == MR_DEADLINE_EXCEEDED ? "not answered in time"
                      : a->code == MR_DATA_LOSS       ? "all copies were lost"
                                                      : "failed";
    return mr_error(a->code, "%s table '%s': %s (range %d at %s)", what, table, why, a->range,
                    at ? at : "no server");
}

/* Keeps the error for mr_ps_end. If no caller asks, the oldest errors are dropped. */
static void remember_failed_locked(mr_ps *ps, int64_t number, const mr_status *st) MR_REQUIRES(ps->mu);
static void remember_failed_locked(mr_ps *ps, int64_t number, const mr_status *st)
{
    if (ps->failed.n >= MAX_FAILED) {
        mr_status_free(ps->failed.p[0].st);
        memmove(ps->failed.p, ps->failed.p + 1, (size_t)--ps->failed.n * sizeof *ps->failed.p);
    }
    mr_vec_push(&ps->failed, (mr_ps_failed){number, mr_status_copy(st)});
}

static void end_task_locked(mr_ps *ps, const mr_psc_action *a, ended_tasks *out) MR_REQUIRES(ps->mu);
/* Sets the result of a task, once. The task stays in ps->tasks until its callback has run (tell_ended). */
static void end_task_locked(mr_ps *ps, const mr_psc_action *a, ended_tasks *out)
{
    mr_ps_client_task *t = mr_imap_get(&ps->tasks, (uint64_t)a->task);
    if (!t || t->ended)
        return;
    mr_status *st = end_status(ps, t, a);
    mr_status_free(t->why);
    t->why = st;
    t->ended = true;
    if (!st && !t->reduce)
        *(t->pull ? &ps->stats.pulls : &ps->stats.pushes) += 1;
    if (st)
        remember_failed_locked(ps, t->number, st);
    mr_vec_push(out, t);
}

/* Callbacks run without the lock. Only after that the task is removed, so a caller that waits for
 * it continues after its callback. */
static void tell_ended(mr_ps *ps, ended_tasks *e)
{
    for (int i = 0; i < e->n; i++)
        if (e->p[i]->done)
            e->p[i]->done(e->p[i]->arg, e->p[i]->number, e->p[i]->why);
    mr_lock(&ps->mu);
    for (int i = 0; i < e->n; i++) {
        MR_ASSERT(e->p[i]->ended && mr_imap_get(&ps->tasks, (uint64_t)e->p[i]->number) == e->p[i]);
        mr_imap_remove(&ps->tasks, (uint64_t)e->p[i]->number);
        mr_ps_task_unref_locked(ps, e->p[i]);
    }
    mr_cond_broadcast(&ps->changed);
    mr_unlock(&ps->mu);
    mr_vec_deinit(e);
}

/* Groups are built under the lock and sent without it, because sending may take long and its errors
 * come back through on_answer, which takes the lock. */
void mr_ps_send_all(mr_ps *ps)
{
    groups gs = {0};
    ended_tasks ended = {0};
    mr_lock(&ps->mu);
    for (int i = 0; i < ps->actions.n; i++) {
        mr_psc_action a = ps->actions.p[i];
        if (a.what == MR_PSC_PUSH || a.what == MR_PSC_PULL)
            add_part_locked(ps, &gs, &a);
        else if (a.what == MR_PSC_DONE)
            end_task_locked(ps, &a, &ended);
    }
    ps->actions.n = 0;
    mr_unlock(&ps->mu);
    for (int i = 0; i < gs.n; i++)
        group_send(ps, gs.p[i]);
    mr_vec_deinit(&gs);
    if (ended.n > 0)
        tell_ended(ps, &ended);
}
