/* server/transfers.c -- which tensors came from other tasks, and how long that took (the Logging
 * method).
 *
 * Recording is off unless a client turns it on; then the newest MR_TRANSFERS_KEPT transfers are kept
 * until they are asked for. Each step is returned once, as LabeledStepStats:
 *
 *     step_id, DeviceStepStats per receiving device, NodeExecStats "RecvTensor" per tensor
 *
 * The list is in the order of arrival. It is short and read rarely, so steps are found by searching it. */
#include "server/transfers.h"

#include "base/clock.h"
#include "base/memory.h"
#include "wire/pb.h"

void mr_transfers_init(mr_transfers *t)
{
    *t = (mr_transfers){0};
    mr_mutex_init(&t->mu);
}

static void transfer_deinit(mr_arrival *x)
{
    mr_free(x->tensor);
    mr_free(x->from);
    mr_free(x->to);
}

/* Forgets all transfers; the array keeps its memory. */
static void clear_locked(mr_transfers *t) MR_REQUIRES(t->mu);
static void clear_locked(mr_transfers *t)
{
    for (int i = 0; i < t->all.n; i++)
        transfer_deinit(&t->all.p[i]);
    t->all.n = 0;
}

/* No call is under way any more; the lock is taken because clear_locked asks for it. */
void mr_transfers_deinit(mr_transfers *t)
{
    mr_lock(&t->mu);
    clear_locked(t);
    mr_unlock(&t->mu);
    mr_vec_deinit(&t->all);
    mr_mutex_deinit(&t->mu);
}

/* Costs one atomic read while recording is off. The strings are copied. */
void mr_transfers_add(mr_transfers *t, int64_t step, mr_sv tensor, mr_sv from, mr_sv to, size_t bytes, int64_t start_us)
{
    if (!atomic_load_explicit(&t->on, memory_order_relaxed))
        return;
    mr_arrival x = {.step = step,
                     .start_us = start_us,
                     .end_us = mr_wall_us(),
                     .bytes = bytes,
                     .tensor = mr_strndup(tensor.p, tensor.n),
                     .from = mr_strndup(from.p, from.n),
                     .to = mr_strndup(to.p, to.n)};
    mr_lock(&t->mu);
    if (t->all.n == MR_TRANSFERS_KEPT) {
        transfer_deinit(&t->all.p[0]);
        memmove(t->all.p, t->all.p + 1, sizeof x * (size_t)--t->all.n);
    }
    MR_ASSERT(t->all.n < MR_TRANSFERS_KEPT);
    mr_vec_push(&t->all, x);
    mr_unlock(&t->mu);
}

/* ---- Logging ---- */

/* Writes "[4B] [0.1Mb/s] edge_3_y from /job:.. to /job:..", as TensorFlow's timelines show it. */
static void put_label(mr_pb_writer *w, const mr_arrival *x, int64_t took_us)
{
    mr_str s = {0};
    double mbit_s = 8.0 * (double)x->bytes / (double)MR_MAX(took_us, 1);
    if (x->bytes >= 104857)
        mr_str_printf(&s, "[%.1fMB] ", (double)x->bytes / 1048576);
    else
        mr_str_printf(&s, "[%zuB] ", x->bytes);
    if (mbit_s >= 1000)
        mr_str_printf(&s, "[%.1fGb/s] ", mbit_s / 1000);
    else
        mr_str_printf(&s, "[%fMb/s] ", mbit_s);
    mr_str_printf(&s, "%s from %s to %s", x->tensor, x->from, x->to);
    mr_pb_put_bytes(w, 8, mr_str_view(&s));
    mr_str_deinit(&s);
}

/* Writes a transfer as the NodeExecStats of a RecvTensor: 1 node_name, 2 all_start_micros, 4 op_end_rel_micros,
 * 5 all_end_rel_micros, 7 output { 3 tensor_description { 4 allocation_description { 1 requested_bytes } } },
 * 8 timeline_label. */
static void put_transfer(mr_pb_writer *w, const mr_arrival *x)
{
    int64_t took_us = MR_MAX(x->end_us - x->start_us, 0);
    size_t at = mr_pb_begin(w, 2); /* NodeExecStats */
    mr_pb_put_bytes(w, 1, MR_SV("RecvTensor"));
    mr_pb_put_varint(w, 2, (uint64_t)x->start_us);
    mr_pb_opt_varint(w, 4, (uint64_t)took_us);
    mr_pb_opt_varint(w, 5, (uint64_t)took_us);
    size_t output = mr_pb_begin(w, 7), tensor = mr_pb_begin(w, 3), allocation = mr_pb_begin(w, 4);
    mr_pb_opt_varint(w, 1, x->bytes);
    mr_pb_end(w, allocation);
    mr_pb_end(w, tensor);
    mr_pb_end(w, output);
    put_label(w, x, took_us);
    mr_pb_end(w, at);
}

/* Whether no earlier transfer of the same step went to the same device. */
static bool is_first_of_its_device(const mr_transfers *t, int i)
{
    for (int k = 0; k < i; k++)
        if (t->all.p[k].step == t->all.p[i].step && strcmp(t->all.p[k].to, t->all.p[i].to) == 0)
            return false;
    return true;
}

static void put_step_locked(mr_transfers *t, int64_t step, mr_pb_writer *w) MR_REQUIRES(t->mu);
/* Writes the LabeledStepStats of a step: its transfers, grouped by the receiving device. */
static void put_step_locked(mr_transfers *t, int64_t step, mr_pb_writer *w)
{
    size_t labeled = mr_pb_begin(w, 1);
    mr_pb_opt_varint(w, 1, (uint64_t)step);
    size_t stats = mr_pb_begin(w, 2);
    for (int i = 0; i < t->all.n; i++) {
        const char *device = t->all.p[i].to;
        if (t->all.p[i].step != step || !is_first_of_its_device(t, i))
            continue;
        size_t at = mr_pb_begin(w, 1);
        mr_pb_put_bytes(w, 1, mr_sv_of(device));
        for (int k = i; k < t->all.n; k++)
            if (t->all.p[k].step == step && strcmp(t->all.p[k].to, device) == 0)
                put_transfer(w, &t->all.p[k]);
        mr_pb_end(w, at);
    }
    mr_pb_end(w, stats);
    mr_pb_end(w, labeled);
}

/* Removes the transfers of a step; the others keep their order. */
static void forget_step_locked(mr_transfers *t, int64_t step) MR_REQUIRES(t->mu);
static void forget_step_locked(mr_transfers *t, int64_t step)
{
    int n = 0;
    for (int i = 0; i < t->all.n; i++)
        if (t->all.p[i].step == step)
            transfer_deinit(&t->all.p[i]);
        else
            t->all.p[n++] = t->all.p[i];
    MR_ASSERT(n <= t->all.n);
    t->all.n = n;
}

/* A LoggingRequest. */
typedef struct logging_request {
    bool on, off, clear;
    MR_VEC(int64_t) steps;
} logging_request;

/* Parses step ids, which are packed or single. */
static void parse_steps(mr_pb_reader *r, uint32_t wire, logging_request *q)
{
    mr_pb_reader packed;
    if (wire == MR_WIRE_VARINT) {
        int64_t v = mr_pb_int64(r);
        mr_vec_push(&q->steps, v);
    } else if (mr_pb_message(r, &packed)) {
        while (mr_pb_more(&packed) && !packed.error) {
            int64_t v = (int64_t)mr_pb_raw_varint(&packed);
            mr_vec_push(&q->steps, v);
        }
    }
}

/* Parses a LoggingRequest; q->steps is the caller's to free, also on failure. */
static mr_status *parse_logging(mr_sv body, logging_request *q)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_pb_reader_init(&r, body);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1: q->on = mr_pb_bool(&r); break;
        case 2: q->clear = mr_pb_bool(&r); break;
        case 3: parse_steps(&r, wire, q); break;
        case 4: q->off = mr_pb_bool(&r); break;
        default: mr_pb_skip(&r);
        }
    return mr_pb_reader_status(&r, "LoggingRequest");
}

/* Steps that are asked for are removed. Old masters turn recording off by a request that asks for
 * nothing. */
mr_status *mr_transfers_answer(mr_transfers *t, mr_sv request, mr_str *out)
{
    logging_request q = {0};
    mr_pb_writer w;
    mr_status *st = parse_logging(request, &q);
    mr_pb_writer_init(&w, out);
    if (!st) {
        /* `on` is atomic and not under the lock: a transfer that ends right now may or may not be recorded. */
        if (q.on)
            t->on = true;
        if (q.off || (!q.on && q.steps.n == 0))
            t->on = false;
        mr_lock(&t->mu);
        for (int i = 0; i < q.steps.n; i++) {
            put_step_locked(t, q.steps.p[i], &w);
            forget_step_locked(t, q.steps.p[i]);
        }
        if (q.clear)
            clear_locked(t);
        mr_unlock(&t->mu);
        st = mr_pb_writer_status(&w, "LoggingResponse");
    }
    mr_vec_deinit(&q.steps);
    return st;
}
