/* tests/soak/threads.c -- random steps from many threads: nothing may hang, and every value must be right.
 *
 *     threads [--steps 1000000] [--seed N] [--clients 4]
 *
 * One graph has branches that use threads in different ways: kernels of a client that wait for each other, functions of
 * the front end (PyFunc), functions that call functions, queues filled and emptied in the same step, a parallel map
 * whose function waits, files, and loops that are split over threads. Each step runs some branches chosen at random in
 * one of several sessions with different numbers of threads; sometimes a branch waits for something that never happens,
 * and the step must end at its time limit. A watchdog reports which branches hang. */
#include <errno.h>
#include <millrace/front_end.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tensorflow/c/c_api.h>
#include <tensorflow/c/kernels.h>
#include <tensorflow/c/ops.h>
#include <time.h>
#include <unistd.h>

enum { MATRIX = 96, PATIENCE_SECONDS = 120, SUBSETS = 40, MAX_CLIENTS = 64 };

static void die(const char *what, const char *why)
{
    fprintf(stderr, "soak threads: %s: %s\n", what, why);
    exit(1);
}

static void check(const TF_Status *s, const char *what)
{
    if (TF_GetCode(s) != TF_OK)
        die(what, TF_Message(s));
}

static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static void nap(int64_t ns)
{
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    nanosleep(&t, NULL);
}

/* ---- kernels that wait for each other ---- */

/* SoakMeet(key) returns its key once two of them with this key are inside. */
enum { BUCKETS = 4096 };
typedef struct pending_key {
    int64_t key;
    bool met;
    struct pending_key *next;
} pending_key;
static pthread_mutex_t meet_mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t meet_more = PTHREAD_COND_INITIALIZER;
static pending_key *pending[BUCKETS];

static void meet(int64_t key)
{
    pending_key own = {.key = key}, **at = &pending[(uint64_t)key % BUCKETS];
    pthread_mutex_lock(&meet_mu);
    while (*at && (*at)->key != key)
        at = &(*at)->next;
    if (*at) {
        (*at)->met = true;
        *at = (*at)->next;
        pthread_cond_broadcast(&meet_more);
    } else {
        *at = &own;
        while (!own.met)
            pthread_cond_wait(&meet_more, &meet_mu);
    }
    pthread_mutex_unlock(&meet_mu);
}

static void pass_input(TF_OpKernelContext *c, TF_Tensor *t, TF_Status *s)
{
    TF_SetOutput(c, 0, t, s);
    check(s, "output");
    TF_DeleteTensor(t);
    TF_DeleteStatus(s);
}

static void compute_meet(void *unused, TF_OpKernelContext *c)
{
    (void)unused;
    TF_Status *s = TF_NewStatus();
    TF_Tensor *t = NULL;
    TF_GetInput(c, 0, &t, s);
    check(s, "input of SoakMeet");
    meet(*(int64_t *)TF_TensorData(t));
    pass_input(c, t, s);
}

/* SoakNap(x) sleeps a little, longer for some values than for others. */
static void compute_nap(void *unused, TF_OpKernelContext *c)
{
    (void)unused;
    TF_Status *s = TF_NewStatus();
    TF_Tensor *t = NULL;
    TF_GetInput(c, 0, &t, s);
    check(s, "input of SoakNap");
    nap(*(int64_t *)TF_TensorData(t) % 5 * 10000);
    pass_input(c, t, s);
}

static void infer_scalar(TF_ShapeInferenceContext *c, TF_Status *s)
{
    TF_ShapeHandle *h = TF_NewShapeHandle();
    TF_ShapeInferenceContextGetInput(c, 0, h, s);
    TF_ShapeInferenceContextSetOutput(c, 0, h, s);
    TF_DeleteShapeHandle(h);
}

static void register_kernel(const char *op, void (*compute)(void *, TF_OpKernelContext *), TF_Status *s)
{
    TF_OpDefinitionBuilder *d = TF_NewOpDefinitionBuilder(op);
    TF_OpDefinitionBuilderAddInput(d, "x: int64");
    TF_OpDefinitionBuilderAddOutput(d, "y: int64");
    TF_OpDefinitionBuilderSetIsStateful(d, true);
    TF_OpDefinitionBuilderSetShapeInferenceFunction(d, infer_scalar);
    TF_RegisterOpDefinition(d, s);
    check(s, op);
    TF_RegisterKernelBuilder(op, TF_NewKernelBuilder(op, "CPU", NULL, compute, NULL), s);
    check(s, op);
}

/* The function behind PyFunc: x + 1, after a while. */
static void call_front_end(void *unused, mr_function_call *c)
{
    (void)unused;
    TF_Tensor *in = mr_function_call_input(c, 0), *out = TF_AllocateTensor(TF_INT64, NULL, 0, 8);
    int64_t x = *(int64_t *)TF_TensorData(in);
    nap(x % 3 * 20000);
    *(int64_t *)TF_TensorData(out) = x + 1;
    TF_DeleteTensor(in);
    mr_function_call_set_output(c, 0, out);
    mr_function_call_finish(c, NULL);
}

/* ---- the graph ---- */

static TF_Status *status;

static TF_Output out0(TF_Operation *o) { return (TF_Output){o, 0}; }

static TF_Operation *finish(TF_OperationDescription *d)
{
    TF_Operation *o = TF_FinishOperation(d, status);
    check(status, "node");
    return o;
}

static TF_Output unary(TF_Graph *g, const char *op, const char *name, TF_Output x)
{
    TF_OperationDescription *d = TF_NewOperation(g, op, name);
    TF_AddInput(d, x);
    return out0(finish(d));
}

static TF_Output binary(TF_Graph *g, const char *op, const char *name, TF_Output x, TF_Output y)
{
    TF_OperationDescription *d = TF_NewOperation(g, op, name);
    TF_AddInput(d, x);
    TF_AddInput(d, y);
    return out0(finish(d));
}

static TF_Output constant(TF_Graph *g, const char *name, TF_Tensor *t)
{
    TF_OperationDescription *d = TF_NewOperation(g, "Const", name);
    TF_SetAttrTensor(d, "value", t, status);
    TF_SetAttrType(d, "dtype", TF_TensorType(t));
    TF_Output o = out0(finish(d));
    TF_DeleteTensor(t);
    return o;
}

static TF_Tensor *scalar(int64_t v)
{
    TF_Tensor *t = TF_AllocateTensor(TF_INT64, NULL, 0, 8);
    *(int64_t *)TF_TensorData(t) = v;
    return t;
}

static TF_Output placeholder(TF_Graph *g, const char *name)
{
    TF_OperationDescription *d = TF_NewOperation(g, "Placeholder", name);
    TF_SetAttrType(d, "dtype", TF_INT64);
    TF_SetAttrShape(d, "shape", NULL, 0);
    return out0(finish(d));
}

/* Adds a function x -> y of one int64 to g; `build` creates its body. */
static void add_function(TF_Graph *g, const char *name, TF_Output (*build)(TF_Graph *, TF_Output))
{
    TF_Graph *body = TF_NewGraph();
    int n = TF_GraphNumFunctions(g);
    TF_Function *known[16];
    n = TF_GraphGetFunctions(g, known, n < 16 ? n : 16, status);
    for (int i = 0; i < n; i++) {
        TF_GraphCopyFunction(body, known[i], NULL, status);
        check(status, "function in function");
        TF_DeleteFunction(known[i]);
    }
    TF_Output x = placeholder(body, "x"), y = build(body, x);
    TF_Function *f = TF_GraphToFunction(body, name, 0, -1, NULL, 1, &x, 1, &y, NULL, NULL, NULL, status);
    check(status, name);
    TF_GraphCopyFunction(g, f, NULL, status);
    check(status, name);
    TF_DeleteFunction(f);
    TF_DeleteGraph(body);
}

static TF_Output call(TF_Graph *g, const char *node, const char *function, TF_Output x)
{
    TF_DataType type = TF_INT64;
    TF_OperationDescription *d = TF_NewOperation(g, "StatefulPartitionedCall", node);
    TF_AddInputList(d, &x, 1);
    TF_SetAttrTypeList(d, "Tin", &type, 1);
    TF_SetAttrTypeList(d, "Tout", &type, 1);
    TF_SetAttrFuncName(d, "f", function, strlen(function));
    return out0(finish(d));
}

static TF_Output offset(TF_Graph *g, const char *name, TF_Output x, int64_t by)
{
    char of[100];
    snprintf(of, sizeof of, "%s/by", name);
    return binary(g, "AddV2", name, x, constant(g, of, scalar(by)));
}

/* Keys of different branches differ in their lowest digit; a step's number is a multiple of 10. */
static TF_Output body_meet(TF_Graph *g, TF_Output x)
{
    TF_Output key = offset(g, "key", x, 1);
    return binary(g, "AddV2", "sum", unary(g, "SoakMeet", "a", key), unary(g, "SoakMeet", "b", key));
}
static TF_Output body_outer(TF_Graph *g, TF_Output x)
{
    return call(g, "inner", "MeetInside", unary(g, "SoakNap", "nap", x));
}
static TF_Output body_map(TF_Graph *g, TF_Output x) { return unary(g, "SoakNap", "nap", x); }

enum { MEET, NESTED, QUEUE, LOOPS, FRONT_END, MAPPED, READ_FILE, N_BRANCHES };
static const char *const branch_names[] = {"meet", "nested", "queue", "loops", "front end", "parallel map", "file"};

typedef struct soak {
    TF_Graph *graph;
    TF_Output x, branch[N_BRANCHES], never;
    TF_Operation *init;
    char file[64];
    int n_sessions;
    TF_Session *sessions[8];
    int subsets[SUBSETS]; /* bits of branches */
    int64_t steps;
    _Atomic int64_t taken;
    uint64_t seed;
} soak;

static void build_meet(soak *k)
{
    TF_Graph *g = k->graph;
    TF_Output a = unary(g, "SoakMeet", "meet_a", k->x), b = unary(g, "SoakMeet", "meet_b", k->x);
    k->branch[MEET] = binary(g, "AddV2", "meet", a, b);
    add_function(g, "MeetInside", body_meet);
    add_function(g, "Outer", body_outer);
    add_function(g, "Mapped", body_map);
    k->branch[NESTED] = call(g, "nested", "Outer", k->x);
}

/* A queue with one enqueue and one dequeue in the same step; with `never`, only the dequeue, from a queue that stays
 * empty. */
static TF_Output build_queue(TF_Graph *g, const char *name, TF_Output x, TF_Output *never)
{
    TF_DataType type = TF_INT64;
    TF_OperationDescription *d = TF_NewOperation(g, "FIFOQueueV2", name);
    TF_SetAttrTypeList(d, "component_types", &type, 1);
    TF_SetAttrString(d, "shared_name", name, strlen(name));
    TF_Output q = out0(finish(d));
    char put_name[64], get_name[64];
    snprintf(put_name, sizeof put_name, "%s_put", name);
    snprintf(get_name, sizeof get_name, "%s_get", name);
    d = TF_NewOperation(g, "QueueDequeueV2", get_name);
    TF_AddInput(d, q);
    TF_SetAttrTypeList(d, "component_types", &type, 1);
    TF_Output got = out0(finish(d));
    if (never) {
        *never = got;
        return got;
    }
    d = TF_NewOperation(g, "QueueEnqueueV2", put_name);
    TF_AddInput(d, q);
    TF_AddInputList(d, &x, 1);
    TF_Operation *put = finish(d);
    d = TF_NewOperation(g, "Identity", "queue");
    TF_AddInput(d, got);
    TF_AddControlInput(d, put); /* both run, in either order */
    return out0(finish(d));
}

/* The sum of a product of matrices of ones, computed twice in parallel: 2 * MATRIX^3. */
static TF_Output build_loops(TF_Graph *g)
{
    int64_t dims[] = {MATRIX, MATRIX};
    TF_Tensor *t = TF_AllocateTensor(TF_FLOAT, dims, 2, MATRIX * MATRIX * 4);
    for (int i = 0; i < MATRIX * MATRIX; i++)
        ((float *)TF_TensorData(t))[i] = 1;
    TF_OperationDescription *d = TF_NewOperation(g, "PlaceholderWithDefault", "ones");
    TF_AddInput(d, constant(g, "ones_value", t));
    TF_SetAttrShape(d, "shape", dims, 2);
    TF_Output ones = out0(finish(d)), sums[2];
    TF_Tensor *axes = TF_AllocateTensor(TF_INT32, (int64_t[]){2}, 1, 8);
    memcpy(TF_TensorData(axes), (int[]){0, 1}, 8);
    TF_Output both = constant(g, "axes", axes);
    for (int i = 0; i < 2; i++) {
        char product[32], sum[32];
        snprintf(product, sizeof product, "product%d", i);
        snprintf(sum, sizeof sum, "sum%d", i);
        TF_Output left = i ? unary(g, "Neg", "minus", ones) : ones;
        sums[i] = binary(g, "Sum", sum, binary(g, "MatMul", product, left, ones), both);
    }
    TF_Output difference = binary(g, "Sub", "difference", sums[0], sums[1]);
    d = TF_NewOperation(g, "Cast", "loops");
    TF_AddInput(d, difference);
    TF_SetAttrType(d, "DstT", TF_INT64);
    return out0(finish(d));
}

static TF_Output build_front_end(TF_Graph *g, TF_Output x)
{
    TF_DataType type = TF_INT64;
    TF_OperationDescription *d = TF_NewOperation(g, "PyFunc", "front_end");
    TF_AddInputList(d, &x, 1);
    TF_SetAttrTypeList(d, "Tin", &type, 1);
    TF_SetAttrTypeList(d, "Tout", &type, 1);
    TF_SetAttrString(d, "token", "soak", 4);
    return out0(finish(d));
}

static void set_element(TF_OperationDescription *d)
{
    TF_DataType type = TF_INT64;
    const int64_t *dims[] = {NULL};
    int rank = 0;
    TF_SetAttrTypeList(d, "output_types", &type, 1);
    TF_SetAttrShapeList(d, "output_shapes", dims, &rank, 1);
}

/* The next element of an endless range, mapped by four parallel calls of a function that sleeps. */
static TF_Output build_map(soak *k)
{
    TF_Graph *g = k->graph;
    TF_OperationDescription *d = TF_NewOperation(g, "RangeDataset", "range");
    TF_AddInput(d, constant(g, "range_start", scalar(0)));
    TF_AddInput(d, constant(g, "range_stop", scalar(INT64_MAX / 2)));
    TF_AddInput(d, constant(g, "range_step", scalar(1)));
    set_element(d);
    TF_Output range = out0(finish(d));
    TF_Tensor *four = TF_AllocateTensor(TF_INT32, NULL, 0, 4);
    *(int *)TF_TensorData(four) = 4;
    d = TF_NewOperation(g, "ParallelMapDataset", "map");
    TF_AddInput(d, range);
    TF_AddInputList(d, NULL, 0);
    TF_AddInput(d, constant(g, "calls", four));
    TF_SetAttrFuncName(d, "f", "Mapped", 6);
    TF_SetAttrTypeList(d, "Targuments", NULL, 0);
    set_element(d);
    TF_Output map = out0(finish(d));
    d = TF_NewOperation(g, "IteratorV2", "iterator");
    TF_SetAttrString(d, "shared_name", "", 0);
    TF_SetAttrString(d, "container", "", 0);
    set_element(d);
    TF_Output iterator = out0(finish(d));
    d = TF_NewOperation(g, "MakeIterator", "init");
    TF_AddInput(d, map);
    TF_AddInput(d, iterator);
    k->init = finish(d);
    d = TF_NewOperation(g, "IteratorGetNext", "next");
    TF_AddInput(d, iterator);
    set_element(d);
    return out0(finish(d));
}

/* The number in a file that this function creates. */
static TF_Output build_file(soak *k)
{
    snprintf(k->file, sizeof k->file, "/tmp/soak_threads.%d", (int)getpid());
    FILE *f = fopen(k->file, "w");
    if (!f || fputs("42", f) < 0 || fclose(f) != 0)
        die(k->file, strerror(errno));
    TF_TString s;
    TF_TString_Init(&s);
    TF_TString_Copy(&s, k->file, strlen(k->file));
    TF_Tensor *t = TF_AllocateTensor(TF_STRING, NULL, 0, sizeof s);
    memcpy(TF_TensorData(t), &s, sizeof s);
    TF_Output text = unary(k->graph, "ReadFile", "read", constant(k->graph, "path", t));
    TF_OperationDescription *d = TF_NewOperation(k->graph, "StringToNumber", "file");
    TF_AddInput(d, text);
    TF_SetAttrType(d, "out_type", TF_INT64);
    return out0(finish(d));
}

/* ---- steps ---- */

static TF_Session *open_session(const soak *k, int intra, int inter, int own)
{
    unsigned char config[] = {0x10, (unsigned char)intra, 0x28, (unsigned char)inter, 0x48, (unsigned char)own};
    TF_SessionOptions *o = TF_NewSessionOptions();
    TF_SetConfig(o, config, sizeof config, status);
    check(status, "config");
    TF_Session *s = TF_NewSession(k->graph, o, status);
    check(status, "session");
    TF_DeleteSessionOptions(o);
    const TF_Operation *init = k->init;
    TF_SessionRun(s, NULL, NULL, NULL, 0, NULL, NULL, 0, &init, 1, NULL, status);
    check(status, "iterator");
    return s;
}

static bool is_right(int branch, int64_t id, int64_t v)
{
    switch (branch) {
    case MEET:
        return v == 2 * id;
    case NESTED:
        return v == 2 * (id + 1);
    case LOOPS:
        return v == (int64_t)2 * MATRIX * MATRIX * MATRIX;
    case FRONT_END:
        return v == id + 1;
    case READ_FILE:
        return v == 42;
    default: /* the element of another step, or any of the sequence */
        return v >= 0;
    }
}

typedef struct client {
    pthread_t thread;
    soak *soak;
    uint64_t random;
    _Atomic int branches;   /* of the current step; 0: none */
    _Atomic int64_t since;  /* seconds */
} client;

static int64_t seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

/* One step of some branches in some session; every value must be right.  One in 512 must end by its time limit. */
static void run_step(client *c, int64_t number, TF_Status *s)
{
    soak *k = c->soak;
    int64_t id = number * 10;
    TF_Session *session = k->sessions[next_random(&c->random) % (uint64_t)k->n_sessions];
    int set = k->subsets[next_random(&c->random) % SUBSETS], n = 0, which[N_BRANCHES + 1];
    bool hangs = next_random(&c->random) % 512 == 0; /* waits for something that never happens */
    TF_Output fetches[N_BRANCHES + 1];
    TF_Tensor *got[N_BRANCHES + 1] = {0}, *x = scalar(id);
    for (int i = 0; i < N_BRANCHES; i++)
        if (set >> i & 1) {
            /* a step that ends early would leave its partner waiting */
            if (hangs && i != LOOPS && i != FRONT_END && i != READ_FILE && i != MAPPED)
                continue;
            which[n] = i;
            fetches[n++] = k->branch[i];
        }
    unsigned char two_ms[] = {0x10, 2}; /* RunOptions.timeout_in_ms */
    TF_Buffer *options = hangs ? TF_NewBufferFromString(two_ms, sizeof two_ms) : NULL;
    if (hangs)
        fetches[n++] = k->never;
    atomic_store(&c->since, seconds_now());
    atomic_store(&c->branches, set | 1 << N_BRANCHES);
    TF_SessionRun(session, options, &k->x, &x, 1, fetches, got, n, NULL, 0, NULL, s);
    atomic_store(&c->branches, 0);
    if (hangs) {
        if (TF_GetCode(s) != TF_DEADLINE_EXCEEDED)
            die("a step without end", TF_Message(s));
        TF_DeleteBuffer(options);
    } else {
        check(s, "step");
        for (int i = 0; i < n; i++)
            if (!is_right(which[i], id, *(int64_t *)TF_TensorData(got[i])))
                die(branch_names[which[i]], "a wrong value");
    }
    for (int i = 0; i < n; i++)
        TF_DeleteTensor(got[i]);
    TF_DeleteTensor(x);
}

static void *client_main(void *arg)
{
    client *c = arg;
    TF_Status *s = TF_NewStatus();
    for (int64_t i; (i = atomic_fetch_add(&c->soak->taken, 1)) < c->soak->steps;)
        run_step(c, i + 1, s);
    TF_DeleteStatus(s);
    return NULL;
}

/* Until all steps are done: if a client is in one step for too long, the process ends. */
static void watch(const client *clients, int n, const soak *k)
{
    for (int64_t tick = 0; atomic_load(&((soak *)(uintptr_t)k)->taken) < k->steps + n; tick++) {
        nap(100000000);
        for (int i = 0; i < n; i++) {
            int set = atomic_load(&((client *)(uintptr_t)clients)[i].branches);
            int64_t since = atomic_load(&((client *)(uintptr_t)clients)[i].since);
            if (!set || seconds_now() - since < PATIENCE_SECONDS)
                continue;
            fprintf(stderr, "soak threads: client %d hangs in a step of", i);
            for (int b = 0; b < N_BRANCHES; b++)
                if (set >> b & 1)
                    fprintf(stderr, " '%s'", branch_names[b]);
            fprintf(stderr, "\n");
            abort(); /* for the debugger */
        }
        if (tick % 100 == 99)
            fprintf(stderr, "%lld of %lld steps\n", (long long)atomic_load(&((soak *)(uintptr_t)k)->taken),
                    (long long)k->steps);
    }
}

int main(int argc, char **argv)
{
    soak k = {.steps = 1000000, .seed = (uint64_t)time(NULL)};
    int n_clients = 4;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--steps") == 0)
            k.steps = atoll(argv[i + 1]);
        if (strcmp(argv[i], "--seed") == 0)
            k.seed = (uint64_t)atoll(argv[i + 1]);
        if (strcmp(argv[i], "--clients") == 0)
            n_clients = atoi(argv[i + 1]);
    }
    if (n_clients < 1 || n_clients > MAX_CLIENTS)
        die("--clients", "1 to 64");
    status = TF_NewStatus();
    register_kernel("SoakMeet", compute_meet, status);
    register_kernel("SoakNap", compute_nap, status);
    mr_set_function_hook(call_front_end, NULL);
    k.graph = TF_NewGraph();
    k.x = placeholder(k.graph, "x");
    build_meet(&k);
    k.branch[QUEUE] = build_queue(k.graph, "queue_of_soak", k.x, NULL);
    build_queue(k.graph, "empty_queue", k.x, &k.never);
    k.branch[LOOPS] = build_loops(k.graph);
    k.branch[FRONT_END] = build_front_end(k.graph, k.x);
    k.branch[MAPPED] = build_map(&k);
    k.branch[READ_FILE] = build_file(&k);
    static const int threads[][3] = {{0, 0, 0}, {1, 1, 0}, {2, 1, 0}, {1, 2, 1}, {2, 2, 1}, {4, 3, 1}};
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
        k.sessions[k.n_sessions++] = open_session(&k, threads[i][0], threads[i][1], threads[i][2]);
    printf("seed %llu\n", (unsigned long long)k.seed);
    uint64_t random = k.seed;
    for (int i = 0; i < SUBSETS; i++)
        k.subsets[i] = (int)(next_random(&random) % ((1 << N_BRANCHES) - 1)) + 1;
    client *clients = calloc((size_t)n_clients, sizeof *clients);
    for (int i = 0; i < n_clients; i++) {
        clients[i].soak = &k;
        clients[i].random = next_random(&random);
        if (pthread_create(&clients[i].thread, NULL, client_main, &clients[i]) != 0)
            die("thread", strerror(errno));
    }
    watch(clients, n_clients, &k);
    for (int i = 0; i < n_clients; i++)
        pthread_join(clients[i].thread, NULL);
    for (int i = 0; i < k.n_sessions; i++) {
        TF_CloseSession(k.sessions[i], status);
        TF_DeleteSession(k.sessions[i], status);
        check(status, "close");
    }
    TF_DeleteGraph(k.graph);
    unlink(k.file);
    free(clients);
    TF_DeleteStatus(status);
    printf("%lld steps, nothing hung\n", (long long)k.steps);
    return 0;
}
