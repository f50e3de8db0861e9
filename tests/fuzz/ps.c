/* tests/fuzz/ps.c -- mutated messages to a manager and servers of parameters, and back from them.
 *
 * A run is the life of a small group in this process: a manager, two servers that hold copies of each other's ranges,
 * and a worker. First all of them behave well, to record messages of every method; then mutants of these are sent to
 * the manager and the servers, as if by strangers, while the worker continues and some messages between them are
 * changed in transit. A mutant may cause harm that a member of the cluster could cause (a server that says it leaves
 * has left); but no process may crash, read invalid memory or allocate without bounds, every call must end, and so must
 * every process. */
#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "ops/table.h"
#include "ps/client_internal.h"
#include "ps/manager.h"
#include "ps/server.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/fuzz.h"
#include "wire/pb.h"

enum { MESSAGES_A_RUN = 1000, MESSAGES = 1000000, HEARD_EACH = 24, RANGES = 6, KEYS = 64 };
enum { MIN_PARSED = 30, MIN_ACCEPTED = 10 }; /* percent */
#define MS INT64_C(1000000)
#define MANAGER MR_PS_INSIDE "manager"
#define SERVER_A MR_PS_INSIDE "a"
#define SERVER_B MR_PS_INSIDE "b"

static const char *const methods[] = {MR_PS_MANAGER_SERVICE "Join",
                                      MR_PS_MANAGER_SERVICE "Live",
                                      MR_PS_MANAGER_SERVICE "Watch",
                                      MR_PS_MANAGER_SERVICE "Report",
                                      MR_PS_MANAGER_SERVICE "Table",
                                      MR_PS_MANAGER_SERVICE "Leave",
                                      MR_PS_MANAGER_SERVICE "Iterate",
                                      MR_PS_MANAGER_SERVICE "Restore",
                                      MR_PS_MANAGER_SERVICE "Workers",
                                      MR_PS_SERVICE "Push",
                                      MR_PS_SERVICE "Pull",
                                      MR_PS_SERVICE "Reduce",
                                      MR_PS_SERVICE "Chain",
                                      MR_PS_SERVICE "Copy"};
enum { N_METHODS = MR_COUNT(methods), FIRST_OF_SERVERS = 9 };
enum { MUTANTS, PARSED, ACCEPTED, CHANGED, REPLIES, OF_METHOD, N_COUNTS = OF_METHOD + 3 * N_METHODS };

/* ---- recorded messages ---- */

typedef struct heard {
    mr_str bodies[HEARD_EACH];
    int n, next;
} heard;

static struct {
    mr_mutex mu;
    heard heard[N_METHODS];
    fuzz_rng rng; /* of changes on the way */
    int tamper;   /* one in this many messages; 0: none */
    int64_t changed, replies;
    int open; /* injected calls */
    int64_t parsed[N_METHODS], accepted[N_METHODS];
    mr_cond ended;
} spy;

static int method_of(const char *name)
{
    for (int i = 0; i < N_METHODS; i++)
        if (strcmp(methods[i], name) == 0)
            return i;
    return -1;
}

static void flatten(const mr_bytes *b, mr_str *out)
{
    for (int i = 0; i < b->pieces.n; i++)
        mr_str_append(out, b->pieces.p[i].data, b->pieces.p[i].n);
}

static void hear_locked(int method, const mr_bytes *b)
{
    heard *h = &spy.heard[method];
    mr_str *to = &h->bodies[h->next];
    if (b->n > 1 << 16)
        return;
    mr_str_clear(to);
    flatten(b, to);
    h->next = (h->next + 1) % HEARD_EACH;
    h->n = MR_MAX(h->n, h->next);
    if (h->next == 0)
        h->n = HEARD_EACH;
}

/* ---- mutants ---- */

static void change_fields(fuzz_rng *r, mr_sv in, int depth, mr_str *out);

static bool is_message(mr_sv v)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_pb_reader_init(&r, v);
    while (mr_pb_next(&r, &field, &wire))
        mr_pb_skip(&r);
    return v.n > 0 && !r.error;
}

static void put_bytes(fuzz_rng *r, mr_pb_writer *w, uint32_t field, mr_sv v, bool change, int depth)
{
    mr_str s = {0};
    if (change && depth < 4 && is_message(v) && !fuzz_once_in(r, 4)) {
        change_fields(r, v, depth + 1, &s);
    } else {
        mr_str_append(&s, v.p, v.n);
        if (change)
            fuzz_damage(r, &s);
    }
    mr_pb_put_bytes(w, field, mr_str_view(&s));
    mr_str_deinit(&s);
}

static void put_field(fuzz_rng *r, mr_pb_reader *in, mr_pb_writer *w, uint32_t field, uint32_t wire,
                      bool change, int depth)
{
    uint64_t v;
    switch (wire) {
    case MR_WIRE_VARINT:
        v = mr_pb_varint(in);
        mr_pb_put_varint(w, field,
                         !change              ? v
                         : fuzz_once_in(r, 2) ? v + fuzz_below(r, 3) - 1
                                              : (uint64_t)fuzz_odd_int(r));
        break;
    case MR_WIRE_FIXED64:
        v = mr_pb_fixed64(in);
        mr_pb_put_fixed64(w, field, change ? (uint64_t)fuzz_odd_int(r) : v);
        break;
    case MR_WIRE_FIXED32:
        v = mr_pb_fixed32(in);
        mr_pb_put_fixed32(w, field, change ? (uint32_t)fuzz_odd_int(r) : (uint32_t)v);
        break;
    case MR_WIRE_BYTES: put_bytes(r, w, field, mr_pb_bytes(in), change, depth); break;
    default: mr_pb_skip(in);
    }
}

/* The message with one of its fields changed, removed, duplicated or renumbered. */
static void change_fields(fuzz_rng *r, mr_sv in, int depth, mr_str *out)
{
    mr_pb_reader p;
    mr_pb_writer w;
    uint32_t field, wire;
    int n = 0, at;
    mr_pb_reader_init(&p, in);
    for (; mr_pb_next(&p, &field, &wire); n++)
        mr_pb_skip(&p);
    at = (int)fuzz_below(r, (uint64_t)n);
    mr_pb_reader_init(&p, in);
    mr_pb_writer_init(&w, out);
    for (int i = 0; mr_pb_next(&p, &field, &wire); i++) {
        const uint8_t *before = p.at;
        uint64_t how = i == at ? fuzz_below(r, 10) : 9;
        if (how == 0) {
            mr_pb_skip(&p);
            continue;
        }
        put_field(r, &p, &w, how == 1 ? 1 + (uint32_t)fuzz_below(r, 24) : field, wire, i == at && how > 2,
                  depth);
        if (how == 2) { /* the same once more */
            p.at = before;
            p.wire = wire;
            put_field(r, &p, &w, field, wire, true, depth);
        }
    }
}

/* Changes a body: its head by fields, or any bytes. */
static void mutate(fuzz_rng *r, mr_sv in, mr_str *out)
{
    uint32_t n = 0;
    if (in.n >= sizeof n)
        memcpy(&n, in.p, sizeof n);
    if (in.n < sizeof n || n > in.n - sizeof n || fuzz_once_in(r, 6)) {
        mr_str_append(out, in.p, in.n);
        for (uint64_t k = 1 + fuzz_below(r, 3); k > 0; k--)
            fuzz_damage(r, out);
        return;
    }
    mr_str head = {0}, raw = {0};
    mr_str_append(&head, in.p + sizeof n, n);
    for (uint64_t k = fuzz_below(r, 3); k > 0 || (head.n == n && fuzz_once_in(r, 2)); k -= k > 0) {
        mr_str changed = {0};
        change_fields(r, mr_str_view(&head), 0, &changed);
        mr_str_deinit(&head);
        head = changed;
    }
    mr_str_append(&raw, in.p + sizeof n + n, in.n - sizeof n - n);
    if (raw.n && fuzz_once_in(r, 4))
        fuzz_damage(r, &raw);
    n = (uint32_t)head.n;
    mr_str_append(out, &n, sizeof n);
    mr_str_append(out, mr_str_z(&head), head.n);
    mr_str_append(out, mr_str_z(&raw), raw.n);
    mr_str_deinit(&head);
    mr_str_deinit(&raw);
}

/* Replaces the body by one that ends exactly at the end of its allocation. */
static void replace(mr_bytes *b, mr_str *with)
{
    mr_sv exact = fuzz_exact(mr_str_view(with));
    mr_bytes_deinit(b);
    mr_bytes_add(
        b, (mr_piece){.data = exact.p, .n = exact.n, .drop = mr_free, .owner = (void *)(uintptr_t)exact.p});
    mr_str_deinit(with);
}

/* ---- a transport with a man in the middle ---- */

typedef struct spied { /* a forwarded request */
    mr_net_request r;  /* first */
    mr_net_request *outer;
} spied;

static bool tampers_locked(void) { return spy.tamper && fuzz_once_in(&spy.rng, (uint64_t)spy.tamper); }

static void change_locked(mr_bytes *b, int64_t *count)
{
    mr_str flat = {0}, mutant = {0};
    flatten(b, &flat);
    mutate(&spy.rng, mr_str_view(&flat), &mutant);
    replace(b, &mutant);
    mr_str_deinit(&flat);
    ++*count;
}

static void spied_done(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    spied *s = (spied *)r;
    mr_net_request *outer = s->outer;
    mr_lock(&spy.mu);
    outer->impl = NULL;
    if (!st && reply->n && tampers_locked())
        change_locked(reply, &spy.replies);
    mr_unlock(&spy.mu);
    mr_free(s);
    outer->done(outer, st, reply);
}

static void spy_start(mr_net_peer *p, mr_net_request *r)
{
    spied *s = mr_new(spied);
    int method = method_of(r->method);
    s->outer = r;
    s->r = *r;
    s->r.done = spied_done;
    mr_lock(&spy.mu);
    if (method >= 0)
        hear_locked(method, &s->r.body);
    if (tampers_locked())
        change_locked(&s->r.body, &spy.changed);
    r->impl = s;
    mr_unlock(&spy.mu);
    mr_net_loop()->start(p, &s->r);
}

static void spy_cancel(mr_net_request *r)
{
    mr_lock(&spy.mu);
    mr_net_request *inner = r->impl;
    mr_unlock(&spy.mu);
    if (inner)
        mr_net_loop()->cancel(inner);
}

static mr_net spy_net;

/* ---- injected calls ---- */

typedef struct injected {
    mr_net_request r; /* first */
    int method;
} injected;

static void injected_done(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    int m = ((injected *)r)->method;
    (void)reply;
    mr_lock(&spy.mu);
    spy.parsed[m] += !st || !strstr(mr_status_message(st), "malformed protobuf");
    spy.accepted[m] += !st;
    if (--spy.open == 0)
        mr_cond_broadcast(&spy.ended);
    mr_unlock(&spy.mu);
    mr_status_free(st);
    mr_free(r);
}

static bool inject(fuzz_run *r, mr_net_peer *const peers[3])
{
    int m = (int)fuzz_below(&r->rng, N_METHODS);
    mr_str mutant = {0};
    mr_lock(&spy.mu);
    heard *h = &spy.heard[m];
    bool any = h->n > 0;
    if (any) {
        mutate(&r->rng, mr_str_view(&h->bodies[fuzz_below(&r->rng, (uint64_t)h->n)]), &mutant);
        spy.open++;
    }
    mr_unlock(&spy.mu);
    if (!any)
        return false;
    injected *q = mr_new(injected);
    q->method = m;
    q->r.method = methods[m];
    q->r.done = injected_done;
    replace(&q->r.body, &mutant);
    r->counts[MUTANTS]++;
    r->counts[OF_METHOD + m]++;
    mr_net_loop()->start(peers[m < FIRST_OF_SERVERS ? 0 : 1 + fuzz_below(&r->rng, 2)], &q->r);
    return true;
}

/* ---- the life of a group ---- */

typedef struct life {
    mr_ps_manager *manager;
    mr_ps_server *a, *b;
    mr_ps *ps;
    int table, graph;
} life;

/* It must be answered, with whatever result. */
static void use(mr_ps *ps, int table, fuzz_rng *r)
{
    static float out[KEYS];
    uint64_t keys[8], at = fuzz_below(r, 8);
    float v[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    mr_ps_task t;
    double sum;
    for (int i = 0; i < 8; i++)
        keys[i] = at += 1 + fuzz_below(r, 6);
    if (!fuzz_once_in(r, 3))
        mr_status_free(
            mr_ps_begin(ps, &(mr_ps_job){.table = table, .keys = {.list = keys, .n = 8}, .floats = v}, &t));
    if (fuzz_once_in(r, 3))
        mr_status_free(
            mr_ps_begin(ps, &(mr_ps_job){.pull = true, .table = table, .keys = {.n = KEYS}, .out = out}, &t));
    if (fuzz_once_in(r, 3))
        mr_status_free(mr_ps_begin(
            ps, &(mr_ps_job){.pull = true, .table = table, .keys = {.list = keys, .n = 8}, .out = out + 8},
            &t));
    mr_status_free(mr_ps_end_all(ps));
    if (fuzz_once_in(r, 4))
        mr_status_free(mr_ps_compute(ps, (mr_ps_algebra)fuzz_below(r, 7), table, table, 0.5, &sum));
}

static void life_open(life *l, fuzz_rng *r)
{
    mr_ps_manager_options m = {
        .address = MANAGER, .replicas = 2, .servers = 2, .num_ranges = RANGES, .lost_ms = 60000};
    mr_ps_server_options a = {.address = SERVER_A, .manager = MANAGER, .memory = 16 << 20}, b = a;
    mr_ps_options o = {.manager = MANAGER,
                       .timeout_ms = 15000,
                       .cache_keys = 1,
                       .compress = fuzz_once_in(r, 2),
                       .half = (unsigned char)fuzz_below(r, 3)};
    mr_ps_table_options t = {.num_keys = KEYS,
                             .update = (mr_ps_update)fuzz_below(r, MR_PS_PROXIMAL),
                             .aggregate = fuzz_once_in(r, 4) ? 2 : 0};
    int64_t i;
    b.address = SERVER_B;
    fuzz_must(mr_ps_manager_open(&m, NULL, &l->manager), "a manager");
    fuzz_must(mr_ps_server_open(&a, NULL, &l->a), "a server");
    fuzz_must(mr_ps_server_open(&b, NULL, &l->b), "a server");
    fuzz_must(mr_ps_open(&o, &l->ps), "a client");
    fuzz_must(mr_ps_make_table(l->ps, MR_SV("t"), &t, &l->table), "a table");
    mr_ps *other;
    o.observer = 1;
    fuzz_must(mr_ps_open(&o, &other), "a client");
    mr_ps_close(other); /* sends a Leave, so that one is recorded */
    for (int k = 0; k < 3; k++)
        use(l->ps, l->table, r);
    fuzz_must(mr_ps_next_iteration(l->ps, &i), "an iteration");
    mr_status_free(mr_ps_renew(l->ps));
    bool quiet;
    mr_status_free(mr_ps_is_quiet(l->ps, &quiet));
    l->ps->timeout_ns = 20 * MS; /* from now on it need not be answered */
}

static void life_close(life *l)
{
    mr_ps_close(l->ps);
    mr_ps_server_close(l->a);
    mr_ps_server_close(l->b);
    mr_ps_manager_close(l->manager);
}

static void send_mutants(fuzz_run *r, life *l)
{
    mr_net *loop = mr_net_loop();
    mr_net_peer *peers[3];
    static const char *const at[3] = {MANAGER, SERVER_A, SERVER_B};
    for (int i = 0; i < 3; i++)
        fuzz_must(loop->connect(loop, at[i], NULL, NULL, &peers[i]), "a way");
    for (int k = 0; k < MESSAGES_A_RUN; k++) {
        inject(r, peers);
        if (k % 250 == 200)
            use(l->ps, l->table, &r->rng);
    }
    int64_t until = mr_now_ns() + 4 * MS; /* some are held forever: they end with their caller */
    mr_lock(&spy.mu);
    while (spy.open > 0 && mr_cond_wait_until(&spy.ended, &spy.mu, until))
        ;
    mr_unlock(&spy.mu);
    for (int i = 0; i < 3; i++)
        loop->disconnect(peers[i]);
    if (spy.open != 0)
        fuzz_fail("%d calls did not end", spy.open);
}

static void collect(fuzz_run *r)
{
    for (int i = 0; i < N_METHODS; i++) {
        r->counts[PARSED] += spy.parsed[i];
        r->counts[ACCEPTED] += spy.accepted[i];
        r->counts[OF_METHOD + N_METHODS + i] += spy.parsed[i];
        r->counts[OF_METHOD + 2 * N_METHODS + i] += spy.accepted[i];
        for (int k = 0; k < HEARD_EACH; k++)
            mr_str_deinit(&spy.heard[i].bodies[k]);
        spy.heard[i] = (heard){0};
        spy.parsed[i] = spy.accepted[i] = 0;
    }
    r->counts[CHANGED] += spy.changed;
    r->counts[REPLIES] += spy.replies;
    spy.changed = spy.replies = 0;
}

static void run(fuzz_run *r)
{
    life l = {0};
    mr_mutex_init(&spy.mu);
    mr_cond_init(&spy.ended);
    spy.rng.state = fuzz_u64(&r->rng);
    spy.tamper = 0;
    spy_net = *mr_net_loop();
    spy_net.start = spy_start;
    spy_net.cancel = spy_cancel;
    mr_ps_inside_by(&spy_net);
    life_open(&l, &r->rng);
    mr_lock(&spy.mu);
    spy.tamper = fuzz_once_in(&r->rng, 2) ? (int)fuzz_between(&r->rng, 5, 60) : 0;
    mr_unlock(&spy.mu);
    send_mutants(r, &l);
    life_close(&l);
    mr_ps_inside_by(NULL);
    collect(r);
    mr_cond_deinit(&spy.ended);
    mr_mutex_deinit(&spy.mu);
}

static void prepare(void) { mr_ops_register(); }
static int64_t n_runs(void)
{
    return MESSAGES / 800;
} /* number of messages sent in a run: not all methods are recorded in each */
static int n_counts(void) { return N_COUNTS; }

static bool summary(const int64_t *c, int64_t runs, FILE *out, FILE *err)
{
    int64_t n = MR_MAX(c[MUTANTS], 1);
    bool ok = true;
    fprintf(out, "runs %lld messages %lld parsed %lld%% accepted %lld%% changed %lld answers %lld\n",
            (long long)runs, (long long)c[MUTANTS], (long long)(c[PARSED] * 100 / n),
            (long long)(c[ACCEPTED] * 100 / n), (long long)c[CHANGED], (long long)c[REPLIES]);
    for (int i = 0; i < N_METHODS; i++)
        fprintf(err, "    %-38s %8lld mutants, %3lld%% parsed, %3lld%% accepted\n", methods[i],
                (long long)c[OF_METHOD + i],
                (long long)(c[OF_METHOD + N_METHODS + i] * 100 / MR_MAX(c[OF_METHOD + i], 1)),
                (long long)(c[OF_METHOD + 2 * N_METHODS + i] * 100 / MR_MAX(c[OF_METHOD + i], 1)));
    if (runs >= 20 && (c[PARSED] * 100 / n < MIN_PARSED || c[ACCEPTED] * 100 / n < MIN_ACCEPTED)) {
        fprintf(err, "ps: too few messages are understood to try what lies behind\n");
        ok = false;
    }
    return ok;
}

const fuzz_target fuzz_ps = {.name = "ps",
                             .about = "messages to and from a manager, servers and workers of parameters",
                             .prepare = prepare,
                             .n_runs = n_runs,
                             .n_counts = n_counts,
                             .run = run,
                             .summary = summary};
