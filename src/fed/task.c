/* fed/task.c -- encodes and decodes tasks and answers.
 *
 * Both sides may be of different versions: fields that are unknown are skipped, and fields that are missing are 0.
 * Every received number is checked before it is used. */
#include "fed/task.h"

#include <math.h>

#include "wire/pb.h"

/* ---- weights ---- */

/* NULL if memory is out: the size may come from a message. */
mr_fed_weights *mr_fed_weights_new(size_t n)
{
    size_t bytes;
    if (!mr_size_mul(n, sizeof(float), &bytes) || !mr_size_add(bytes, sizeof(mr_fed_weights), &bytes))
        return NULL;
    mr_fed_weights *w = mr_try_alloc(bytes);
    if (!w)
        return NULL;
    mr_refs_init(&w->refs);
    w->n = n;
    return w;
}

/* Accepts NULL. */
mr_fed_weights *mr_fed_weights_ref(mr_fed_weights *w)
{
    if (w)
        mr_refs_take(&w->refs);
    return w;
}

void mr_fed_weights_unref(mr_fed_weights *w)
{
    if (w && mr_refs_drop(&w->refs))
        mr_free(w);
}

/* Leaves an empty task (WAIT). */
void mr_fed_task_deinit(mr_fed_task *t)
{
    mr_str_deinit(&t->ask);
    mr_fed_weights_unref(t->weights);
    *t = (mr_fed_task){0};
}

void mr_fed_answer_deinit(mr_fed_answer *a)
{
    mr_str_deinit(&a->body);
    *a = (mr_fed_answer){0};
}

/* ---- tasks ---- */

enum { KIND = 1, TICKET, STAGE, ROUND, EPOCHS, BATCH, RATE, SEED, SECURE, SUM_CLIENTS, CLIP, MOST_EXAMPLES, ASK, WEIGHTS };

/* Fields that are 0 are left out, except floats and the seed, which have a fixed size. */
static void put_config(mr_pb_writer *w, const mr_fed_config *c)
{
    mr_pb_opt_varint(w, ROUND, (uint64_t)c->round);
    mr_pb_opt_varint(w, EPOCHS, (uint64_t)c->learn.epochs);
    mr_pb_opt_varint(w, BATCH, (uint64_t)c->learn.batch);
    mr_pb_put_float(w, RATE, c->learn.rate);
    mr_pb_put_fixed64(w, SEED, c->learn.seed);
    mr_pb_opt_varint(w, SECURE, c->secure);
    mr_pb_opt_varint(w, SUM_CLIENTS, (uint64_t)c->sum_clients);
    mr_pb_put_float(w, CLIP, c->clip);
    mr_pb_opt_varint(w, MOST_EXAMPLES, (uint64_t)c->most_examples);
}

/* Releases the reference that a message holds while it is sent. */
static void drop_weights(void *owner) { mr_fed_weights_unref(owner); }

/* The weights are the last field: their header is written to the message, and the values follow as a separate
 * piece that holds a reference, without a copy. */
mr_status *mr_fed_task_encode(mr_fed_task *t, mr_bytes *out)
{
    mr_str s = {0};
    MR_ASSERT(t->kind == MR_FED_WORK || !t->weights);
    mr_pb_writer w;
    mr_pb_writer_init(&w, &s);
    mr_pb_opt_varint(&w, KIND, t->kind);
    mr_pb_opt_varint(&w, TICKET, (uint64_t)t->ticket);
    mr_pb_opt_varint(&w, STAGE, t->stage);
    if (t->kind == MR_FED_WORK)
        put_config(&w, &t->config);
    if (t->ask.n)
        mr_pb_put_bytes(&w, ASK, mr_str_view(&t->ask));
    size_t n = t->weights ? t->weights->n * sizeof(float) : 0;
    if (t->weights)
        mr_pb_put_header(&w, WEIGHTS, n);
    mr_status *st = mr_pb_writer_status(&w, "a federated task");
    if (st) {
        mr_str_deinit(&s);
        return st;
    }
    mr_bytes_add_str(out, &s);
    if (t->weights)
        mr_bytes_add(out, (mr_piece){t->weights->v, n, drop_weights, mr_fed_weights_ref(t->weights), false});
    return NULL;
}

/* Copies the values, because the message may not be aligned. */
static void take_weights(mr_pb_reader *r, mr_fed_task *t)
{
    mr_sv bytes = mr_pb_bytes(r);
    if (t->weights || bytes.n % sizeof(float)) {
        mr_pb_fail(r, "the weights occur twice, or their size is not a multiple of 4 bytes");
        return;
    }
    t->weights = mr_fed_weights_new(bytes.n / sizeof(float));
    if (!t->weights)
        mr_pb_fail(r, "out of memory for the weights");
    else if (bytes.n)
        memcpy(t->weights->v, bytes.p, bytes.n);
}

/* A repeated field replaces the earlier one. */
static void take_text(mr_pb_reader *r, mr_str *out)
{
    mr_sv bytes = mr_pb_bytes(r);
    mr_str_clear(out);
    if (!mr_str_try_append(out, bytes.p, bytes.n))
        mr_pb_fail(r, "out of memory for a message");
}

/* Reads one field of the configuration; false if it is none of them. */
static bool take_config(mr_pb_reader *r, uint32_t field, mr_fed_config *c)
{
    switch (field) {
    case ROUND: c->round = mr_pb_int64(r); break;
    case EPOCHS: c->learn.epochs = mr_pb_int64(r); break;
    case BATCH: c->learn.batch = mr_pb_int64(r); break;
    case RATE: c->learn.rate = mr_pb_float(r); break;
    case SEED: c->learn.seed = mr_pb_fixed64(r); break;
    case SECURE: c->secure = mr_pb_bool(r); break;
    case SUM_CLIENTS: c->sum_clients = mr_pb_int64(r); break;
    case CLIP: c->clip = mr_pb_float(r); break;
    case MOST_EXAMPLES: c->most_examples = mr_pb_int64(r); break;
    default: return false;
    }
    return true;
}

/* The server may be of another version or hostile, so nothing in a task is trusted. */
static mr_status *check_task(const mr_fed_task *t)
{
    const mr_fed_config *c = &t->config;
    if ((unsigned)t->kind > MR_FED_END || (unsigned)t->stage > MR_FED_UNMASK || (t->kind == MR_FED_WORK && t->stage == MR_FED_REST))
        return mr_invalid("federated: invalid task: kind %d, stage %d", (int)t->kind, (int)t->stage);
    if (t->kind != MR_FED_WORK)
        return NULL;
    if ((t->stage == MR_FED_TRAIN) != (t->weights != NULL) || (!c->secure && t->stage != MR_FED_TRAIN))
        return mr_invalid("federated: weights must come with the training stage only, not with stage %d",
                          (int)t->stage);
    if (c->learn.epochs < 0 || c->learn.epochs > 1000000 || c->learn.batch < 0 || !isfinite(c->learn.rate))
        return mr_invalid("federated: invalid training: %lld epochs of batches of %lld, or a rate that is not finite",
                          (long long)c->learn.epochs, (long long)c->learn.batch);
    return NULL;
}

/* Unknown fields are skipped. On failure *out is empty. */
mr_status *mr_fed_task_decode(mr_sv bytes, mr_fed_task *out)
{
    mr_pb_reader r;
    uint32_t field, wire;
    *out = (mr_fed_task){0};
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case KIND: out->kind = (mr_fed_kind)mr_pb_uint32(&r); break;
        case TICKET: out->ticket = mr_pb_int64(&r); break;
        case STAGE: out->stage = (mr_fed_stage)mr_pb_uint32(&r); break;
        case ASK: take_text(&r, &out->ask); break;
        case WEIGHTS: take_weights(&r, out); break;
        default:
            if (!take_config(&r, field, &out->config))
                mr_pb_skip(&r);
        }
    mr_status *st = mr_pb_reader_status(&r, "a federated task");
    if (!st)
        st = check_task(out);
    if (st)
        mr_fed_task_deinit(out);
    return st;
}

/* ---- answers ---- */

enum { NAME = 1, A_TICKET, A_STAGE, REFUSED, EXAMPLES, LOSS, BODY };

/* The loss is always written, because 0 is a valid loss. */
mr_status *mr_fed_answer_encode(mr_sv name, const mr_fed_answer *a, mr_str *out)
{
    mr_pb_writer w;
    mr_pb_writer_init(&w, out);
    mr_pb_put_bytes(&w, NAME, name);
    mr_pb_opt_varint(&w, A_TICKET, (uint64_t)a->ticket);
    mr_pb_opt_varint(&w, A_STAGE, a->stage);
    mr_pb_opt_varint(&w, REFUSED, a->refused);
    mr_pb_opt_varint(&w, EXAMPLES, (uint64_t)a->examples);
    mr_pb_put_double(&w, LOSS, a->loss);
    if (a->body.n)
        mr_pb_put_bytes(&w, BODY, mr_str_view(&a->body));
    return mr_pb_writer_status(&w, "a federated answer");
}

/* The body is checked by the coordinator, which knows the expected size. */
static mr_status *check_answer(mr_sv name, const mr_fed_answer *a)
{
    if (!name.n || name.n > MR_FED_NAME)
        return mr_invalid("federated: the name of a client has %zu bytes, expected 1 to %d", name.n, (int)MR_FED_NAME);
    if ((unsigned)a->stage > MR_FED_UNMASK || a->examples < 0)
        return mr_invalid("federated: invalid answer: stage %d, %lld examples", (int)a->stage, (long long)a->examples);
    return NULL;
}

/* *name is a view into the bytes. On failure *out is empty. */
mr_status *mr_fed_answer_decode(mr_sv bytes, mr_sv *name, mr_fed_answer *out)
{
    mr_pb_reader r;
    uint32_t field, wire;
    *out = (mr_fed_answer){0};
    *name = (mr_sv){0};
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case NAME: *name = mr_pb_bytes(&r); break;
        case A_TICKET: out->ticket = mr_pb_int64(&r); break;
        case A_STAGE: out->stage = (mr_fed_stage)mr_pb_uint32(&r); break;
        case REFUSED: out->refused = mr_pb_bool(&r); break;
        case EXAMPLES: out->examples = mr_pb_int64(&r); break;
        case LOSS: out->loss = mr_pb_double(&r); break;
        case BODY: take_text(&r, &out->body); break;
        default: mr_pb_skip(&r);
        }
    mr_status *st = mr_pb_reader_status(&r, "a federated answer");
    if (!st)
        st = check_answer(*name, out);
    if (st)
        mr_fed_answer_deinit(out);
    return st;
}
