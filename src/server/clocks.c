/* server/clocks.c -- how far the clocks of other tasks are from this one's.
 *
 * A measurement asks each task several questions, one after the other; the chains of all tasks run at
 * once. A chain ends with its last question or the first one that failed. n_left counts the chains and
 * the function that starts them; the last one calls back and frees the measurement.
 *
 *     our clock     asked ---------------------------> heard
 *                        \                            /
 *     task's clock        ---> received ------> sent --
 *
 *     offset = ((received - asked) + (sent - heard)) / 2
 *     error  = ((received - asked) - (sent - heard)) / 2
 *
 * The error is half of the time on the way, so of several answers the one with the smallest error is kept. */
#include "server/clocks.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "exec/trace.h"
#include "server/host.h"

enum { QUESTIONS = 6 };
#define QUESTION_NS INT64_C(1000000000) /* a slower answer would say little about the clock */

typedef struct measurement measurement;

/* The questions to one task; the request is reused. */
typedef struct chain {
    mr_net_request request; /* first */
    measurement *all;
    int task, n_asked;
    int64_t asked_ns;
    mr_clock_reading *out;
} chain;

/* One measurement of several tasks; owned by its chains (n_left). */
struct measurement {
    mr_task_peers *peers;
    int64_t skew_ns;
    void (*fn)(void *arg);
    void *arg;
    _Atomic int n_left;
    chain *chains;
};

/* ---- arithmetic ---- */

/* Times come from another process and may be anything. Differences are computed with 128 bits and
 * limited to about 73 years, so nothing overflows later. */
static int64_t limit_ns(__int128 v)
{
    return v > INT64_MAX / 4 ? INT64_MAX / 4 : v < -INT64_MAX / 4 ? -INT64_MAX / 4 : (int64_t)v;
}

/* As in NTP: if both directions took equally long, the task's clock is ahead by the mean of the two differences; the
 * error is at most half of the time that was spent on the way. Times that contradict each other give no reading. */
mr_clock_reading mr_clock_judge(int64_t asked_ns, int64_t received_ns, int64_t sent_ns, int64_t heard_ns)
{
    __int128 there = (__int128)received_ns - asked_ns, back = (__int128)sent_ns - heard_ns;
    __int128 way = there - back; /* both directions together, without the time that the task needed */
    if (way < 0 || sent_ns < received_ns || heard_ns < asked_ns)
        return (mr_clock_reading){.known = false};
    return (mr_clock_reading){true, limit_ns((there + back) / 2), limit_ns(way / 2)};
}

/* The task's first and last times take the place of its two times in a question: both happened between asked_ns and
 * heard_ns. */
mr_clock_reading mr_clock_within(int64_t asked_ns, int64_t first_ns, int64_t last_ns, int64_t heard_ns)
{
    return mr_clock_judge(asked_ns, first_ns, last_ns, heard_ns);
}

/* The name "/job:worker/replica:0/task:1" is written "worker:1" in the list. */
int64_t mr_clock_skew_ns(const char *name)
{
    const char *list = getenv("MILLRACE_CLOCK_SKEW");
    mr_sv rest = mr_sv_of(list), part;
    if (!list)
        return 0;
    while (mr_sv_cut(&rest, ',', &part)) {
        mr_sv value = part, task, job;
        int64_t ms;
        if (!mr_sv_cut(&value, '=', &task) || !value.p || !mr_sv_to_i64(value, &ms) ||
            !mr_sv_cut(&task, ':', &job) || !task.p)
            continue;
        char *full = mr_printf("/job:%.*s/replica:0/task:%.*s", MR_SV_ARG(job), MR_SV_ARG(task));
        bool ours = strcmp(full, name) == 0;
        mr_free(full);
        if (ours)
            return MR_MAX(MR_MIN(ms, INT32_MAX), -INT32_MAX) * 1000000;
    }
    return 0;
}

/* ---- asking ---- */

/* A chain has ended. The last one calls back first, because the readings belong to the caller. */
static void one_less_chain(measurement *m)
{
    MR_ASSERT(atomic_load_explicit(&m->n_left, memory_order_relaxed) > 0);
    if (atomic_fetch_sub_explicit(&m->n_left, 1, memory_order_acq_rel) != 1)
        return;
    m->fn(m->arg);
    mr_task_peers_unref(m->peers);
    mr_free(m->chains);
    mr_free(m);
}

static void clock_heard(mr_net_request *r, mr_status *st, mr_bytes *reply);

/* Sends the next question. The time is taken last, right before it is sent. */
static void ask_clock(chain *c)
{
    mr_str body = {0};
    mr_pb_writer w;
    MR_ASSERT(c->n_asked < QUESTIONS);
    mr_pb_writer_init(&w, &body);
    mr_pb_put_varint(&w, MR_CLOCK_FIELD, 1);
    c->request = (mr_net_request){
        .method = MR_WORKER_SERVICE "GetStatus", .deadline_ns = mr_now_ns() + QUESTION_NS, .done = clock_heard};
    mr_bytes_add_str(&c->request.body, &body);
    c->n_asked++;
    c->asked_ns = mr_trace_clock_ns() + c->all->skew_ns;
    mr_task_peers_ask(c->all->peers, c->task, &c->request);
}

/* Keeps the reading if it is better than the best one so far. False: the answer has no times, so the
 * task does not know the question, and is not asked again. */
static bool judge_reply(chain *c, mr_sv reply, int64_t heard_ns)
{
    mr_pb_reader r, times;
    uint32_t field, wire;
    int64_t received = 0, sent = 0;
    mr_pb_reader_init(&r, reply);
    while (mr_pb_next(&r, &field, &wire)) {
        if (field != MR_CLOCK_FIELD || !mr_pb_message(&r, &times)) {
            mr_pb_skip(&r);
            continue;
        }
        while (mr_pb_next(&times, &field, &wire))
            switch (field) {
            case MR_CLOCK_RECEIVED: received = mr_pb_int64(&times); break;
            case MR_CLOCK_SENT: sent = mr_pb_int64(&times); break;
            default: mr_pb_skip(&times);
            }
    }
    if (!received || !sent)
        return false;
    /* Times that contradict each other are ignored; the next question may be answered better. */
    mr_clock_reading v = mr_clock_judge(c->asked_ns, received, sent, heard_ns);
    if (v.known && (!c->out->known || v.error_ns < c->out->error_ns))
        *c->out = v;
    return true;
}

/* An answer has arrived. The time is taken first. */
static void clock_heard(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    chain *c = (chain *)r;
    int64_t now = mr_trace_clock_ns() + c->all->skew_ns;
    mr_sv bytes;
    if (!st)
        st = mr_bytes_flat(reply, &bytes);
    bool more = !st && judge_reply(c, bytes, now) && c->n_asked < QUESTIONS;
    mr_status_free(st);
    if (more)
        ask_clock(c);
    else
        one_less_chain(c->all);
}

/* The chains of all tasks are started at once, and run in the callbacks of their answers. fn may be called before this
 * returns. This task's own clock needs no question: its offset is 0. */
void mr_clocks_measure(mr_task_peers *p, const int *tasks, int n, int64_t skew_ns, mr_clock_reading *out,
                       void (*fn)(void *arg), void *arg)
{
    measurement *m = mr_new(measurement);
    *m = (measurement){.peers = mr_task_peers_ref(p), .skew_ns = skew_ns, .fn = fn, .arg = arg};
    m->chains = mr_new_array(chain, n + 1);
    atomic_init(&m->n_left, n + 1); /* 1: this function */
    for (int i = 0; i < n; i++) {
        /* Unknown until the first good answer; this task's own offset is 0, and known. */
        out[i] = (mr_clock_reading){.known = tasks[i] == p->self};
        m->chains[i] = (chain){.all = m, .task = tasks[i], .out = &out[i]};
        if (tasks[i] == p->self)
            one_less_chain(m);
        else
            ask_clock(&m->chains[i]);
    }
    one_less_chain(m);
}

/* ---- answering ---- */

/* A request that cannot be parsed does not ask for the clock. */
bool mr_clock_is_asked(mr_sv request)
{
    mr_pb_reader r;
    uint32_t field, wire;
    bool asked = false;
    mr_pb_reader_init(&r, request);
    while (mr_pb_next(&r, &field, &wire))
        if (field == MR_CLOCK_FIELD)
            asked = mr_pb_bool(&r);
        else
            mr_pb_skip(&r);
    return asked;
}

/* The time of sending is read here, as late as possible. */
void mr_clock_answer(int64_t received_ns, int64_t skew_ns, mr_pb_writer *w)
{
    size_t mark = mr_pb_begin(w, MR_CLOCK_FIELD);
    mr_pb_put_varint(w, MR_CLOCK_RECEIVED, (uint64_t)(received_ns + skew_ns));
    mr_pb_put_varint(w, MR_CLOCK_SENT, (uint64_t)(mr_trace_clock_ns() + skew_ns));
    mr_pb_end(w, mark);
}
