/* ops/io/reader.c -- a reader, and the ops on it.
 *
 * An op that reads holds the reader's only token, even while the queue is empty: records are delivered in the order
 * of the ops. Waiting for the token and for the queue blocks no thread. Both waits are those of ops/queue, whose
 * ops end an mr_run: so they get a separate run (`inner`), whose end continues the real one. The thread that ends a
 * wait belongs to another op: the one that had the token, that filled the queue, or that cancels. It must not wait
 * for our files, so reading continues in a thread that may block.
 *
 * Locks: `on.mu` guards the token and the counters; the holder of the token owns the work itself. */
#include "ops/io/reader.h"

#include <stdatomic.h>

#include "base/memory.h"
#include "base/vec.h"
#include "graph/infer.h"
#include "ops/io/name_input.h"
#include "ops/queue/queue.h"
#include "ops/queue/waiting.h"
#include "run/blocking_work.h"
#include "wire/pb.h"
#include "wire/text_format.h"

struct mr_reader {
    mr_waited on;
    const mr_reader_kind *kind;
    mr_reader_spec spec;
    bool taken MR_GUARDED_BY(on.mu); /* an op has the token */
    mr_waiters line MR_GUARDED_BY(on.mu);
    int64_t n_records, works_begun, works_ended MR_GUARDED_BY(on.mu);
    mr_reader_work work; /* name NULL: none */
    mr_str last;  /* name of the last work, also after its end */
    char *name;   /* for messages */
};

/* ---- the object ---- */

static void work_end(mr_reader_work *w)
{
    mr_record_reader_close(w->records);
    mr_lmdb_close(w->lmdb);
    mr_stream_close(w->in);
    mr_str_deinit(&w->ahead);
    mr_free(w->name);
    *w = (mr_reader_work){.spec = w->spec};
}

static void reader_free(mr_object *o)
{
    mr_reader *d = (mr_reader *)o;
    MR_ASSERT(!d->taken && !d->line.first); /* both hold references */
    work_end(&d->work);
    mr_waited_deinit(&d->on);
    mr_str_deinit(&d->last);
    mr_free(d->name);
    mr_free(d);
}

const mr_object_type mr_reader_type = {"tensorflow::ReaderInterface", reader_free};

static void advance_reader(mr_waited *on, mr_waiters *gone)
{
    mr_reader *d = (mr_reader *)on;
    if (d->taken || !d->line.first)
        return;
    d->taken = true;
    mr_waiter_let_go(d->line.first, NULL, gone);
}

static mr_status *give_token(mr_waiter *w)
{
    (void)w; /* the token is already taken */
    return NULL;
}

static const mr_waited_kind waiting = {sizeof(mr_waiter), advance_reader, give_token, NULL};

mr_reader *mr_reader_new(const mr_reader_kind *kind, const mr_reader_spec *spec, const char *node)
{
    mr_reader *d = mr_new(mr_reader);
    mr_waited_init(&d->on, &mr_reader_type, &waiting);
    d->kind = kind;
    d->spec = *spec;
    d->name = mr_printf("%s '%s'", kind->name, node);
    d->work.spec = &d->spec;
    return d;
}

static mr_status *find_reader(mr_run *r, mr_reader **out)
{
    return mr_named_find(r, &mr_reader_type, (mr_object **)out);
}

/* ---- one op that needs the token ---- */

typedef struct use use;
struct use {
    mr_run inner; /* first member: its end callback finds the use */
    mr_node node; /* for inner: the op's node, starting at another input */
    mr_value out[1];
    mr_run *r;
    mr_reader *d;
    mr_queue *q;                          /* of ops that read */
    mr_status *(*now)(use *u);            /* of other ops: what to do with the token */
    int64_t want;                         /* number of records; -1: one, as scalars */
    MR_VEC(mr_str) keys;
    MR_VEC(mr_str) values;
    bool has_token;
    mr_status *st;             /* status of the last wait */
    mr_blocking_work blocking; /* continues after it */
    _Atomic int wait;          /* ASKED, then CAME or LEFT, whichever is first; the second one continues */
};

enum { ASKED = 0, CAME, LEFT };

static void use_free(use *u)
{
    for (int i = 0; i < u->keys.n; i++) {
        mr_str_deinit(&u->keys.p[i]);
        mr_str_deinit(&u->values.p[i]);
    }
    mr_vec_deinit(&u->keys);
    mr_vec_deinit(&u->values);
    if (u->q)
        mr_object_unref((mr_object *)u->q);
    mr_free(u);
}

/* Passes the token, if u has it, to the next in line and ends the op. */
static void finish_use(use *u, mr_status *st)
{
    mr_reader *d = u->d;
    mr_run *r = u->r;
    bool had_token = u->has_token;
    use_free(u);
    if (had_token) {
        mr_lock(&d->on.mu);
        d->taken = false;
        mr_waited_unlock(&d->on, NULL);
    }
    mr_object_unref(&d->on.base);
    mr_run_done(r, st);
}

/* ---- works ---- */

static mr_status *work_begin(mr_reader *d, mr_sv name)
{
    d->work.name = mr_strndup(name.p, name.n);
    d->work.name_bytes = name.n;
    mr_str_clear(&d->last);
    mr_str_append(&d->last, name.p, name.n);
    mr_status *st = d->kind->begin(&d->work);
    if (st)
        work_end(&d->work);
    return st;
}

static mr_status *begin_work(use *u, const mr_tensor *t)
{
    mr_reader *d = u->d;
    if (t->dtype != MR_STRING)
        return mr_invalid("Expected queue with single string component");
    if (t->n != 1)
        return mr_invalid("Expected to dequeue a one-element string tensor");
    mr_sv name = mr_tensor_str_at(t, 0);
    mr_stop outer = mr_stop_swap(u->r->step->stop); /* must not apply to the step whose thread filled the queue */
    mr_status *st = work_begin(d, name);
    mr_stop_swap(outer);
    MR_TRY(st);
    mr_lock(&d->on.mu);
    d->works_begun++;
    mr_unlock(&d->on.mu);
    return NULL;
}

static void end_work(mr_reader *d)
{
    work_end(&d->work);
    mr_lock(&d->on.mu);
    d->works_ended = d->works_begun;
    mr_unlock(&d->on.mu);
}

/* ---- waiting ---- */

static const char cancelled_text[] = "Waiting for a reader was cancelled";

static void go_on(use *u);

/* If the step was cancelled while all threads were in use, no file is opened, and a work from the queue is lost. */
static void go_on_in_thread(mr_blocking_work *b, bool cancelled)
{
    use *u = (use *)((char *)b - offsetof(use, blocking));
    if (cancelled)
        u->st = mr_error(MR_CANCELLED, "%s", cancelled_text);
    go_on(u);
}

/* A wait has ended. The thread that began it continues by itself if it has not called wait_ended yet, so that works
 * without a record do not pile up on the stack; any other thread must not wait for files. */
static void wait_came(use *u, mr_status *st)
{
    u->st = st;
    if (atomic_exchange(&u->wait, CAME) != LEFT)
        return;
    u->blocking.fn = go_on_in_thread;
    if (st) /* an error needs no file */
        go_on(u);
    else
        mr_blocking_work_start(&u->blocking, u->r->step->cancel);
}

/* Call this after beginning a wait. true: it has ended, and u->st is its status. false: another thread continues
 * with u and may have freed it. */
static bool wait_ended(use *u) { return atomic_exchange(&u->wait, LEFT) == CAME; }

/* The dequeue has ended, with an item or an error. */
static void work_came(mr_run *inner, mr_status *st)
{
    if (mr_status_code(st) == MR_INVALID_ARGUMENT) { /* the queue has other elements */
        mr_status_free(st);
        st = mr_invalid("Expected queue with single string component");
    }
    wait_came((use *)inner, st);
}

static bool wait_for_work(use *u)
{
    atomic_store(&u->wait, ASKED);
    u->inner.done = work_came;
    mr_queue_dequeue((mr_queue *)mr_object_ref((mr_object *)u->q), &u->inner);
    return wait_ended(u);
}

/* Opens the work from the queue, if there is one; u->st is the error if it cannot. */
static void take_work(use *u)
{
    if (!u->st && u->out[0].kind == MR_LIVE)
        u->st = begin_work(u, u->out[0].t);
    mr_value_drop(&u->out[0]);
}

/* ---- reading ---- */

/* Reads one record into the lists; *got is false at the end of the work. */
static mr_status *read_one(use *u, bool *got)
{
    mr_reader *d = u->d;
    mr_str key = {0}, value = {0};
    bool at_end = false;
    mr_stop outer = mr_stop_swap(u->r->step->stop);
    mr_status *st = d->kind->next(&d->work, &key, &value, &at_end);
    mr_stop_swap(outer);
    *got = !st && !at_end;
    if (!*got) {
        mr_str_deinit(&key);
        mr_str_deinit(&value);
        return st;
    }
    mr_vec_push(&u->keys, key);
    mr_vec_push(&u->values, value);
    mr_lock(&d->on.mu);
    d->n_records++;
    mr_unlock(&d->on.mu);
    return NULL;
}

static mr_status *give_records(use *u)
{
    mr_tensor *keys, *values;
    int rank = u->want < 0 ? 0 : 1;
    int64_t n = u->keys.n;
    MR_TRY(mr_run_output(u->r, 0, rank, &n, &keys));
    MR_TRY(mr_run_output(u->r, 1, rank, &n, &values));
    for (int i = 0; i < u->keys.n; i++) {
        MR_TRY(mr_tensor_set_str(keys, i, mr_str_view(&u->keys.p[i])));
        MR_TRY(mr_tensor_set_str(values, i, mr_str_view(&u->values.p[i])));
    }
    return NULL;
}

/* Reads the requested records of the current work; true when that is enough, or on an error. A work of one record
 * ends with that record, not with the next read: the saved state shows the difference. */
static bool read_work(use *u, mr_status **st)
{
    int64_t want = u->want < 0 ? 1 : u->want;
    bool got = true;
    while (got && !u->d->work.done && u->keys.n < want) {
        *st = read_one(u, &got);
        if (*st)
            return true;
    }
    if (!got || u->d->work.done)
        end_work(u->d);
    return u->keys.n > 0;
}

/* With the token, or with the error of a wait: reads until there are enough records, or waits for the queue again. */
static void go_on(use *u)
{
    do {
        take_work(u);
        mr_status *st = u->st;
        if (st || (u->d->work.name && read_work(u, &st))) {
            finish_use(u, st ? st : give_records(u));
            return;
        }
    } while (wait_for_work(u));
}

static void token_came(mr_run *inner, mr_status *st)
{
    use *u = (use *)inner;
    u->has_token = !st; /* otherwise it was cancelled in line */
    if (u->now)
        finish_use(u, st ? st : u->now(u));
    else
        wait_came(u, st);
}

/* ---- starting ---- */

static use *use_new(mr_run *r, mr_reader *d)
{
    use *u = mr_new(use);
    u->node = *r->node;
    u->inner = *r;
    u->inner.node = &u->node;
    u->inner.out = u->out;
    u->inner.done = token_came;
    u->r = r;
    u->d = d;
    u->want = -1;
    return u;
}

/* Afterwards another thread may have freed u, unless the op reads and its wait_ended is true. */
static void wait_for_token(use *u)
{
    mr_reader *d = u->d;
    mr_object_ref(&d->on.base);
    mr_wait(mr_waiter_new(&d->on, &u->inner, cancelled_text), &d->line);
}

/* Input 1 becomes the first one of the inner run, where ops on queues expect it. */
static mr_status *find_queue(use *u)
{
    u->node.n_in = 1;
    u->node.in_types = u->r->node->in_types + 1;
    u->node.n_out = 1;
    u->inner.in = u->r->in + 1;
    u->inner.n_in = u->inner.n_out = 1;
    return mr_named_find(&u->inner, &mr_queue_type, (mr_object **)&u->q);
}

static void read_some(mr_run *r, int64_t want)
{
    mr_reader *d = NULL;
    mr_status *st = find_reader(r, &d);
    use *u = st ? NULL : use_new(r, d);
    if (u) {
        u->want = want;
        st = find_queue(u);
    }
    if (!st) {
        wait_for_token(u); /* u->wait is initialised to ASKED */
        if (wait_ended(u))
            go_on(u);
        return;
    }
    if (u) {
        use_free(u);
        mr_object_unref(&d->on.base);
    }
    mr_run_done(r, st);
}

static void read_record(mr_run *r) { read_some(r, -1); }

static void read_up_to(mr_run *r)
{
    int64_t n = 0;
    mr_status *st = mr_in_scalar_int(r, 2, "num_records", &n);
    if (!st && n <= 0)
        st = mr_invalid("num_records must be positive, not %lld", (long long)n);
    if (st)
        mr_run_done(r, st);
    else
        read_some(r, n);
}

/* Runs `now` when the op has the token. */
static void with_token(mr_run *r, mr_status *(*now)(use *u))
{
    mr_reader *d;
    mr_status *st = find_reader(r, &d);
    if (st) {
        mr_run_done(r, st);
        return;
    }
    use *u = use_new(r, d);
    u->now = now;
    wait_for_token(u);
}

/* ---- the ops: reading ---- */

#define NEW_FORM .flags = MR_STATEFUL | MR_NO_GRADIENT
#define OLD_FORM .flags = MR_NO_FOLD | MR_NO_GRADIENT
#define READER "r = IdentityReaderV2 shared_name=\"r\"; "
#define OLD_READER "r = IdentityReader shared_name=\"r\"; "
#define QUEUE "q = FIFOQueueV2 component_types=[string] shapes=[[]] shared_name=\"q\"; "
#define OLD_QUEUE "q = FIFOQueue component_types=[string] shapes=[[]] shared_name=\"q\"; "
#define FILLED READER QUEUE "QueueEnqueueManyV2 Tcomponents=[string]: q, ([\"a\", \"b\"]); "
#define OLD_FILLED OLD_READER OLD_QUEUE "QueueEnqueueMany Tcomponents=[string]: q, ([\"a\", \"b\"]); "
#define NONE "[\"localhost\", \"none\"]"

/* A reference to a reader or a queue is a vector of two strings, a handle a scalar. */
static mr_status *check_handles(mr_infer *c)
{
    const mr_pshape *h;
    for (int i = 0; i < c->n_in; i++) {
        bool by_ref = mr_dtype_is_ref(c->node->in_types[i]);
        if (!by_ref && mr_dtype_base(c->node->in_types[i]) != MR_RESOURCE)
            continue;
        MR_TRY(mr_infer_rank(c, c->in[i], by_ref ? 1 : 0, &h));
        if (by_ref)
            MR_TRY(mr_infer_dim_is(h->dims[0], 2));
    }
    return NULL;
}

static mr_status *infer_scalars(mr_infer *c)
{
    MR_TRY(check_handles(c));
    return mr_shape_scalar(c);
}

static mr_status *infer_vectors(mr_infer *c)
{
    const mr_pshape *ignored;
    MR_TRY(check_handles(c));
    MR_TRY(mr_infer_rank(c, c->in[2], 0, &ignored));
    mr_infer_out_vector(c, 0, -1);
    mr_infer_out_vector(c, 1, -1);
    return NULL;
}

#define READ(handle)                                                                          \
    .sig = "reader_handle: " handle ", queue_handle: " handle " -> key: string, value: string", \
    .shape = infer_scalars, .kernels = MR_KERNELS(MR_CPU_BLOCKING(read_record))
#define READ_UP_TO(handle)                                                                    \
    .sig = "reader_handle: " handle ", queue_handle: " handle ", num_records: int64 -> "      \
           "keys: string, values: string",                                                    \
    .shape = infer_vectors, .kernels = MR_KERNELS(MR_CPU_BLOCKING(read_up_to))

MR_OP(ReaderReadV2,
    .doc      = "the next record of a reader, which takes files from a queue as it needs them",
    READ("resource"), NEW_FORM,
    .examples = MR_EXAMPLES(
        FILLED ": r, q -> \"a\", \"a\"",
        FILLED "ReaderReadV2: r, q; : r, q -> \"b\", \"b\"",
        READER QUEUE "QueueCloseV2: q; : r, q -> !OUT_OF_RANGE FIFOQueue 'q' is closed and has "
                     "insufficient elements (requested 1, current size 0)",
        READER "q = FIFOQueueV2 component_types=[float] shared_name=\"q\"; "
               "QueueEnqueueV2 Tcomponents=[float]: q, (float 1); : r, q -> !INVALID_ARGUMENT "
               "Expected queue with single string component",
        READER "q = FIFOQueueV2 component_types=[string] shared_name=\"q\"; "
               "QueueEnqueueV2 Tcomponents=[string]: q, ([\"a\", \"b\"]); : r, q -> "
               "!INVALID_ARGUMENT Expected to dequeue a one-element string tensor",
        QUEUE ": q, q -> !INVALID_ARGUMENT QueueInterface"));
MR_OP(ReaderRead,
    .doc      = "the older form of ReaderReadV2",
    READ("Ref(string)"), OLD_FORM,
    .examples = MR_EXAMPLES(OLD_FILLED ": r, q -> \"a\", \"a\"",
                            NONE ", " NONE " -> !NOT_FOUND does not exist",
                            OLD_READER ": r, " NONE " -> !NOT_FOUND does not exist"));
MR_OP(ReaderReadUpToV2,
    .doc      = "up to so many records of a reader, as many as its file has",
    READ_UP_TO("resource"), NEW_FORM,
    .examples = MR_EXAMPLES(FILLED ": r, q, 5 -> [\"a\"], [\"a\"]",
                            FILLED ": r, q, 0 -> !INVALID_ARGUMENT num_records must be positive"));
MR_OP(ReaderReadUpTo,
    .doc      = "the older form of ReaderReadUpToV2",
    READ_UP_TO("Ref(string)"), OLD_FORM,
    .examples = MR_EXAMPLES(OLD_FILLED ": r, q, 5 -> [\"a\"], [\"a\"]",
                            NONE ", " NONE ", 1 -> !NOT_FOUND does not exist"));

/* ---- counters ---- */

static mr_status *count_op(mr_run *r, bool works)
{
    mr_reader *d;
    mr_tensor *out;
    MR_TRY(mr_run_output(r, 0, 0, NULL, &out));
    MR_TRY(find_reader(r, &d));
    mr_lock(&d->on.mu);
    *MR_DATA(int64_t, out) = works ? d->works_ended : d->n_records;
    mr_unlock(&d->on.mu);
    mr_object_unref(&d->on.base);
    return NULL;
}

static mr_status *n_records(mr_run *r) { return count_op(r, false); }
static mr_status *n_works(mr_run *r) { return count_op(r, true); }

#define LOOK(handle, what, kernel)                                              \
    .sig = "reader_handle: " handle " -> " what ": int64", .shape = infer_scalars, \
    .kernels = MR_KERNELS(MR_CPU_ANY(kernel))
#define READ_ONE FILLED "ReaderReadV2: r, q; "
#define OLD_READ_ONE OLD_FILLED "ReaderRead: r, q; "

MR_OP(ReaderNumRecordsProducedV2,
    .doc      = "how many records a reader has given",
    LOOK("resource", "records_produced", n_records), NEW_FORM,
    .examples = MR_EXAMPLES(READER ": r -> 0", READ_ONE ": r -> 1"));
MR_OP(ReaderNumRecordsProduced,
    .doc      = "the older form of ReaderNumRecordsProducedV2",
    LOOK("Ref(string)", "records_produced", n_records), OLD_FORM,
    .examples = MR_EXAMPLES(OLD_READ_ONE ": r -> 1", NONE " -> !NOT_FOUND does not exist"));
MR_OP(ReaderNumWorkUnitsCompletedV2,
    .doc      = "how many files a reader has finished",
    LOOK("resource", "units_completed", n_works), NEW_FORM,
    .examples = MR_EXAMPLES(READER ": r -> 0", READ_ONE ": r -> 1",
                            READ_ONE "ReaderReadV2: r, q; : r -> 2"));
MR_OP(ReaderNumWorkUnitsCompleted,
    .doc      = "the older form of ReaderNumWorkUnitsCompletedV2",
    LOOK("Ref(string)", "units_completed", n_works), OLD_FORM,
    .examples = MR_EXAMPLES(OLD_READ_ONE ": r -> 1", NONE " -> !NOT_FOUND does not exist"));

/* ---- state: ReaderBaseState { work_started, work_finished, num_records_produced, current_work } ---- */

static mr_status *reset_reader(use *u)
{
    mr_reader *d = u->d;
    work_end(&d->work);
    mr_str_clear(&d->last);
    mr_lock(&d->on.mu);
    d->n_records = d->works_begun = d->works_ended = 0;
    mr_unlock(&d->on.mu);
    return NULL;
}

static mr_status *save_reader(use *u)
{
    mr_reader *d = u->d;
    mr_tensor *out;
    mr_str s = {0};
    mr_pb_writer w;
    if (!d->kind->saves)
        return mr_error(MR_UNIMPLEMENTED, "Reader SerializeState");
    mr_pb_writer_init(&w, &s);
    mr_lock(&d->on.mu);
    mr_pb_opt_varint(&w, 1, (uint64_t)d->works_begun);
    mr_pb_opt_varint(&w, 2, (uint64_t)d->works_ended);
    mr_pb_opt_varint(&w, 3, (uint64_t)d->n_records);
    mr_unlock(&d->on.mu);
    mr_pb_opt_bytes(&w, 4, mr_str_view(&d->last));
    mr_status *st = mr_pb_writer_status(&w, "ReaderBaseState");
    if (!st)
        st = mr_run_output(u->r, 0, 0, NULL, &out);
    if (!st)
        st = mr_tensor_set_str(out, 0, mr_str_view(&s));
    mr_str_deinit(&s);
    return st;
}

/* An error that contains the state in text format. */
static mr_status *bad_state(const char *what, const char *name, const int64_t n[3], mr_sv work)
{
    static const char *const fields[] = {"work_started", "work_finished", "num_records_produced"};
    mr_str text = {0};
    for (int i = 0; i < 3; i++)
        if (n[i])
            mr_str_printf(&text, "%s: %lld\n", fields[i], (long long)n[i]);
    if (work.n) {
        mr_str_appendz(&text, "current_work: \"");
        mr_text_escape(work, &text);
        mr_str_appendz(&text, "\"\n");
    }
    mr_status *st = mr_invalid("%s when restoring in %s: %s", what, name, mr_str_z(&text));
    mr_str_deinit(&text);
    return st;
}

/* As in TensorFlow, only a state between two works can be restored. */
static mr_status *decode_state(mr_sv bytes, const char *name, int64_t n[3], mr_sv *work)
{
    mr_pb_reader r;
    uint32_t field, wire;
    n[0] = n[1] = n[2] = 0;
    *work = MR_SV("");
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire))
        if (field <= 3)
            n[field - 1] = mr_pb_int64(&r);
        else if (field == 4)
            *work = mr_pb_bytes(&r);
        else
            mr_pb_skip(&r);
    if (r.error) {
        mr_str text = {0};
        mr_text_escape(bytes, &text);
        mr_status *st = mr_invalid("Could not parse state for %s: %s", name, mr_str_z(&text));
        mr_str_deinit(&text);
        return st;
    }
    if (n[0] < 0 || n[1] < 0 || n[2] < 0)
        return bad_state("Unexpected negative value", name, n, *work);
    if (n[0] > n[1])
        return bad_state("Inconsistent work started vs. finished", name, n, *work);
    return NULL;
}

/* If the state cannot be restored, the reader is reset. */
static mr_status *restore_reader(use *u)
{
    mr_reader *d = u->d;
    mr_sv bytes = MR_SV(""), work;
    int64_t n[3];
    MR_TRY(mr_in_scalar_str(u->r, 1, "Reader state", &bytes));
    if (!d->kind->saves)
        return mr_error(MR_UNIMPLEMENTED, "Reader RestoreState");
    mr_status *st = decode_state(bytes, d->name, n, &work);
    mr_status_free(reset_reader(u));
    MR_TRY(st);
    mr_str_append(&d->last, work.p, work.n);
    mr_lock(&d->on.mu);
    d->works_begun = n[0];
    d->works_ended = n[1];
    d->n_records = n[2];
    mr_unlock(&d->on.mu);
    return NULL;
}

static void reset_op(mr_run *r) { with_token(r, reset_reader); }
static void save_op(mr_run *r) { with_token(r, save_reader); }
static void restore_op(mr_run *r) { with_token(r, restore_reader); }

static mr_status *restore_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    MR_TRY(check_handles(c));
    return mr_infer_rank(c, c->in[1], 0, &ignored);
}

#define RESET(handle)                                                                   \
    .sig = "reader_handle: " handle " ->", .shape = check_handles,                       \
    .kernels = MR_KERNELS(MR_CPU_ASYNC(reset_op))
#define SAVE(handle)                                                                    \
    .sig = "reader_handle: " handle " -> state: string", .shape = infer_scalars,        \
    .kernels = MR_KERNELS(MR_CPU_ASYNC(save_op))
#define RESTORE(handle)                                                                 \
    .sig = "reader_handle: " handle ", state: string ->", .shape = restore_shape,        \
    .kernels = MR_KERNELS(MR_CPU_BLOCKING(restore_op))
#define LINES "r = TextLineReaderV2 shared_name=\"r\"; "

MR_OP(ReaderResetV2,
    .doc      = "a reader as it was when it was made",
    RESET("resource"), NEW_FORM,
    .examples = MR_EXAMPLES(READER ": r ->"));
MR_OP(ReaderReset,
    .doc      = "the older form of ReaderResetV2",
    RESET("Ref(string)"), OLD_FORM,
    .examples = MR_EXAMPLES(OLD_READER ": r ->", NONE " -> !NOT_FOUND does not exist"));
MR_OP(ReaderSerializeStateV2,
    .doc      = "what a reader must remember, as a string",
    SAVE("resource"), NEW_FORM,
    .examples = MR_EXAMPLES(READER ": r -> \"\"",
                            READ_ONE ": r -> \"\\x08\\x01\\x10\\x01\\x18\\x01\\x22\\x01a\"",
                            LINES ": r -> !UNIMPLEMENTED Reader SerializeState"));
MR_OP(ReaderSerializeState,
    .doc      = "the older form of ReaderSerializeStateV2",
    SAVE("Ref(string)"), OLD_FORM,
    .examples = MR_EXAMPLES(OLD_READER ": r -> \"\"", NONE " -> !NOT_FOUND does not exist"));
MR_OP(ReaderRestoreStateV2,
    .doc      = "a reader as it was when it was asked for its state",
    RESTORE("resource"), NEW_FORM,
    .examples = MR_EXAMPLES(
        READER ": r, \"\\x08\\x02\\x10\\x02\\x18\\x02\" ->",
        READER ": r, \"abc\" -> !INVALID_ARGUMENT Could not parse state for IdentityReader",
        READER ": r, \"\\x08\\x02\" -> !INVALID_ARGUMENT Inconsistent work started vs. finished",
        LINES ": r, \"\" -> !UNIMPLEMENTED Reader RestoreState"));
MR_OP(ReaderRestoreState,
    .doc      = "the older form of ReaderRestoreStateV2",
    RESTORE("Ref(string)"), OLD_FORM,
    .examples = MR_EXAMPLES(OLD_READER ": r, \"\" ->", NONE ", \"\" -> !NOT_FOUND does not exist"));
