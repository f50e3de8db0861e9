/* tests/fuzz/group.c -- messages from members of a group and from strangers: to the holder of a roster, to a post
 * office, and through shared memory.
 *
 * Accepted messages are the same after being written and read again. Every call to a roster holder or a post office
 * ends exactly once. A member gets a status, whatever is in the memory of its peer. */
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "group/group.h"
#include "group/roster_server.h"
#include "group/post.h"
#include "group/shm.h"
#include "group/roster_messages.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/fuzz.h"

typedef enum form { ATTEND, NEWS, KEEPER, POST, MEMORY, N_FORMS } form;
static const char *const names[N_FORMS] = {"attend", "news", "keeper", "post", "memory"};

/* ---- calls without a network ---- */

typedef struct fake {
    mr_net_call call;
    int *open;
} fake;

static void reply(mr_net_call *c, mr_status *st, mr_bytes *body)
{
    fake *f = (fake *)c;
    if (--*f->open < 0)
        fuzz_fail("a call was answered twice");
    mr_status_free(st);
    if (body)
        mr_bytes_deinit(body);
    mr_bytes_deinit(&c->body);
    mr_free(f);
}

static bool on_cancel(mr_net_call *c, void (*fn)(void *arg, mr_net_call *c), void *arg)
{
    c->cancelled = fn;
    c->cancelled_arg = arg;
    return true;
}

static mr_net net = {.name = "fake", .reply = reply, .on_cancel = on_cancel};

static mr_net_call *call_new(mr_sv bytes, const char *method, int *open)
{
    fake *f = mr_new(fake);
    f->call = (mr_net_call){.net = &net, .method = method, .peer_name = ""};
    f->open = open;
    ++*open;
    if (!mr_bytes_add_copy(&f->call.body, bytes.p, bytes.n))
        fuzz_fail("no memory");
    return &f->call;
}

/* ---- making ---- */

static void make_attend(fuzz_rng *r, mr_str *out)
{
    mr_attend a = {.flags = (uint32_t)fuzz_below(r, 4), .serial = fuzz_below(r, 3), .who = fuzz_below(r, 5), .lost = fuzz_below(r, 5),
                   .generation = (int64_t)fuzz_below(r, 4), .wanted = (int32_t)fuzz_below(r, 4) - 1};
    mr_str_appendz(&a.name, fuzz_once_in(r, 8) ? "h" : "g");
    mr_str_appendz(&a.address, "127.0.0.1:1");
    for (uint64_t k = fuzz_below(r, 4); k > 0; k--)
        mr_vec_push(&a.peers, fuzz_below(r, 5));
    mr_attend_write(&a, out);
    mr_attend_deinit(&a);
}

static void make_news(fuzz_rng *r, mr_str *out)
{
    mr_news n = {.kind = (uint32_t)fuzz_below(r, 5), .generation = (int64_t)fuzz_below(r, 5), .roster_server = fuzz_below(r, 3)};
    mr_str_appendz(&n.why, "member 1 is gone");
    for (uint64_t k = fuzz_below(r, 4); k > 0; k--)
        mr_vec_push(&n.members, (mr_news_member){k, mr_strdup("a:1")});
    mr_news_write(&n, out);
    mr_news_deinit(&n);
}

static void make_post(fuzz_rng *r, mr_str *out)
{
    uint8_t head[MR_POST_HEAD];
    size_t n = fuzz_below(r, 20);
    mr_post_head_write(&(mr_post_head){(uint32_t)fuzz_below(r, 3), fuzz_below(r, 2), fuzz_below(r, 3), n}, head);
    mr_str_append(out, head, sizeof(head));
    for (; n > 0; n--)
        mr_str_appendc(out, 'x');
}

/* Several messages one after the other, each preceded by its length. */
static void make_messages(fuzz_rng *r, form f, mr_str *out)
{
    for (uint64_t k = 1 + fuzz_below(r, 8); k > 0; k--) {
        mr_str one = {0};
        if (f == KEEPER)
            make_attend(r, &one);
        else
            make_post(r, &one);
        if (fuzz_once_in(r, 3))
            fuzz_damage(r, &one);
        size_t n = MR_MIN(one.n, (size_t)255);
        mr_str_appendc(out, (char)n);
        mr_str_append(out, mr_str_z(&one), n);
        mr_str_deinit(&one);
    }
}

static void make(fuzz_rng *r, form f, mr_str *out)
{
    if (f == KEEPER || f == POST) {
        make_messages(r, f, out);
        return;
    }
    if (f == ATTEND)
        make_attend(r, out);
    else if (f == NEWS)
        make_news(r, out);
    else
        for (int i = 0; i < 40; i++)
            mr_str_appendc(out, (char)fuzz_below(r, fuzz_once_in(r, 2) ? 2 : 256));
    for (uint64_t k = fuzz_below(r, 4); k > 0; k--)
        fuzz_damage(r, out);
}

/* ---- trying ---- */

static bool try_attend(mr_sv bytes)
{
    mr_attend a;
    mr_str again = {0};
    mr_status *st = mr_attend_read(bytes, &a);
    bool ok = !st;
    if (ok) {
        mr_attend_write(&a, &again);
        if (!mr_sv_eq(mr_str_view(&again), bytes))
            fuzz_fail("a message differs after a round trip");
    }
    mr_str_deinit(&again);
    mr_attend_deinit(&a);
    mr_status_free(st);
    return ok;
}

static bool try_news(mr_sv bytes)
{
    mr_news n, m;
    mr_str again = {0};
    mr_status *st = mr_news_read(bytes, &n);
    bool ok = !st;
    if (ok) {
        mr_news_write(&n, &again); /* an address may contain a NUL byte; the rest is not written again */
        fuzz_must(mr_news_read(mr_str_view(&again), &m), "news that were just read");
        if (m.kind != n.kind || m.members.n != n.members.n)
            fuzz_fail("news differ after a round trip");
        mr_news_deinit(&m);
    }
    mr_str_deinit(&again);
    mr_news_deinit(&n);
    mr_status_free(st);
    return ok;
}

static bool next_message(mr_sv *rest, mr_sv *out)
{
    if (rest->n == 0)
        return false;
    size_t n = MR_MIN((size_t)(unsigned char)rest->p[0], rest->n - 1);
    *out = (mr_sv){rest->p + 1, n};
    *rest = (mr_sv){rest->p + 1 + n, rest->n - 1 - n};
    return true;
}

static bool try_roster_server(mr_sv bytes)
{
    mr_roster_server *k;
    int open = 0;
    mr_sv message;
    fuzz_must(mr_roster_server_new("g", 1, &(mr_roster_options){.size = 2, .rejoin_ns = 1000, .join_ns = 1000000000}, &k), "a keeper");
    while (next_message(&bytes, &message))
        mr_roster_server_handle(k, call_new(message, MR_ATTEND_METHOD, &open));
    mr_roster_server_free(k);
    if (open)
        fuzz_fail("%d calls were not answered", open);
    return true;
}

static bool try_post(mr_sv bytes)
{
    mr_post *p = mr_post_new();
    mr_post_route ways[2] = {{0}};
    mr_transport *t = mr_post_transport(p, 1, 0, 2, ways);
    char got[4];
    int open = 0;
    mr_sv message;
    mr_transfer x = {.peer = 1, .data = got, .n = sizeof(got)};
    t->of->start(t, &x);
    while (next_message(&bytes, &message))
        mr_post_handle(p, call_new(message, MR_POST_METHOD, &open));
    mr_status_free(t->of->finish(t, &x, mr_now_ns()));
    mr_transport_free(t);
    mr_post_free(p);
    if (open)
        fuzz_fail("%d calls were not answered", open);
    return true;
}

/* The counters and heads of the peer's segment come from the input bytes. */
static bool try_memory(mr_sv bytes)
{
    int files[2] = {mr_shm_file_new(2), mr_shm_file_new(2)};
    float x[1200] = {0};
    mr_transport *t;
    off_t pipes = 4096 * 2;
    for (size_t i = 0; i + 8 < bytes.n; i += 8) {
        off_t at = i < 16 ? 4096 + (off_t)(i * 8) : pipes + (off_t)(i - 16);
        if (pwrite(files[1], bytes.p + i, 8, at) != 8)
            fuzz_fail("a file cannot be written");
    }
    fuzz_must(mr_shm_new(0, 2, files, NULL, &t), "a transport");
    mr_group_kind kind = bytes.n ? (mr_group_kind)((unsigned char)bytes.p[0] % 6) : MR_GROUP_BARRIER;
    float out[1200];
    mr_group_work w = {.kind = kind, .type = MR_FLOAT, .in = x, .out = out, .count = 600, .root = 1};
    mr_status *st = mr_group_run_on(t, &w, mr_now_ns() + 1000);
    mr_status_free(st);
    mr_transport_free(t);
    return true;
}

static void try_bytes(fuzz_run *r, form f, mr_sv bytes)
{
    static bool (*const tries[N_FORMS])(mr_sv bytes) = {try_attend, try_news, try_roster_server, try_post, try_memory};
    mr_sv exact = fuzz_exact(bytes);
    bool ok = tries[f](exact);
    fuzz_say(r, "%s of %zu bytes: %s", names[f], bytes.n, ok ? "accepted" : "refused");
    r->counts[f] += ok;
    mr_free((void *)(uintptr_t)exact.p);
}

/* ---- the target ---- */

static int64_t n_runs(void) { return 50000; }
static int n_counts(void) { return N_FORMS; }

/* The first byte says which form. */
static void replay(fuzz_run *r, mr_sv input)
{
    if (input.n > 0 && (unsigned char)input.p[0] < N_FORMS)
        try_bytes(r, (form)input.p[0], (mr_sv){input.p + 1, input.n - 1});
}

static void run(fuzz_run *r)
{
    form f = (form)(r->number % N_FORMS);
    mr_str bytes = {0};
    make(&r->rng, f, &bytes);
    fuzz_try_form(r, f, &bytes, replay);
}

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    return fuzz_shares("group", names, counts, N_FORMS, runs, N_FORMS, out, err);
}

static void prepare(void) {}

const fuzz_target fuzz_group = {.name = "group",
                                .about = "words of members of a group, and what they leave in shared memory",
                                .prepare = prepare,
                                .n_runs = n_runs,
                                .n_counts = n_counts,
                                .run = run,
                                .replay = replay,
                                .summary = summary};
