/* tests/fuzz/spec.c -- mutated specs of clusters: ClusterDef, ServerDef, TF_CONFIG, lists of flags.
 *
 * Everything that is accepted must be a valid cluster: its tasks are sorted, are found by their names, and are the same
 * after being written and read again, as a message and as JSON. */
#include "base/memory.h"
#include "dist/cluster.h"
#include "proto/config.pb-c.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/pb_tree.h"
#include "wire/json.h"

typedef enum form { CLUSTER_DEF, SERVER_DEF, TF_CONFIG, LIST, N_FORMS } form;

static const char *const names[N_FORMS] = {"ClusterDef", "ServerDef", "TF_CONFIG", "list"};

#define JOBS                                                                             \
    "job { name: 'ps' tasks { key: 0 value: 'ps0.example.com:2222' } tasks { key: 1 value: " \
    "'10.0.0.2:2222' } } job { name: 'worker' tasks { key: 0 value: '[::1]:80' } tasks { key: 7 " \
    "value: 'b:1' } }"

static const char *const seeds[N_FORMS][3] = {
    {JOBS, "job { name: 'local' tasks { value: 'localhost:0' } }", "job { } job { name: 'a' }"},
    {"cluster { " JOBS " } job_name: 'worker' task_index: 7 protocol: 'grpc' port: 9",
     "cluster { " JOBS " } job_name: 'ps' default_session_config { device_count { key: 'CPU' "
     "value: 2 } device_filters: '/job:ps' } cluster_device_filters { jobs { name: 'ps' } }",
     "cluster { " JOBS " } job_name: 'ps' task_index: 1 replica: 0"},
    {"{\"cluster\": {\"ps\": [\"a:1\"], \"worker\": [\"b:1\", \"b:2\"]}, \"task\": {\"type\": "
     "\"worker\", \"index\": 1}}",
     "{\"task\": {\"index\": \"0\", \"type\": \"chief\"}, \"environment\": [null, true, -1.5e3, "
     "{\"x\": {}}], \"cluster\": {\"chief\": {\"0\": \"c:\\u0031\"}, \"w_2\": {\"5\": "
     "\"[::1]:65535\", \"2\": \"d:0\"}}}",
     "{\"cluster\": {}, \"task\": {}, \"rpc_layer\": \"grpc\"}"},
    {"a:1,b:2,c:3", "[::1]:1, localhost:0", "x:65535"},
};

static mr_str packed[N_FORMS][3];

/* ---- mutants ---- */

/* Pieces that are meaningful in JSON or in addresses. */
static void insert_token(fuzz_rng *r, mr_str *s)
{
    static const char *const tokens[] = {
        "{", "}",  "[",  "]",  ",",    ":",     "\"",    "\\",     "\\u0000", "\\ud800", "\\udc00",
        "0", "-1", "1e9", "null", "true", "2147483648", "-4294967295", "9223372036854775808",
        "\"a:1\"", "\"cluster\":", "\"task\":", "\"index\":", "[[[[[[[[[[", "{\"a\":{\"a\":",
        ":65536"};
    mr_str out = {0};
    const char *token = fuzz_pick(r, tokens);
    size_t at = fuzz_below(r, s->n + 1), skip = fuzz_once_in(r, 2) ? fuzz_below(r, 6) : 0;
    mr_str_append(&out, mr_str_z(s), at);
    for (uint64_t k = fuzz_once_in(r, 30) ? 30 : 1; k > 0; k--)
        mr_str_appendz(&out, token);
    if (at + skip < s->n)
        mr_str_append(&out, s->p + at + skip, s->n - at - skip);
    mr_str_deinit(s);
    *s = out;
}

static void mutate_text(fuzz_rng *r, mr_str *s)
{
    for (uint64_t k = fuzz_below(r, 5); k > 0; k--)
        if (fuzz_once_in(r, 2))
            insert_token(r, s);
        else
            fuzz_damage(r, s);
}

static const ProtobufCMessageDescriptor *descriptor(form f)
{
    return f == CLUSTER_DEF   ? &tensorflow__cluster_def__descriptor
           : f == SERVER_DEF ? &tensorflow__server_def__descriptor
                             : NULL;
}

static void mutate(fuzz_rng *r, form f, mr_str *out)
{
    const mr_str *seed = &packed[f][fuzz_below(r, 3)];
    fuzz_tree t;
    if (!descriptor(f)) {
        mr_str_append(out, seed->p, seed->n);
        mutate_text(r, out);
        return;
    }
    fuzz_tree_parse(&t, descriptor(f), mr_str_view(seed));
    for (uint64_t k = fuzz_below(r, 5); k > 0; k--)
        fuzz_tree_change(r, &t, NULL, NULL);
    fuzz_tree_write(&t, out);
    fuzz_tree_deinit(&t);
    if (fuzz_once_in(r, 8))
        fuzz_damage(r, out);
}

/* ---- what was accepted ---- */

static void check_same(const mr_cluster *a, const mr_cluster *b, const char *how)
{
    bool same = a->tasks.n == b->tasks.n;
    for (int i = 0; same && i < a->tasks.n; i++)
        same = strcmp(a->tasks.p[i].name, b->tasks.p[i].name) == 0 &&
               strcmp(a->tasks.p[i].address, b->tasks.p[i].address) == 0;
    if (!same)
        fuzz_fail("a cluster differs %s", how);
}

static void check_sorted(const mr_cluster *c)
{
    for (int i = 0; i < c->tasks.n; i++) {
        const mr_task_address *t = &c->tasks.p[i];
        if (mr_cluster_find(c, mr_sv_of(t->job), t->number) != i ||
            mr_cluster_find_named(c, mr_sv_of(t->name)) != i || t->number < 0)
            fuzz_fail("a task is not found; %s", t->name);
    }
}

static void again_as_message(const mr_cluster *c)
{
    mr_cluster back = {0};
    mr_str bytes = {0};
    mr_cluster_encode(c, &bytes);
    fuzz_must(mr_cluster_decode(&back, mr_str_view(&bytes)), "a ClusterDef that was just written");
    check_same(c, &back, "as a message");
    mr_cluster_deinit(&back);
    mr_str_deinit(&bytes);
}

static bool is_ascii(const mr_cluster *c)
{
    for (int i = 0; i < c->tasks.n; i++)
        for (const char *p = c->tasks.p[i].address; *p; p++)
            if ((unsigned char)*p >= 0x80)
                return false;
    return true;
}

/* Addresses that are not UTF-8 cannot be written as JSON; real ones are UTF-8. */
static void again_as_json(const mr_cluster *c)
{
    mr_server_def back;
    mr_str text = {0};
    if (c->tasks.n == 0 || !is_ascii(c))
        return;
    const mr_task_address *t = &c->tasks.p[c->tasks.n - 1];
    mr_server_def_to_json(c, t->job, t->number, &text);
    fuzz_must(mr_server_def_from_json(mr_str_view(&text), &back), "JSON that was just written");
    check_same(c, &back.cluster, "as JSON");
    if (strcmp(back.job, t->job) != 0 || back.task != t->number)
        fuzz_fail("a task differs after a round trip through JSON");
    mr_server_def_deinit(&back);
    mr_str_deinit(&text);
}

static void check(const mr_cluster *c)
{
    mr_cluster copy;
    check_sorted(c);
    fuzz_must(mr_cluster_copy(c, &copy), "a copy");
    check_same(c, &copy, "as a copy");
    again_as_message(c);
    again_as_json(c);
    mr_cluster_deinit(&copy);
}

static mr_status *read_def(form f, mr_sv bytes, mr_server_def *d)
{
    if (f == SERVER_DEF)
        return mr_server_def_decode(bytes, d);
    if (f == TF_CONFIG)
        return mr_server_def_from_json(bytes, d);
    *d = (mr_server_def){0};
    mr_status *st = f == LIST ? mr_cluster_add_list(&d->cluster, MR_SV("worker"), bytes)
                              : mr_cluster_decode(&d->cluster, bytes);
    if (st)
        mr_server_def_deinit(d);
    return st;
}

static void try_bytes(fuzz_run *r, form f, mr_sv bytes)
{
    mr_server_def d;
    mr_sv exact = fuzz_exact(bytes);
    mr_status *st = read_def(f, exact, &d);
    fuzz_say(r, "%s of %zu bytes: %s", names[f], bytes.n, mr_status_message(st));
    if (!st) {
        r->counts[f]++;
        if (d.job && mr_cluster_find(&d.cluster, mr_sv_of(d.job), d.task) < 0)
            fuzz_fail("a task is not in its cluster");
        check(&d.cluster);
        mr_server_def_deinit(&d);
    } else if (d.cluster.tasks.n || d.job) {
        fuzz_fail("%s: a rejected input left something behind", names[f]);
    }
    mr_status_free(st);
    mr_free((void *)(uintptr_t)exact.p);
}

/* ---- the target ---- */

static void prepare(void)
{
    if (packed[0][0].n)
        return;
    for (int i = 0; i < N_FORMS * 3; i++)
        if (descriptor(i / 3))
            fuzz_pack_text(descriptor(i / 3), seeds[i / 3][i % 3], &packed[i / 3][i % 3]);
        else
            mr_str_appendz(&packed[i / 3][i % 3], seeds[i / 3][i % 3]);
}

static int64_t n_runs(void) { return 400000; }
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
    mutate(&r->rng, f, &bytes);
    fuzz_try_form(r, f, &bytes, replay);
}

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    return fuzz_shares("spec", names, counts, N_FORMS, runs, N_FORMS, out, err);
}

const fuzz_target fuzz_spec = {.name = "spec",
                               .about = "mutated specs of clusters",
                               .prepare = prepare,
                               .n_runs = n_runs,
                               .n_counts = n_counts,
                               .run = run,
                               .replay = replay,
                               .summary = summary};
