/* server/collective_steps.c -- ids of steps that several masters run together: GetStepSequence.
 *
 * Masters whose clients run the same graph with the same key
 * (RunOptions.experimental.collective_graph_key) give its steps the same ids, because TensorFlow
 * identifies the buffers of collectives by them. The leader invents the first id of a key. Each task asks
 * once, counts by itself, and asks again when it has lost count.
 *
 *     master of worker 0                  leader               master of worker 1
 *     GetStepSequence(key 7) ----------> 7: id 500 <---------- GetStepSequence(key 7)
 *     step 500, then 501, 502, ...                             step 500, then 501, 502, ...
 *
 * The leader keeps the id it has given out. If it is itself one of the masters, it counts like the
 * others. */
#include "base/clock.h"
#include "base/memory.h"
#include "dist/recent.h"
#include "server/collective_internal.h"

enum { MAX_KEYS = 65536 };
#define ID_MASK ((INT64_C(1) << 56) - 1)
#define PATIENCE_NS (10 * INT64_C(1000000000))

/* Keys are chosen by clients; mixing spreads them over the table. */
static uint64_t mixed_key(int64_t key) { return mr_id_mixed((uint64_t)key); }

/* The id of the key's next step; 0: not known. */
static int64_t next_locked(const mr_collectives *c, int64_t key) MR_REQUIRES(c->mu);
static int64_t next_locked(const mr_collectives *c, int64_t key)
{
    const int64_t *id = mr_imap_get(&c->steps, mixed_key(key));
    return id ? *id : 0;
}

/* Sets the id of the key's next step. The number of keys is limited, since clients choose them. */
static mr_status *set_locked(mr_collectives *c, int64_t key, int64_t id) MR_REQUIRES(c->mu);
static mr_status *set_locked(mr_collectives *c, int64_t key, int64_t id)
{
    MR_ASSERT(id > 0);
    int64_t *at = mr_imap_get(&c->steps, mixed_key(key));
    if (!at) {
        if (c->steps.n >= MAX_KEYS)
            return mr_error(MR_RESOURCE_EXHAUSTED, "There are already %d collective_graph_keys, the maximum", MAX_KEYS);
        at = mr_new(int64_t);
        mr_imap_put(&c->steps, mixed_key(key), at);
    }
    *at = id;
    return NULL;
}

/* Called when the task's collectives are freed. */
void mr_collectives_forget_steps(mr_collectives *c)
{
    uint32_t pos = 0;
    uint64_t key;
    void *v;
    while (mr_imap_next(&c->steps, &pos, &key, &v))
        mr_free(v);
    mr_imap_deinit(&c->steps);
}

/* ---- the leader ---- */

/* Adds the next id of a key to the answer; a new key gets a random id. */
static mr_status *answer_key(mr_collectives *c, int64_t key, mr_pb_writer *w)
{
    mr_status *st = NULL;
    mr_lock(&c->mu);
    int64_t id = next_locked(c, key);
    if (!id) {
        id = (mr_step_id_new() & ID_MASK) | 1;
        st = set_locked(c, key, id);
    }
    mr_unlock(&c->mu);
    size_t mark = mr_pb_begin(w, 1); /* StepSequence */
    mr_pb_put_varint(w, 1, (uint64_t)key);
    mr_pb_put_varint(w, 2, (uint64_t)id);
    mr_pb_end(w, mark);
    return st;
}

/* Parses the request's keys, which are packed or single, and answers each. */
static mr_status *answer_all(mr_collectives *c, mr_sv body, mr_pb_writer *w)
{
    mr_pb_reader r, packed;
    uint32_t field, wire;
    mr_status *st = NULL;
    mr_pb_reader_init(&r, body);
    while (!st && mr_pb_next(&r, &field, &wire)) {
        if (field != 1) {
            mr_pb_skip(&r);
        } else if (wire == MR_WIRE_VARINT) {
            int64_t key = mr_pb_int64(&r);
            st = answer_key(c, key, w);
        } else if (mr_pb_message(&r, &packed)) {
            while (!st && mr_pb_more(&packed) && !packed.error) {
                int64_t key = (int64_t)mr_pb_raw_varint(&packed);
                st = packed.error ? NULL : answer_key(c, key, w);
            }
            mr_status_update(&st, mr_pb_reader_status(&packed, "GetStepSequenceRequest"));
        }
    }
    mr_status_update(&st, mr_pb_reader_status(&r, "GetStepSequenceRequest"));
    return st;
}

/* Handles GetStepSequence, as the leader. */
void mr_collectives_get_step_sequence(mr_collectives *c, mr_net_call *call, mr_sv body)
{
    mr_str reply = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &reply);
    mr_status *st = answer_all(c, body, &w);
    mr_status_update(&st, mr_pb_writer_status(&w, "GetStepSequenceResponse"));
    mr_reply_str(call, st, &reply);
    mr_str_deinit(&reply);
}

/* ---- a task that asks ---- */

/* A GetStepSequence under way; owned by itself until it is done. */
typedef struct question {
    mr_net_request request; /* first */
    mr_collectives *all;
    int64_t key;
    void (*done)(void *ctx, mr_status *st, int64_t id);
    void *ctx;
} question;

/* Finds the id of our key in the leader's answer. */
static mr_status *read_sequence(mr_bytes *reply, int64_t key, int64_t *id)
{
    mr_pb_reader r, one;
    uint32_t field, wire;
    mr_sv body;
    MR_TRY(mr_bytes_flat(reply, &body));
    mr_pb_reader_init(&r, body);
    while (mr_pb_next(&r, &field, &wire)) {
        int64_t v[3] = {0};
        if (field != 1 || !mr_pb_message(&r, &one)) {
            if (field != 1)
                mr_pb_skip(&r);
            continue;
        }
        while (mr_pb_next(&one, &field, &wire))
            if (field == 1 || field == 2)
                v[field] = mr_pb_int64(&one);
            else
                mr_pb_skip(&one);
        MR_TRY(mr_pb_reader_status(&one, "StepSequence"));
        *id = v[1] == key ? v[2] : *id;
    }
    MR_TRY(mr_pb_reader_status(&r, "GetStepSequenceResponse"));
    return *id > 0 ? NULL
                   : mr_error(MR_INTERNAL, "The group leader returned no step id for collective_graph_key %lld",
                              (long long)key);
}

/* The leader has answered. The question is freed before `done` is called, which may end the step. */
static void sequence_told(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    question *q = (question *)r;
    int64_t id = 0;
    if (!st)
        st = read_sequence(reply, q->key, &id);
    if (!st) {
        mr_lock(&q->all->mu);
        st = set_locked(q->all, q->key, id);
        mr_unlock(&q->all->mu);
    }
    void (*done)(void *ctx, mr_status *st, int64_t id) = q->done;
    void *ctx = q->ctx;
    mr_free(q);
    done(ctx, st, id);
}

/* done is called exactly once, maybe in here. */
void mr_collectives_next_step(mr_collectives *c, int64_t graph_key,
                              void (*done)(void *ctx, mr_status *st, int64_t id), void *ctx)
{
    mr_task_peers *p = c->worker->host->peers;
    mr_str body = {0};
    mr_pb_writer w;
    mr_lock(&c->mu);
    int64_t id = next_locked(c, graph_key);
    mr_unlock(&c->mu);
    if (id) {
        done(ctx, NULL, id);
        return;
    }
    question *q = mr_new(question);
    *q = (question){.all = c, .key = graph_key, .done = done, .ctx = ctx};
    q->request = (mr_net_request){.method = MR_WORKER_SERVICE "GetStepSequence",
                                  .done = sequence_told,
                                  .wait_for_ready = true,
                                  .deadline_ns = mr_now_ns() + PATIENCE_NS};
    mr_pb_writer_init(&w, &body);
    mr_pb_put_varint(&w, 1, (uint64_t)graph_key);
    mr_bytes_add_str(&q->request.body, &body);
    mr_task_peers_ask(p, mr_collectives_leader_of(c, p, NULL), &q->request);
}

/* The step has ended: the next id follows. If the id is not the expected one, this task has lost
 * count, and the key is forgotten, so that the next step asks the leader. */
void mr_collectives_retire_step(mr_collectives *c, int64_t graph_key, int64_t id)
{
    mr_lock(&c->mu);
    int64_t *at = mr_imap_get(&c->steps, mixed_key(graph_key));
    MR_ASSERT(!at || *at > 0);
    if (at && *at == id) {
        *at = ((id + 1) & ID_MASK) ? (id + 1) & ID_MASK : 1;
    } else if (at) {
        mr_imap_remove(&c->steps, mixed_key(graph_key));
        mr_free(at);
    }
    mr_unlock(&c->mu);
}
