/* ps/client_ask.c -- questions to the manager that a caller waits for: tables, lost ranges,
 * iterations, workers.
 *
 * A question goes through the client's thread. It is repeated until its time is over, while there
 * is no manager, or one that does not know this client yet. So every method must give the same
 * answer when it is asked twice. */
#include "ps/client_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "ps/graph_update.h"

#define MS INT64_C(1000000)
#define WORKERS_NS (1000 * MS)         /* short: it only serves a log line about another wait */
#define ITERATION_NS (600 * 1000 * MS) /* long: other workers may be slow. Dead ones are not waited for */

enum { MAX_ROWS = 1024 };

/* ---- questions ---- */

typedef struct question { /* owned by ask_once, which waits for `done` */
    mr_ps_ask ask; /* first */
    mr_ps_note note;
    mr_ps *ps;
    const char *method;
    mr_bytes body;
    int64_t until_ns;
    bool done; /* under the client's lock */
} question;

/* On the client's thread. The question belongs to ask_once again as soon as `done` is set. */
static void on_answered(void *owner, mr_ps_ask *a)
{
    mr_ps *ps = owner;
    mr_lock(&ps->mu);
    ((question *)a)->done = true;
    mr_cond_broadcast(&ps->changed);
    mr_unlock(&ps->mu);
}

/* On the client's thread, which owns the routes. */
static void start_question(void *owner, mr_ps_note *n)
{
    mr_ps *ps = owner;
    question *q = (question *)((char *)n - offsetof(question, note));
    mr_ps_ask_start(&ps->routes, &q->ask, MR_PS_TO_MANAGER, ps->link.manager, q->method, &q->body, q->until_ns);
}

static void tell_slow_worker(mr_ps *ps, double seconds);

/* Logs why the manager has not answered yet. Called without the lock, because it may ask the
 * manager. */
static void tell_wait(mr_ps *ps, const char *method, double seconds)
{
    if (strcmp(method, MR_PS_MANAGER_SERVICE "Iterate") == 0)
        tell_slow_worker(ps, seconds);
    else
        mr_info("Still waiting for the parameter manager at %s: it has not answered %s (%.0f s)", ps->link.manager,
                method, seconds);
}

/* Asks once and waits for the answer or an error. `wait` spans all repetitions of the question, so
 * that its log lines show the whole time. reply may be NULL. */
static mr_status *ask_once(mr_ps *ps, const char *method, const mr_str *head, int64_t until_ns, mr_long_wait *wait,
                           mr_bytes *reply)
{
    MR_ASSERT(head->n > sizeof(uint32_t) && wait->begun_ns);
    question *q = mr_new(question);
    q->ps = ps;
    q->method = method;
    q->until_ns = until_ns;
    q->ask.answered = on_answered;
    if (!mr_bytes_add_copy(&q->body, head->p, head->n)) {
        mr_free(q);
        return mr_error(MR_RESOURCE_EXHAUSTED, "No memory to ask the parameter manager (%s)", method);
    }
    mr_ps_inbox_put(&ps->inbox, &q->note, start_question);
    mr_lock(&ps->mu);
    while (!q->done) {
        double seconds;
        if (mr_cond_wait_until(&ps->changed, &ps->mu, wait->next_ns) ||
            !mr_long_wait_due(wait, mr_now_ns(), &seconds))
            continue;
        /* The question stays valid: only this function frees it. */
        mr_unlock(&ps->mu);
        tell_wait(ps, method, seconds);
        mr_lock(&ps->mu);
    }
    mr_unlock(&ps->mu);
    mr_status *st = q->ask.st;
    if (!st && reply) {
        *reply = q->ask.reply;
        q->ask.reply = (mr_bytes){0};
    }
    q->ask.st = NULL;
    mr_ps_ask_deinit(&q->ask);
    mr_free(q);
    return st;
}

/* Repeats the question every 20 ms while the error may pass. If the manager has refused this
 * client, its reason is the result, rather than the error that followed from it. */
mr_status *mr_ps_ask_manager(mr_ps *ps, const char *method, mr_pb_writer *w, mr_str *head, int64_t timeout_ns,
                             mr_bytes *reply)
{
    int64_t until = mr_now_ns() + timeout_ns;
    double seconds;
    mr_long_wait wait;
    mr_long_wait_begin(&wait, mr_now_ns());
    mr_status *st = mr_pb_writer_status(w, method);
    /* The size of the head, as mr_ps_head_end writes it; the head itself is kept for repetitions. */
    if (!st) {
        uint32_t n = (uint32_t)(head->n - sizeof n);
        memcpy(head->p, &n, sizeof n);
    }
    for (bool again = !st; again;) {
        st = ask_once(ps, method, head, until, &wait, reply);
        mr_code code = mr_status_code(st);
        mr_lock(&ps->mu);
        again =
            (code == MR_UNAVAILABLE || code == MR_NOT_FOUND || code == MR_CANCELLED || code == MR_ABORTED) &&
            !ps->refused && mr_now_ns() < until;
        mr_unlock(&ps->mu);
        if (again) {
            if (mr_long_wait_due(&wait, mr_now_ns(), &seconds))
                mr_info("Still waiting for the parameter manager at %s: %s (%.0f s)", ps->link.manager,
                        mr_status_message(st), seconds);
            mr_status_free(st);
            st = NULL;
            mr_sleep_ns(20 * MS);
        }
    }
    mr_str_deinit(head);
    mr_lock(&ps->mu);
    if (st && ps->refused) {
        mr_status_free(st);
        st = mr_status_copy(ps->refused);
    }
    mr_unlock(&ps->mu);
    return st;
}

void mr_ps_question_begin(mr_ps *ps, mr_pb_writer *w, mr_str *head)
{
    mr_ps_head_begin(w, head);
    mr_pb_put_fixed64(w, 1, ps->id);
}

/* Reads an answer that is one number, in field 1. */
static mr_status *read_number(const mr_bytes *reply, uint64_t *out)
{
    mr_ps_frame f;
    mr_pb_reader r;
    uint32_t field, wire;
    mr_status *st = mr_ps_frame_open(reply, &f);
    *out = 0;
    mr_pb_reader_init(&r, f.head);
    while (!st && mr_pb_next(&r, &field, &wire))
        if (field == 1)
            *out = mr_pb_varint(&r);
        else
            mr_pb_skip(&r);
    if (!st)
        st = mr_pb_reader_status(&r, "an answer of the manager");
    mr_ps_frame_deinit(&f);
    return st;
}

/* ---- tables ---- */

/* The table stays valid after the lock is released: entries of table_at never change. */
const mr_ps_table_spec *mr_ps_find_table(mr_ps *ps, int table, mr_status **st)
{
    mr_lock(&ps->mu);
    const mr_ps_table_spec *t = table >= 0 && table < ps->n_tables ? ps->table_at[table] : NULL;
    mr_unlock(&ps->mu);
    if (!t)
        *st = mr_invalid("There is no table %d", table);
    return t;
}

/* The manager has created the table; it also has to reach this client through its Watch. */
static mr_status *wait_for_table(mr_ps *ps, int table)
{
    bool in_time = true;
    int64_t until = mr_now_ns() + ps->timeout_ns;
    mr_long_wait wait;
    mr_long_wait_begin(&wait, mr_now_ns());
    mr_lock(&ps->mu);
    while (ps->n_tables <= table && !ps->refused && in_time)
        in_time = mr_long_wait_cond(&wait, &ps->changed, &ps->mu, until,
                                    "the parameter manager at %s: it has not sent table %d", ps->link.manager, table);
    mr_status *st = ps->refused ? mr_status_copy(ps->refused) : NULL;
    mr_unlock(&ps->mu);
    return st || in_time ? st
                         : mr_error(MR_DEADLINE_EXCEEDED, "The parameter manager at %s has not sent table %d in time",
                                    ps->link.manager, table);
}

/* Errors of an update graph are reported when the table is made, rather than at every push. */
static mr_status *check_graph(const mr_ps_table_spec *t)
{
    mr_ps_graph_update *g = NULL;
    mr_status *st = t->o.update == MR_PS_GRAPH ? mr_ps_graph_update_new(t, &g) : NULL;
    mr_ps_graph_update_free(g);
    return mr_status_prepend(st, "Table '%s': ", t->name);
}

/* Creates the table, or finds one of the same name and options; returns when this client knows it. */
mr_status *mr_ps_make_table(mr_ps *ps, mr_sv name, const mr_ps_table_options *o, int *out)
{
    mr_pb_writer w;
    mr_str head = {0};
    mr_bytes reply = {0};
    mr_ps_table_spec t;
    uint64_t number = 0;
    MR_TRY(mr_ps_table_spec_init(&t, name, o));
    mr_status *st = check_graph(&t);
    if (st) {
        mr_ps_table_spec_deinit(&t);
        return st;
    }
    mr_ps_question_begin(ps, &w, &head);
    size_t mark = mr_pb_begin(&w, 15);
    mr_ps_table_spec_put(&w, &t);
    mr_pb_end(&w, mark);
    mr_ps_table_spec_deinit(&t);
    st = mr_ps_ask_manager(ps, MR_PS_MANAGER_SERVICE "Table", &w, &head, ps->timeout_ns, &reply);
    if (!st)
        st = read_number(&reply, &number);
    mr_bytes_deinit(&reply);
    if (!st && number >= MR_PS_MAX_TABLES)
        st = mr_error(MR_INTERNAL, "The parameter manager gave a table the number %llu, at most %d are possible",
                      (unsigned long long)number, MR_PS_MAX_TABLES);
    if (!st)
        st = wait_for_table(ps, (int)number);
    *out = st ? -1 : (int)number;
    return st;
}

int mr_ps_n_tables(mr_ps *ps)
{
    mr_lock(&ps->mu);
    int n = ps->n_tables;
    mr_unlock(&ps->mu);
    return n;
}

const mr_ps_table_spec *mr_ps_table_at(mr_ps *ps, int table)
{
    mr_status *st = NULL;
    const mr_ps_table_spec *t = mr_ps_find_table(ps, table, &st);
    mr_status_free(st);
    return t;
}

int mr_ps_n_ranges(mr_ps *ps)
{
    mr_lock(&ps->mu);
    int n = ps->n_ranges;
    mr_unlock(&ps->mu);
    return n;
}

/* ---- lost ranges ---- */

/* Returns when this client has the view that says where the lost ranges are now. */
mr_status *mr_ps_renew(mr_ps *ps)
{
    mr_pb_writer w;
    mr_str head = {0};
    mr_bytes reply = {0};
    uint64_t epoch = 0;
    bool in_time = true;
    mr_ps_question_begin(ps, &w, &head);
    mr_status *st = mr_ps_ask_manager(ps, MR_PS_MANAGER_SERVICE "Restore", &w, &head, ps->timeout_ns, &reply);
    if (!st)
        st = read_number(&reply, &epoch);
    mr_bytes_deinit(&reply);
    int64_t until = mr_now_ns() + ps->timeout_ns;
    mr_long_wait wait;
    mr_long_wait_begin(&wait, mr_now_ns());
    mr_lock(&ps->mu);
    while (!st && (uint64_t)ps->stats.epoch < epoch && !ps->refused && in_time)
        in_time = mr_long_wait_cond(&wait, &ps->changed, &ps->mu, until,
                                    "the parameter manager at %s: it has not sent where lost ranges are now",
                                    ps->link.manager);
    if (!st)
        st = mr_status_copy(ps->refused);
    mr_unlock(&ps->mu);
    return st || in_time
               ? st
               : mr_error(MR_DEADLINE_EXCEEDED, "The parameter manager at %s has not sent where lost ranges are now",
                          ps->link.manager);
}

/* ---- iterations ---- */

/* Ends all tasks of the present iteration, then waits until the manager lets the next one begin.
 * Observers do not wait. After an error the iteration has not begun, and the next call asks for it
 * again. */
mr_status *mr_ps_next_iteration(mr_ps *ps, int64_t *out)
{
    mr_pb_writer w;
    mr_str head = {0};
    MR_TRY(mr_ps_end_all(ps));
    mr_lock(&ps->mu);
    int64_t n = ++ps->iteration;
    mr_unlock(&ps->mu);
    *out = n;
    if (ps->o.observer)
        return NULL;
    mr_ps_question_begin(ps, &w, &head);
    mr_pb_put_varint(&w, 9, (uint64_t)n);
    int64_t from = mr_now_ns();
    mr_status *st = mr_ps_ask_manager(ps, MR_PS_MANAGER_SERVICE "Iterate", &w, &head, ITERATION_NS, NULL);
    mr_lock(&ps->mu);
    ps->stats.waited_s += (double)(mr_now_ns() - from) / 1e9;
    if (st && ps->iteration == n)
        ps->iteration--;
    mr_unlock(&ps->mu);
    return st;
}

/* ---- workers ---- */

/* A name that is too long is cut; out is zeroed, so it ends with a NUL. */
static void read_worker(mr_pb_reader *r, mr_ps_worker_stats *out)
{
    uint32_t field, wire;
    mr_sv name = MR_SV("");
    while (mr_pb_next(r, &field, &wire))
        switch (field) {
        case 1: name = mr_pb_bytes(r); break;
        case 2: out->iteration = mr_pb_int64(r); break;
        case 3: out->waited_s = (double)mr_pb_int64(r) / 1e9; break;
        default: mr_pb_skip(r);
        }
    memcpy(out->name, name.p, MR_MIN(name.n, sizeof out->name - 1));
}

/* Appends up to max rows. Also notes whether the manager has anything to move (ps->quiet). */
static mr_status *read_workers(mr_ps *ps, const mr_bytes *reply, mr_ps_worker_stats *rows, int max, int *n)
{
    mr_ps_frame f;
    mr_pb_reader r, sub;
    uint32_t field, wire;
    mr_status *st = mr_ps_frame_open(reply, &f);
    mr_lock(&ps->mu);
    ps->quiet = false; /* a missing field means false */
    mr_unlock(&ps->mu);
    mr_pb_reader_init(&r, f.head);
    while (!st && mr_pb_next(&r, &field, &wire)) {
        if (field == 1 && *n < max && mr_pb_message(&r, &sub)) {
            rows[*n] = (mr_ps_worker_stats){0};
            read_worker(&sub, &rows[(*n)++]);
        } else if (field == 3) {
            mr_lock(&ps->mu);
            ps->quiet = mr_pb_bool(&r);
            mr_unlock(&ps->mu);
        } else {
            mr_pb_skip(&r);
        }
    }
    if (!st)
        st = mr_pb_reader_status(&r, "Workers");
    mr_ps_frame_deinit(&f);
    return st;
}

/* Asks the manager for the workers: at most max rows, *n of them are filled in. */
static mr_status *ask_for_workers(mr_ps *ps, int64_t timeout_ns, mr_ps_worker_stats *rows, int max, int *n)
{
    mr_pb_writer w;
    mr_str head = {0};
    mr_bytes reply = {0};
    *n = 0;
    mr_ps_question_begin(ps, &w, &head);
    mr_status *st = mr_ps_ask_manager(ps, MR_PS_MANAGER_SERVICE "Workers", &w, &head, timeout_ns, &reply);
    if (!st)
        st = read_workers(ps, &reply, rows, max, n);
    mr_bytes_deinit(&reply);
    return st;
}

mr_status *mr_ps_waits(mr_ps *ps, mr_ps_worker_stats *rows, int max, int *n)
{
    *n = 0;
    if (max < 0 || (max > 0 && !rows))
        return mr_invalid("max is %d, and rows is %s", max, rows ? "set" : "NULL");
    return ask_for_workers(ps, ps->timeout_ns, rows, max, n);
}

/* An iteration begins when all workers are close enough to it. Logs which one is furthest behind,
 * according to the manager, or that the manager does not answer. */
static void tell_slow_worker(mr_ps *ps, double seconds)
{
    int n, slow = -1;
    mr_ps_worker_stats *rows = mr_new_array(mr_ps_worker_stats, MAX_ROWS);
    mr_status *st = ask_for_workers(ps, WORKERS_NS, rows, MAX_ROWS, &n);
    for (int i = 0; i < n; i++)
        if (strcmp(rows[i].name, ps->name) != 0 && (slow < 0 || rows[i].iteration < rows[slow].iteration))
            slow = i;
    mr_lock(&ps->mu);
    long long own = (long long)ps->iteration, delay = (long long)ps->delay_now;
    mr_unlock(&ps->mu);
    if (!st && slow >= 0)
        mr_info("Still waiting for worker '%s': it is at iteration %lld, and iteration %lld is too far ahead of it "
                "(delay %lld) (%.0f s)",
                rows[slow].name, (long long)rows[slow].iteration, own, delay, seconds);
    else
        mr_info("Still waiting for the parameter manager at %s: %s (%.0f s)", ps->link.manager,
                st ? mr_status_message(st) : "it has not let the next iteration begin", seconds);
    mr_status_free(st);
    mr_free(rows);
}

/* The answer to Workers carries it, so no rows are asked for. */
mr_status *mr_ps_is_quiet(mr_ps *ps, bool *out)
{
    int n;
    MR_TRY(mr_ps_waits(ps, NULL, 0, &n));
    mr_lock(&ps->mu);
    *out = ps->quiet;
    mr_unlock(&ps->mu);
    return NULL;
}
