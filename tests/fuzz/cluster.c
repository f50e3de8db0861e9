/* tests/fuzz/cluster.c -- mutated messages to the services of live tasks, and back from them.
 *
 * A run is the life of a small cluster: a task that holds state (ps) and one that clients talk to (worker), on a
 * transport with a man in the middle (tap.c). First a well-behaved client runs some steps, so that sessions, graphs and
 * keys exist. Then mutants of all recorded messages are sent to both tasks, one by one and concurrently, calls are cut
 * off, and clients run steps whose requests and answers are changed in transit. Finally a new client must be served as
 * if nothing had happened, and after all have left nothing may remain: no unfinished call, no memory. */
#include "base/memory.h"
#include "exec/session.h"
#include "graph/flow_builder_fixture.h"
#include "ops/table.h"
#include "proto/config.pb-c.h"
#include "server/server.h"
#include "tests/fuzz/tap.h"
#include "tests/fuzz/values.h"

enum { MESSAGES_A_RUN = 50, MESSAGES = 1000000, N_TASKS = 2, MAX_OUTS = 8 };
enum { MIN_PARSED = 60, MIN_ACCEPTED = 10 }; /* percent */
#define CUT_AFTER_NS INT64_C(8000000)
#define PS "/job:ps/replica:0/task:0"
#define WORKER "/job:worker/replica:0/task:0"

typedef struct scene { /* a client's graph */
    mr_graph *g;
    mr_out x;             /* to be fed */
    mr_out outs[MAX_OUTS]; /* to be fetched */
    mr_node *targets[MAX_OUTS];
    int n_outs, n_targets;
} scene;

typedef struct life {
    fuzz_run *r;
    fuzz_rng *rng;
    mr_net *net;
    fuzz_lexicon *lexicon;
    mr_server *servers[N_TASKS];
    mr_net_peer *peers[N_TASKS]; /* for injected calls */
    scene scene;
} life;

static const char *const addresses[N_TASKS] = {"ps:1", "worker:1"};
static const char *const jobs[N_TASKS] = {"ps", "worker"};

/* ---- graphs ---- */

/* Values cross from task to task, feeds and fetches at both ends. */
static void add_chain(scene *c, mr_scope *s)
{
    c->x = mr_placeholder(s, MR_FLOAT, "x", NULL);
    s->device = PS;
    mr_out y = mr_emit(mr_as(s, "y"), "Square", c->x);
    s->device = WORKER;
    c->outs[c->n_outs++] = mr_emit(mr_as(s, "w"), "AddV2", y, c->x);
    c->outs[c->n_outs++] = y;
}

/* State on the ps task, and readers on the other task. */
static void add_variable(scene *c, mr_scope *s)
{
    s->device = PS;
    mr_out v = mr_emit0_with(mr_as(s, "v"), "VariableV2",
                             MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)},
                                      {"shape", mr_a_shape(&mr_pshape_scalar)}));
    mr_out set = mr_emit(mr_as(s, "set"), "Assign", v, mr_const_f32(s, 10));
    mr_out add = mr_emit(mr_as(s, "add"), "AssignAdd", v, mr_const_f32(s, 1));
    s->device = WORKER;
    c->targets[c->n_targets++] = set.node;
    c->targets[c->n_targets++] = add.node;
    c->outs[c->n_outs++] = mr_emit(mr_as(s, "read"), "Neg", v);
}

/* A step that waits for another one. */
static void add_queue(scene *c, mr_scope *s)
{
    mr_attr types = mr_a_types(1, (const int[]){MR_FLOAT});
    s->device = PS;
    mr_out q =
        mr_emit0_with(mr_as(s, "queue"), "FIFOQueueV2", MR_ATTRS({"component_types", types}));
    mr_out in = mr_emit_with(mr_as(s, "enqueue"), "QueueEnqueueV2",
                             MR_ATTRS({"Tcomponents", types}), q, mr_const_f32(s, 3));
    mr_out got = mr_emit_with(mr_as(s, "dequeue"), "QueueDequeueV2",
                              MR_ATTRS({"component_types", types}), q);
    s->device = WORKER;
    c->targets[c->n_targets++] = in.node;
    c->outs[c->n_outs++] = mr_emit(mr_as(s, "got"), "Neg", got);
}

/* Contents that are sent without copying (server/wire.c), and strings. From fed values, because constants would be
 * folded. */
static void add_large(scene *c, mr_scope *s)
{
    s->device = PS;
    mr_out big = mr_emit(mr_as(s, "big"), "Fill", mr_const_vec_i32(s, 1, (const int32_t[]){3000}),
                         c->x);
    mr_out n = mr_emit_with(s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT32)}), c->x);
    mr_out dims = mr_emit(s, "Reshape", n, mr_const_vec_i32(s, 1, (const int32_t[]){1}));
    mr_out text = mr_emit(mr_as(s, "text"), "Fill", dims, mr_const_str(s, "some text"));
    s->device = WORKER;
    c->outs[c->n_outs++] = mr_emit(mr_as(s, "sums"), "Neg", big);
    c->outs[c->n_outs++] = mr_emit(mr_as(s, "told"), "Identity", text);
}

/* A loop whose body is on another task, and a branch that is not taken. */
static void add_flow(scene *c, mr_graph *g)
{
    mr_fb b;
    mr_out vars[2], next[2], out[2];
    mr_fb_init(&b, g);
    mr_out n = mr_fb_num(&b, MR_INT32, 3), one = mr_fb_num(&b, MR_INT32, 1);
    mr_out init[2] = {mr_fb_num(&b, MR_INT32, 0), mr_fb_num(&b, MR_FLOAT, 1)};
    mr_fb_while(&b, init, 2, 10, vars);
    mr_fb_while_body(&b, mr_fb2(&b, "Less", vars[0], n), vars);
    next[0] = mr_fb2(&b, "Add", vars[0], one);
    b.s.device = PS;
    next[1] = mr_fb1(&b, "Neg", vars[1]);
    b.s.device = "";
    mr_fb_while_end(&b, next, out);
    mr_out less = mr_fb2(&b, "Less", out[0], n);
    mr_fb_cond(&b, less);
    b.s.device = PS;
    mr_out then = mr_fb1(&b, "Square", out[1]);
    b.s.device = "";
    mr_fb_cond_else(&b, &then, 1);
    mr_out other = mr_fb1(&b, "Neg", out[1]);
    mr_fb_cond_end(&b, &other, &out[0]);
    c->outs[c->n_outs++] = out[1];
    c->outs[c->n_outs++] = out[0];
    mr_fb_deinit(&b);
}

/* One member of a group on each task: they reduce, and one broadcasts to the other. */
static mr_out member_of_two(mr_scope *s, const char *op, mr_out in, int instance)
{
    mr_named_attr attrs[] = {{"merge_op", mr_a_str("Add")}, {"final_op", mr_a_str("Div")}, {"Nordering_token", mr_a_int(0)}};
    bool reduces = strcmp(op, "CollectiveReduceV2") == 0;
    return mr_emit_n(s, op, attrs, reduces ? 3 : 0,
                     MR_OUTS(in, mr_const_i32(s, 2), mr_const_i32(s, 1), mr_const_i32(s, instance)));
}

static void add_collective(scene *c, mr_scope *s)
{
    mr_named_attr type[] = {{"T", mr_a_type(MR_FLOAT)}};
    mr_out dims = mr_const_vec_i32(s, 1, (const int32_t[]){6000});
    s->device = PS;
    mr_out a = member_of_two(mr_as(s, "ra"), "CollectiveReduceV2", mr_emit(s, "Fill", dims, c->x), 1);
    mr_out sent = member_of_two(mr_as(s, "sent"), "CollectiveBcastSendV2", a, 2);
    s->device = WORKER;
    mr_out b = member_of_two(mr_as(s, "rb"), "CollectiveReduceV2", mr_emit(s, "Fill", dims, c->x), 1);
    mr_out came = mr_emit_n(mr_as(s, "came"), "CollectiveBcastRecvV2", type, 1,
                            MR_OUTS(mr_const_i32(s, 2), mr_const_i32(s, 1), mr_const_i32(s, 2), dims));
    c->outs[c->n_outs++] = mr_emit(mr_as(s, "both"), "AddV2", mr_emit(s, "AddV2", a, b), mr_emit(s, "AddV2", sent, came));
}

static void scene_init(scene *c, uint64_t which)
{
    mr_scope s;
    *c = (scene){.g = mr_graph_new()};
    mr_scope_init(&s, c->g, "");
    add_chain(c, &s);
    switch (which % 6) {
    case 0: add_variable(c, &s); break;
    case 1: add_queue(c, &s); break;
    case 2: add_large(c, &s); break;
    case 3: add_flow(c, c->g); break;
    case 4: add_collective(c, &s); break;
    }
    fuzz_must(mr_scope_status(&s), "a graph");
    mr_scope_deinit(&s);
}

/* ---- the cluster ---- */

static void start_task(life *l, int i)
{
    mr_server_def def = {.job = (char *)(uintptr_t)jobs[i]};
    for (int k = 0; k < N_TASKS; k++)
        fuzz_must(mr_cluster_add(&def.cluster, mr_sv_of(jobs[k]), 0, mr_sv_of(addresses[k])),
                  "a cluster");
    fuzz_pack_text(&tensorflow__config_proto__descriptor,
                   "inter_op_parallelism_threads: 2 intra_op_parallelism_threads: 1", &def.config);
    fuzz_must(mr_server_new(&def, &(mr_server_options){l->net}, &l->servers[i]), "a server");
    fuzz_must(mr_server_start(l->servers[i]), "start");
    fuzz_must(l->net->connect(l->net, addresses[i], NULL, NULL, &l->peers[i]), "connect");
    mr_cluster_deinit(&def.cluster);
    mr_str_deinit(&def.config);
}

static void begin(life *l, fuzz_run *r)
{
    *l = (life){.r = r, .rng = &r->rng, .lexicon = fuzz_lexicon_new()};
    l->net = tap_open(r, l->lexicon);
    fuzz_hear_device(l->lexicon, PS "/device:CPU:0");
    fuzz_hear_device(l->lexicon, WORKER "/device:CPU:0");
    for (int i = 0; i < N_TASKS; i++)
        start_task(l, i);
    scene_init(&l->scene, fuzz_u64(l->rng));
}

/* Nothing may wait for clients that are gone. */
static void end(life *l)
{
    for (int i = 0; i < N_TASKS; i++)
        l->net->disconnect(l->peers[i]);
    for (int i = 0; i < N_TASKS; i++)
        mr_server_free(l->servers[i]);
    tap_close();
    mr_graph_unref(l->scene.g);
    fuzz_lexicon_free(l->lexicon);
}

/* ---- clients ---- */

static mr_session *open_session(life *l)
{
    mr_session *s;
    mr_status *st =
        mr_remote_session_new(l->net, addresses[1], l->scene.g, NULL, MR_SV(""), NULL, &s);
    fuzz_say(l->r, "session: %s", mr_status_message(st));
    mr_status_free(st);
    return s;
}

static mr_status *run_step(life *l, mr_session *s, mr_out fetch, mr_node *target, float x, float *y)
{
    mr_tensor *value = mr_tensor_scalar_f32(x), *got = NULL;
    mr_run_args a = {.feeds = &l->scene.x,
                     .feed_values = &value,
                     .n_feeds = 1,
                     .fetches = &fetch,
                     .fetched = &got,
                     .n_fetches = fetch.node != NULL,
                     .targets = &target,
                     .n_targets = target != NULL};
    mr_status *st = mr_session_run(s, &a, NULL, NULL);
    if (!st && got && y && got->dtype == MR_FLOAT && got->n == 1)
        *y = *MR_DATA(float, got);
    if (!st && fetch.node && (!got || got->dtype != mr_dtype_base(mr_out_type(fetch))))
        fuzz_fail("the fetched value of %s is missing or has another type", fetch.node->name);
    mr_tensor_unref(got);
    mr_tensor_unref(value);
    return st;
}

static void any_step(life *l, mr_session *s)
{
    scene *c = &l->scene;
    mr_out none = {NULL, 0};
    mr_status *st;
    if (c->n_targets && fuzz_once_in(l->rng, 3))
        st = run_step(l, s, none, c->targets[fuzz_below(l->rng, (uint64_t)c->n_targets)], 1, NULL);
    else
        st = run_step(l, s, c->outs[fuzz_below(l->rng, (uint64_t)c->n_outs)], NULL, 1, NULL);
    fuzz_say(l->r, "step: %s %s", mr_code_name(mr_status_code(st)), mr_status_message(st));
    mr_status_free(st);
}

/* Pieces of one step, in any order. */
static void partial_steps(life *l, mr_session *s)
{
    scene *c = &l->scene;
    char *handle = NULL;
    mr_tensor *value = mr_tensor_scalar_f32(2), *got = NULL;
    mr_run_args a = {.feeds = &c->x, .n_feeds = 1, .fetches = c->outs, .n_fetches = 2};
    mr_status *st = s->ops->partial_setup(s, &a, &handle);
    fuzz_say(l->r, "partial run: %s", mr_status_message(st));
    for (int i = 0; !st && i < 2; i++) {
        mr_run_args piece = {.feeds = &c->x,
                             .feed_values = &value,
                             .n_feeds = i == 0,
                             .fetches = &c->outs[i],
                             .fetched = &got,
                             .n_fetches = 1};
        st = s->ops->partial_run(s, handle, &piece, NULL);
        mr_tensor_unref(got);
        got = NULL;
    }
    mr_status_free(st);
    mr_tensor_unref(value);
    mr_free(handle);
}

static void look_around(mr_session *s)
{
    mr_device_info *d;
    int n;
    mr_status *st = s->ops->list_devices(s, &d, &n);
    if (!st)
        mr_device_infos_free(d, n);
    mr_status_free(st);
}

/* The graph grows, and so does the master's. */
static void extend(life *l)
{
    mr_scope s;
    if (l->scene.g->nodes.n > 60 || l->scene.n_outs == MAX_OUTS)
        return;
    mr_scope_init(&s, l->scene.g, "");
    s.device = fuzz_once_in(l->rng, 2) ? PS : WORKER;
    mr_out y = mr_emit(&s, "Neg", l->scene.outs[0]);
    fuzz_must(mr_scope_status(&s), "a graph");
    l->scene.outs[l->scene.n_outs++] = y;
    mr_scope_deinit(&s);
}

static void use(life *l, mr_session *s, uint64_t n)
{
    for (; n > 0; n--)
        switch (fuzz_below(l->rng, 12)) {
        case 0: look_around(s); break;
        case 1:
        case 2: partial_steps(l, s); break;
        case 3: extend(l); break;
        default: any_step(l, s);
        }
}

static mr_status *serve_one(life *l)
{
    mr_session *s;
    float y = 0;
    MR_TRY(mr_remote_session_new(l->net, addresses[1], l->scene.g, NULL, MR_SV(""), NULL, &s));
    mr_status *st = run_step(l, s, l->scene.outs[0], NULL, 3, &y);
    if (!st && y != 12)
        fuzz_fail("3 * 3 + 3 is %g", (double)y);
    mr_session_free(s);
    return st;
}

/* A well-behaved client on a working network must be served. Calls whose callers are gone may still be running, and a
 * Reset among them closes all sessions; then the next attempt must succeed. Without keys, a message that claims to be
 * from another incarnation of a task is believed. */
static void check_served(life *l)
{
    mr_status *st = serve_one(l);
    for (int tries = 0; st && tries < 5; tries++) {
        fuzz_say(l->r, "once more: %s", mr_status_message(st));
        if (mr_status_code(st) != MR_CANCELLED && mr_status_code(st) != MR_ABORTED)
            break;
        mr_status_free(st);
        st = serve_one(l);
    }
    if (st && strstr(mr_status_message(st), " was restarted ")) {
        mr_status_free(st);
        st = NULL;
    }
    fuzz_must(st, "a session among others");
}

/* ---- attackers ---- */

static void inject(life *l)
{
    static const uint8_t changes[] = {0, 1, 1, 1, 2, 2, 3, 5};
    /* Several concurrently, without waiting for any. */
    for (uint64_t k = 1 + fuzz_below(l->rng, fuzz_once_in(l->rng, 3) ? 6 : 1); k > 0; k--)
        tap_inject(l->peers[fuzz_below(l->rng, N_TASKS)],
                   (int)fuzz_below(l->rng, FUZZ_N_METHODS), fuzz_pick(l->rng, changes));
    if (fuzz_once_in(l->rng, 4))
        tap_cut_any();
}

/* Changes requests, or answers. */
static void choose_trouble(life *l)
{
    switch (fuzz_below(l->rng, 4)) {
    case 0: tap_tamper(4, 0); break;
    case 1: tap_tamper(12, 12); break;
    default: tap_tamper(0, 3);
    }
}

static void attack(life *l)
{
    mr_session *s = NULL;
    while (tap_mutated() < MESSAGES_A_RUN) {
        if (!s && fuzz_once_in(l->rng, 6)) {
            choose_trouble(l);
            s = open_session(l);
        } else if (s && fuzz_once_in(l->rng, 3)) {
            choose_trouble(l);
            use(l, s, 1);
        } else if (s && fuzz_once_in(l->rng, 16)) {
            mr_session_free(s);
            s = NULL;
        } else {
            inject(l);
        }
    }
    mr_session_free(s);
}

static void run(fuzz_run *r)
{
    life l;
    begin(&l, r);
    mr_session *s = open_session(&l);
    if (!s)
        fuzz_fail("there is no session");
    tap_cut_after(CUT_AFTER_NS); /* a step may wait for something that never happens */
    use(&l, s, 4);
    attack(&l);
    use(&l, s, 1);
    tap_close();
    mr_session_free(s);
    check_served(&l);
    end(&l);
}

/* ---- the target ---- */

static void prepare(void) { mr_ops_register(); }
static int64_t n_runs(void) { return MESSAGES / MESSAGES_A_RUN; }
static int n_counts(void) { return TAP_N_COUNTS; }

static double percent(int64_t part, int64_t of)
{
    return of ? 100.0 * (double)part / (double)of : 0;
}

/* Every method must have mutants that are parsed and, if it is implemented, mutants that succeed. */
static bool check_methods(const int64_t *counts, FILE *err)
{
    bool ok = true;
    for (int i = 0; i < FUZZ_N_METHODS; i++) {
        const int64_t *n = &counts[TAP_METHODS + 3 * i];
        if (n[1] > 0)
            continue;
        ok = false;
        if (err)
            fprintf(err, "fuzz cluster: no mutant of %s was parsed\n", fuzz_methods[i].name);
    }
    return ok;
}

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    int64_t requests = counts[TAP_REQUESTS];
    double parsed = percent(counts[TAP_PARSED], requests),
           accepted = percent(counts[TAP_ACCEPTED], requests);
    fprintf(out,
            "messages %lld requests %lld responses %lld parsed_percent %.1f accepted_percent %.1f "
            "unchanged %lld cut %lld",
            (long long)(requests + counts[TAP_RESPONSES]), (long long)requests,
            (long long)counts[TAP_RESPONSES], parsed, accepted, (long long)counts[TAP_SENT],
            (long long)counts[TAP_CUT]);
    bool ok = runs < 100 ||
              (check_methods(counts, err) && parsed >= MIN_PARSED && accepted >= MIN_ACCEPTED);
    if (!ok && err)
        fprintf(err, "fuzz cluster: too few mutants are accepted\n");
    return ok;
}

const fuzz_target fuzz_cluster = {.name = "cluster",
                                  .about = "mutated messages to live tasks, and back from them",
                                  .prepare = prepare,
                                  .n_runs = n_runs,
                                  .n_counts = n_counts,
                                  .run = run,
                                  .summary = summary};
