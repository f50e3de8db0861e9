/* tests/fuzz/messages.c -- records and mutates the messages of the cluster's services. */
#include "tests/fuzz/messages.h"

#include "base/memory.h"
#include "proto/service.pb-c.h"
#include "tests/fuzz/bytes.h"

enum { HEARD = 12, WORDS = 32, NUMBERS = 16, MOST_HEARD = 64 << 10, WORD_BYTES = 300 };

#define GRAPH                                                                                \
    "graph_def { node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: "      \
    "DT_FLOAT } } } node { name: 'y' op: 'Neg' input: 'x' device: "                          \
    "'/job:ps/replica:0/task:0/device:CPU:0' attr { key: 'T' value { type: DT_FLOAT } } } }"
#define FEED "feed { name: 'x:0' tensor { dtype: DT_FLOAT float_val: 2 } }"
#define LOCAL_KEY                                                                         \
    "'/job:ps/replica:0/task:0/device:CPU:0;0000000000000001;/job:worker/replica:0/task:0/" \
    "device:CPU:0;edge_1_x;0:0'"

#define MASTER(Method, proto, answers, ...)                                     \
    {"/tensorflow.MasterService/" #Method,                                      \
     &tensorflow__##proto##_request__descriptor,                                \
     &tensorflow__##proto##_response__descriptor,                               \
     answers,                                                                   \
     {__VA_ARGS__}}
#define WORKER(Method, proto, answers, ...)                                     \
    {"/tensorflow.WorkerService/" #Method,                                      \
     &tensorflow__##proto##_request__descriptor,                                \
     &tensorflow__##proto##_response__descriptor,                               \
     answers,                                                                   \
     {__VA_ARGS__}}

const fuzz_method fuzz_methods[FUZZ_N_METHODS] = {
    MASTER(CreateSession, create_session, true, GRAPH " config { isolate_session_state: true }",
           GRAPH " config { device_filters: '/job:ps' operation_timeout_in_ms: 5 }"),
    MASTER(ExtendSession, extend_session, true, "session_handle: 's' " GRAPH,
           "session_handle: 's' " GRAPH " current_graph_version: 1"),
    MASTER(PartialRunSetup, partial_run_setup, true,
           "session_handle: 's' feed: 'x:0' fetch: 'y:0' fetch: 'w:0'",
           "session_handle: 's' feed: 'x:0' target: 'y' request_id: 5"),
    MASTER(RunStep, run_step, true,
           "session_handle: 's' " FEED
           " fetch: 'y:0' fetch: 'w:0' options { timeout_in_ms: 5 trace_level: FULL_TRACE } "
           "request_id: 3",
           "session_handle: 's' " FEED
           " fetch: 'y:0' partial_run_handle: 'p' store_errors_in_response_body: true"),
    MASTER(CloseSession, close_session, true, "session_handle: 's'"),
    MASTER(ListDevices, list_devices, true, "session_handle: 's'", "session_handle: ''"),
    MASTER(Reset, reset, false, "container: 'c'", "device_filters: '/job:worker'"),
    MASTER(MakeCallable, make_callable, true,
           "session_handle: 's' options { feed: 'x:0' fetch: 'w:0' target: 'y' }",
           "session_handle: 's' options { fetch: 'x:0' feed: 'y:0' tensor_connection { "
           "from_tensor: 'x:0' to_tensor: 'y:0' } run_options { timeout_in_ms: 5 } }"),
    MASTER(RunCallable, run_callable, true,
           "session_handle: 's' handle: 1 feed { dtype: DT_FLOAT float_val: 2 }",
           "session_handle: 's' handle: 0"),
    MASTER(ReleaseCallable, release_callable, true, "session_handle: 's' handle: 1"),
    WORKER(GetStatus, get_status, true, ""),
    WORKER(CreateWorkerSession, create_worker_session, true,
           "session_handle: 'new' isolate_session_state: true master_task: '/job:x/task:0' "
           "master_incarnation: 7",
           "session_handle: 's' server_def { cluster { job { name: 'ps' tasks { key: 0 value: "
           "'a:1' } } } job_name: 'ps' protocol: 'grpc' }"),
    WORKER(DeleteWorkerSession, delete_worker_session, false, "session_handle: 's'"),
    WORKER(RegisterGraph, register_graph, true,
           "session_handle: 's' create_worker_session_called: true " GRAPH, GRAPH),
    WORKER(DeregisterGraph, deregister_graph, false,
           "graph_handle: 'g' session_handle: 's' create_worker_session_called: true"),
    WORKER(RunGraph, run_graph, true,
           "graph_handle: 'g' session_handle: 's' create_worker_session_called: true step_id: 1 "
           "is_partial: true",
           "graph_handle: 'g' session_handle: 's' create_worker_session_called: true step_id: 1 "
           "is_partial: true is_last_partial_run: true"),
    WORKER(CleanupGraph, cleanup_graph, false, "step_id: 1"),
    WORKER(CleanupAll, cleanup_all, false, "container: ''", "container: 'c'"),
    WORKER(RecvTensor, recv_tensor, true, "step_id: 1 request_id: 0 rendezvous_key: " LOCAL_KEY),
    WORKER(RecvBuf, recv_buf, false,
           "step_id: 1 buf_rendezvous_key: 'k' num_bytes: 8 src_device: "
           "'/job:ps/replica:0/task:0/device:CPU:0' dst_device: "
           "'/job:worker/replica:0/task:0/device:CPU:0'"),
    WORKER(CompleteGroup, complete_group, true,
           "group_key: 1 group_size: 2 device_type: 'CPU' device_attributes { name: "
           "'/job:ps/replica:0/task:0/device:CPU:0' device_type: 'CPU' incarnation: 7 }",
           "group_key: 9 group_size: 1 device_type: 'CPU' device_attributes { name: "
           "'/job:worker/replica:0/task:0/device:CPU:0' device_type: 'CPU' incarnation: 7 }"),
    WORKER(CompleteInstance, complete_instance, true,
           "name: 'n' data_type: DT_FLOAT group_key: 1 group_size: 2 instance_key: 2 device: "
           "'/job:ps/replica:0/task:0/device:CPU:0' is_source: true"),
    WORKER(GetStepSequence, get_step_sequence, false, "graph_key: 1 graph_key: 2"),
    WORKER(AbortCollective, abort_collective, false, "communicator: 1 reason: 'r' left: true"),
    WORKER(JoinCollective, join_collective, false,
           "name: 'g' worker: 0 num_workers: 1 step: 1 wait_ms: 1 settle_ms: 1",
           "name: 'g' worker: 1 num_workers: 2 generation: 1 wait_ms: 5 settle_ms: 5"),
    WORKER(Logging, logging, false, "enable_rpc_logging: true", "clear: true fetch_step_id: 1"),
    WORKER(Tracing, tracing, false, "options { duration: 0.5 use_step_profiler: true }"),
    WORKER(MarkRecvFinished, mark_recv_finished, false, "request_id: 1"),
};

int fuzz_method_find(const char *name)
{
    for (int i = 0; i < FUZZ_N_METHODS; i++)
        if (strcmp(fuzz_methods[i].name, name) == 0)
            return i;
    return -1;
}

/* ---- recording ---- */

typedef struct heard { /* the newest ones, in a ring */
    mr_str bytes[HEARD];
    uint64_t n;
} heard;

struct fuzz_lexicon {
    heard messages[FUZZ_N_METHODS][2];
    char words[N_WORD_KINDS][WORDS][WORD_BYTES];
    uint64_t n_words[N_WORD_KINDS];
    uint64_t numbers[N_NUMBER_KINDS][NUMBERS];
    uint64_t n_numbers[N_NUMBER_KINDS];
};

fuzz_lexicon *fuzz_lexicon_new(void) { return mr_new(fuzz_lexicon); }

void fuzz_lexicon_free(fuzz_lexicon *l)
{
    for (int i = 0; i < FUZZ_N_METHODS; i++)
        for (int k = 0; k < 2 * HEARD; k++)
            mr_str_deinit(&l->messages[i][k / HEARD].bytes[k % HEARD]);
    mr_free(l);
}

/* Fields by name, in whatever message they are. */
static int kind_of_word(const fuzz_item *i)
{
    static const struct {
        const char *field;
        fuzz_word_kind kind;
    } fields[] = {{"session_handle", WORD_SESSION},  {"graph_handle", WORD_GRAPH},
                  {"partial_run_handle", WORD_PARTIAL}, {"recv_key", WORD_KEY},
                  {"rendezvous_key", WORD_KEY},      {"buf_rendezvous_key", WORD_KEY},
                  {"fetch", WORD_NAME},              {"feed", WORD_NAME},
                  {"target", WORD_NAME},             {"src_device", WORD_DEVICE},
                  {"dst_device", WORD_DEVICE},       {"device", WORD_DEVICE},
                  {"device_filters", WORD_DEVICE},   {"master_task", WORD_DEVICE}};
    for (int k = 0; i->f && k < MR_COUNT(fields); k++)
        if (strcmp(i->f->name, fields[k].field) == 0)
            return fields[k].kind;
    if (fuzz_item_is(i, "NamedTensorProto", "name")) /* of a tensor for masters, else a key */
        return memchr(i->bytes.p, ';', i->bytes.n) ? WORD_KEY : WORD_NAME;
    if (fuzz_item_is(i, "NodeDef", "name") || fuzz_item_is(i, "NodeDef", "input"))
        return WORD_NAME;
    return fuzz_item_is(i, "DeviceAttributes", "name") ? WORD_DEVICE : -1;
}

static int kind_of_number(const fuzz_item *i)
{
    if (!i->f || i->wire != 0)
        return -1;
    if (strcmp(i->f->name, "step_id") == 0)
        return NUMBER_STEP;
    return strcmp(i->f->name, "handle") == 0 ? NUMBER_CALLABLE : -1;
}

static void learn_word(fuzz_lexicon *l, int kind, mr_sv word)
{
    if (word.n == 0 || word.n >= WORD_BYTES)
        return;
    for (int i = 0; i < WORDS; i++)
        if (mr_sv_is(word, l->words[kind][i]))
            return;
    char *to = l->words[kind][l->n_words[kind]++ % WORDS];
    memcpy(to, word.p, word.n);
    to[word.n] = '\0';
}

static void learn(fuzz_lexicon *l, fuzz_tree *t)
{
    fuzz_tree_list(t);
    for (int k = 0; k < t->links.n; k++) {
        const fuzz_item *i = *t->links.p[k];
        int word = i->message ? -1 : kind_of_word(i), number = kind_of_number(i);
        if (word >= 0)
            learn_word(l, word, i->bytes);
        if (number >= 0)
            l->numbers[number][l->n_numbers[number]++ % NUMBERS] = i->v;
    }
}

static const ProtobufCMessageDescriptor *descriptor(int method, bool response)
{
    return response ? fuzz_methods[method].response : fuzz_methods[method].request;
}

void fuzz_hear(fuzz_lexicon *l, int method, bool response, mr_sv bytes)
{
    fuzz_tree t;
    heard *h = &l->messages[method][response];
    if (bytes.n > MOST_HEARD)
        return;
    mr_str *slot = &h->bytes[h->n++ % HEARD];
    mr_str_clear(slot);
    mr_str_append(slot, bytes.p ? bytes.p : "", bytes.n);
    fuzz_tree_parse(&t, descriptor(method, response), bytes);
    learn(l, &t);
    fuzz_tree_deinit(&t);
}

void fuzz_hear_device(fuzz_lexicon *l, const char *name)
{
    learn_word(l, WORD_DEVICE, mr_sv_of(name));
}

/* ---- words for the changes of pb_change.c ---- */

static fuzz_lexicon *speaking; /* whose words are used; mutants are made by one thread at a time */

static bool pick_word(fuzz_rng *r, int kind, mr_sv *out)
{
    uint64_t n = MR_MIN(speaking->n_words[kind], WORDS);
    if (n == 0)
        return false;
    *out = mr_sv_of(speaking->words[kind][fuzz_below(r, n)]);
    return true;
}

static bool word(fuzz_rng *r, const fuzz_tree *t, const fuzz_item *at, mr_sv *out)
{
    static const char *const ops[] = {"Neg",  "Square", "Identity", "Add",   "Mul",
                                      "NoOp", "_Recv",  "_Send",    "Const", "Placeholder"};
    int kind = kind_of_word(at);
    (void)t;
    if (kind >= 0 && fuzz_once_in(r, 20))
        return *out = (mr_sv){"cut\0short", 9}, true; /* longer than its C string */
    if (kind >= 0)
        return pick_word(r, fuzz_once_in(r, 30) ? (int)fuzz_below(r, N_WORD_KINDS) : kind, out);
    if (fuzz_item_is(at, "NodeDef", "op"))
        return *out = mr_sv_of(fuzz_pick(r, ops)), true;
    return false;
}

/* Types and names of attrs: a graph with other ones is rejected at once. */
static bool brittle(const fuzz_item *at, bool value)
{
    return strcmp(at->owner->short_name, "AttrEntry") == 0 || fuzz_item_is(at, "NodeDef", "attr") ||
           (!value && strcmp(at->owner->short_name, "AttrValue") == 0) ||
           fuzz_item_is(at, "AttrValue", "type") || fuzz_item_is(at, "TensorProto", "dtype") ||
           fuzz_item_is(at, "NodeDef", "name");
}

static void copied(fuzz_rng *r, fuzz_tree *t, fuzz_item *copy) { (void)r, (void)t, (void)copy; }

static const fuzz_words words = {word, brittle, copied};

/* ---- recorded messages with current names ---- */

/* A few steps for a whole run, so that calls of different methods meet in one. */
static uint64_t pick_step(fuzz_rng *r)
{
    if (fuzz_once_in(r, 4) && speaking->n_numbers[NUMBER_STEP])
        return speaking->numbers[NUMBER_STEP]
                                [fuzz_below(r, MR_MIN(speaking->n_numbers[NUMBER_STEP], NUMBERS))];
    if (fuzz_once_in(r, 3))
        return fuzz_u64(r) >> 8; /* an unknown one */
    return 1 + fuzz_below(r, 6);
}

static void freshen_item(fuzz_rng *r, fuzz_tree *t, fuzz_item *i)
{
    mr_sv w;
    int kind = kind_of_word(i);
    bool handle = kind == WORD_SESSION || kind == WORD_GRAPH || kind == WORD_PARTIAL;
    if (handle && pick_word(r, kind, &w))
        i->bytes = (mr_sv){mr_arena_strndup(&t->arena, w.p, w.n), w.n};
    if (kind_of_number(i) == NUMBER_STEP)
        i->v = pick_step(r);
    if (kind_of_number(i) == NUMBER_CALLABLE)
        i->v = fuzz_below(r, 4);
    if (i->f && strcmp(i->f->name, "request_id") == 0 && !fuzz_once_in(r, 8))
        i->v = fuzz_once_in(r, 2) ? 0 : fuzz_u64(r) >> 1; /* not tracked, or new */
}

static void freshen(fuzz_rng *r, fuzz_tree *t)
{
    fuzz_tree_list(t);
    for (int k = 0; k < t->links.n; k++)
        if (!(*t->links.p[k])->message && !fuzz_once_in(r, 10))
            freshen_item(r, t, *t->links.p[k]);
}

/* ---- mutants ---- */

static bool pick_message(fuzz_rng *r, fuzz_lexicon *l, int method, bool response, mr_str *out)
{
    const heard *h = &l->messages[method][response];
    const fuzz_method *m = &fuzz_methods[method];
    int n_seeds = response ? 0 : m->seeds[0] ? 1 + (m->seeds[1] != NULL) : 0;
    uint64_t n = MR_MIN(h->n, HEARD);
    mr_str_clear(out);
    if (n && (!n_seeds || !fuzz_once_in(r, 4))) {
        const mr_str *s = &h->bytes[fuzz_below(r, n)];
        mr_str_append(out, s->p ? s->p : "", s->n);
        return true;
    }
    if (n_seeds)
        fuzz_pack_text(m->request, m->seeds[fuzz_below(r, (uint64_t)n_seeds)], out);
    return n_seeds > 0;
}

static void change(fuzz_rng *r, fuzz_tree *t, fuzz_tree *donor, int changes, mr_str *out)
{
    for (int k = 0; k < changes; k++)
        fuzz_tree_change(r, t, donor, &words);
    fuzz_tree_write(t, out);
    bool damaged = changes && (fuzz_once_in(r, 16) || !t->root.child);
    for (uint64_t k = damaged ? 1 + fuzz_below(r, 3) : 0; k > 0; k--)
        fuzz_damage(r, out);
}

static void mutate(fuzz_rng *r, fuzz_lexicon *l, int method, bool response, mr_sv in, bool anew,
                   int changes, mr_str *out)
{
    fuzz_tree t, donor;
    mr_str other = {0};
    const ProtobufCMessageDescriptor *d = descriptor(method, response);
    bool crossed =
        changes && fuzz_once_in(r, 4) && pick_message(r, l, method, response, &other);
    speaking = l;
    fuzz_tree_parse(&t, d, in);
    if (crossed)
        fuzz_tree_parse(&donor, d, mr_str_view(&other));
    if (anew)
        freshen(r, &t);
    change(r, &t, crossed ? &donor : NULL, changes, out);
    if (crossed)
        fuzz_tree_deinit(&donor);
    fuzz_tree_deinit(&t);
    mr_str_deinit(&other);
}

bool fuzz_mutant(fuzz_rng *r, fuzz_lexicon *l, int method, bool response, int changes, mr_str *out)
{
    mr_str in = {0};
    bool there = pick_message(r, l, method, response, &in);
    if (there)
        mutate(r, l, method, response, mr_str_view(&in), true, changes, out);
    mr_str_deinit(&in);
    return there;
}

void fuzz_mutate(fuzz_rng *r, fuzz_lexicon *l, int method, bool response, mr_sv in, int changes,
                 mr_str *out)
{
    mutate(r, l, method, response, in, false, changes, out);
}
