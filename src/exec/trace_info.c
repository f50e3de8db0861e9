/* exec/trace_info.c -- shifts the stats of one task to another's clock, and writes what a step adds to them.
 *
 * Shifting copies a StepStats field by field. Four fields of a NodeExecStats are points in time; all others
 * are copied as they are, also unknown ones. The messages come from other tasks, so nothing in them is
 * trusted. */
#include "base/memory.h"
#include "exec/trace.h"

/* Fields of NodeExecStats. */
enum {
    ALL_START_US = 2,
    SCHEDULED_US = 9,
    ALL_START = 13,
    ALL_END = 16,
    SCHEDULED = 17
};

/* Wraps on overflow: the times may be nonsense. */
static int64_t add_wrapping(int64_t t, int64_t by) { return (int64_t)((uint64_t)t + (uint64_t)by); }

/* Copies the field at which r is; `tag` points to its start. */
static void copy_field(mr_pb_reader *r, const uint8_t *tag, mr_str *out)
{
    mr_pb_skip(r);
    if (!r->error)
        mr_str_append(out, tag, (size_t)(r->at - tag));
}

/* Copies a NodeExecStats with its times shifted. Durations relative to the start stay. */
static void shift_node(mr_pb_reader *r, int64_t by_ns, mr_pb_writer *w)
{
    uint32_t field, wire;
    for (const uint8_t *tag = r->at; mr_pb_next(r, &field, &wire); tag = r->at) {
        bool us = field == ALL_START_US || field == SCHEDULED_US,
             ns = field == ALL_START || field == SCHEDULED;
        if ((us || ns) && wire == MR_WIRE_VARINT)
            mr_pb_put_varint(w, field, (uint64_t)add_wrapping(mr_pb_int64(r), us ? by_ns / 1000 : by_ns));
        else
            copy_field(r, tag, w->out);
    }
}

/* Copies a DeviceStepStats; only its nodes have times. */
static void shift_device(mr_pb_reader *r, int64_t by_ns, mr_pb_writer *w)
{
    uint32_t field, wire;
    mr_pb_reader node;
    for (const uint8_t *tag = r->at; mr_pb_next(r, &field, &wire); tag = r->at) {
        if (field == 2 && wire == MR_WIRE_BYTES && mr_pb_message(r, &node)) {
            size_t mark = mr_pb_begin(w, field);
            shift_node(&node, by_ns, w);
            mr_pb_end(w, mark);
        } else {
            copy_field(r, tag, w->out);
        }
    }
}

/* Fields that are malformed or unknown are copied unchanged as far as they can be read; a malformed message is an
 * error at the end. */
mr_status *mr_trace_shift(mr_sv step_stats, int64_t by_ns, mr_str *out)
{
    mr_pb_reader r, device;
    mr_pb_writer w;
    uint32_t field, wire;
    mr_pb_reader_init(&r, step_stats);
    mr_pb_writer_init(&w, out);
    for (const uint8_t *tag = r.at; mr_pb_next(&r, &field, &wire); tag = r.at) {
        if (field == 1 && wire == MR_WIRE_BYTES && mr_pb_message(&r, &device)) {
            size_t mark = mr_pb_begin(&w, field);
            shift_device(&device, by_ns, &w);
            mr_pb_end(&w, mark);
        } else {
            copy_field(&r, tag, out);
        }
    }
    MR_TRY(mr_pb_reader_status(&r, "StepStats"));
    return mr_pb_writer_status(&w, "StepStats");
}

/* ---- from when to when ---- */

/* Extends the range by the run of one node; runs with impossible times are ignored. */
static void widen_range(mr_pb_reader *node, int64_t *first_ns, int64_t *last_ns)
{
    uint32_t field, wire;
    int64_t start = 0, took = 0;
    while (mr_pb_next(node, &field, &wire))
        switch (wire == MR_WIRE_VARINT ? field : 0) {
        case ALL_START: start = mr_pb_int64(node); break;
        case ALL_END: took = mr_pb_int64(node); break;
        default: mr_pb_skip(node);
        }
    if (start <= 0 || took < 0 || took > INT64_MAX - start)
        return;
    *first_ns = MR_MIN(*first_ns, start);
    *last_ns = MR_MAX(*last_ns, start + took);
}

/* Looks only at the times in nanoseconds, which our own traces have. */
bool mr_trace_span(mr_sv step_stats, int64_t *first_ns, int64_t *last_ns)
{
    mr_pb_reader r, device, node;
    uint32_t field, wire;
    *first_ns = INT64_MAX;
    *last_ns = INT64_MIN;
    mr_pb_reader_init(&r, step_stats);
    while (mr_pb_next(&r, &field, &wire)) {
        if (field != 1 || !mr_pb_message(&r, &device)) {
            mr_pb_skip(&r);
            continue;
        }
        while (mr_pb_next(&device, &field, &wire))
            if (field == 2 && mr_pb_message(&device, &node))
                widen_range(&node, first_ns, last_ns);
            else
                mr_pb_skip(&device);
    }
    return !r.error && *first_ns <= *last_ns;
}

/* ---- the field of our own ---- */

/* Numbers are left out if they are 0 (or, for the step, negative), so that merging two fields does not overwrite
 * what is known. */
void mr_trace_info_encode(const mr_trace_info *i, mr_pb_writer *w)
{
    size_t mark = mr_pb_begin(w, MR_TRACE_FIELD);
    if (i->home.n)
        mr_pb_put_bytes(w, 1, i->home);
    if (i->number >= 0)
        mr_pb_put_varint(w, 2, (uint64_t)i->number);
    mr_pb_opt_varint(w, 3, (uint64_t)i->start_ns);
    mr_pb_opt_varint(w, 4, (uint64_t)i->end_ns);
    mr_pb_opt_varint(w, 6, (uint64_t)i->outside_ns);
    if (i->what.n)
        mr_pb_put_bytes(w, 7, i->what);
    for (int k = 0; k < i->n_clocks; k++) {
        size_t clock = mr_pb_begin(w, 5);
        mr_pb_put_bytes(w, 1, i->clocks[k].task);
        mr_pb_opt_varint(w, 2, (uint64_t)i->clocks[k].offset_ns);
        mr_pb_opt_varint(w, 3, (uint64_t)i->clocks[k].error_ns);
        mr_pb_end(w, clock);
    }
    mr_pb_end(w, mark);
}
