/* ops/summary/write_summary.c -- the ops that write to an event file: WriteSummary, WriteScalarSummary,
 * WriteHistogramSummary, WriteRawProtoSummary, WriteGraphSummary, ImportEvent.
 *
 * Serialized messages are checked, including nested messages, before they are written: a reader of the file
 * could not find out where a malformed one came from. */
#include "graph/infer.h"
#include "ops/io/name_input.h"
#include "ops/summary/summary.h"
#include "ops/summary/writer.h"
#include "proto/event.pb-c.h"
#include "proto/graph.pb-c.h"
#include "wire/message.h"

#define WRITES .flags = MR_BLOCKS | MR_STATEFUL | MR_NO_GRADIENT, .shape = mr_shape_none
#define WRITER "w = SummaryWriter shared_name=\"w\"; "
#define NOBODY " -> !NOT_FOUND does not exist"

/* Checks that the bytes are a well-formed message, including nested ones; DATA_LOSS with this text if not. */
static mr_status *check_message(const ProtobufCMessageDescriptor *d, mr_sv bytes, const char *text)
{
    ProtobufCMessage *m = NULL;
    mr_status *st = mr_message_unpack(d, bytes, d->short_name, &m);
    mr_message_free(m);
    if (mr_status_code(st) != MR_INVALID_ARGUMENT)
        return st;
    mr_status *loss = mr_error(MR_DATA_LOSS, "%s: %s", text, mr_status_message(st));
    mr_status_free(st);
    return loss;
}

/* ---- values with a tag ---- */

static mr_status *write_summary(mr_run *r)
{
    int64_t step;
    mr_sv tag = MR_SV(""), metadata = MR_SV("");
    mr_event_out e;
    MR_TRY(mr_in_scalar_int(r, 1, "step", &step));
    MR_TRY(mr_in_scalar_str(r, 3, "tag", &tag));
    MR_TRY(mr_in_scalar_str(r, 4, "summary_metadata", &metadata));
    MR_TRY(mr_summary_check_metadata(metadata));
    mr_event_out_begin(&e, step);
    mr_value_marks m = mr_event_out_value(&e, tag);
    mr_status *st = mr_summary_put_tensor(&e.w, mr_in(r, 2));
    mr_pb_opt_bytes(&e.w, MR_SUMMARY_METADATA, metadata);
    mr_event_out_value_end(&e, m);
    return mr_event_out_send(&e, r, st);
}

MR_OP(WriteSummary,
    .doc      = "writes a tensor to an event file",
    .sig      = "writer: resource, step: int64, tensor: T, tag: string, summary_metadata: string ->",
    .attrs    = "T: type",
    WRITES,
    .kernels  = MR_KERNELS(MR_CPU_ANY(write_summary)),
    .examples = MR_EXAMPLES(
        WRITER ": w, 1, iota(2), \"a\", \"\"" NOBODY,
        WRITER ": w, 1, 2, \"a\", \"abc\" -> !INVALID_ARGUMENT SummaryMetadata",
        WRITER ": w, [1], 2, \"a\", \"\" -> !INVALID_ARGUMENT step must be a scalar"));

static mr_status *write_scalar(mr_run *r)
{
    int64_t step;
    mr_sv tag = MR_SV("");
    mr_event_out e;
    const mr_tensor *value = mr_in(r, 3);
    float v = 0;
    MR_TRY(mr_in_scalar_int(r, 1, "step", &step));
    MR_TRY(mr_in_scalar_str(r, 2, "tag", &tag));
    if (value->n != 1)
        return mr_invalid("value must be a scalar, got shape %s", MR_TENSOR_SHAPE(value));
    mr_dtype_convert((mr_dtype)value->dtype, value->data, MR_FLOAT, &v, 1, false);
    mr_event_out_begin(&e, step);
    mr_value_marks m = mr_event_out_value(&e, tag);
    mr_pb_put_float(&e.w, MR_SUMMARY_SIMPLE_VALUE, v);
    mr_event_out_value_end(&e, m);
    return mr_event_out_send(&e, r, NULL);
}

MR_OP(WriteScalarSummary,
    .doc      = "writes a number to an event file",
    .sig      = "writer: resource, step: int64, tag: string, value: T ->",
    .attrs    = "T: realnumbertype",
    WRITES,
    .kernels  = MR_KERNELS(MR_CPU_ONE(write_scalar, MR_REALS)),
    .examples = MR_EXAMPLES(WRITER ": w, 1, \"a\", 2" NOBODY,
                            WRITER ": w, 1, \"a\", [2, 3] -> !INVALID_ARGUMENT value must be a scalar"));

static mr_status *write_histogram(mr_run *r)
{
    int64_t step;
    mr_sv tag = MR_SV("");
    mr_event_out e;
    MR_TRY(mr_in_scalar_int(r, 1, "step", &step));
    MR_TRY(mr_in_scalar_str(r, 2, "tag", &tag));
    mr_event_out_begin(&e, step);
    mr_value_marks m = mr_event_out_value(&e, tag);
    mr_status *st = mr_summary_put_histogram(&e.w, mr_in(r, 3), r->node->name);
    mr_event_out_value_end(&e, m);
    return mr_event_out_send(&e, r, st);
}

MR_OP(WriteHistogramSummary,
    .doc      = "writes how values are distributed to an event file",
    .sig      = "writer: resource, step: int64, tag: string, values: T ->",
    .attrs    = "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, "
                "uint64, bool} = DT_FLOAT",
    WRITES,
    .kernels  = MR_KERNELS(MR_CPU_ANY(write_histogram)),
    .examples = MR_EXAMPLES(WRITER ": w, 1, \"a\", [1, 0]" NOBODY,
                            WRITER "T=float: w, 1, \"a\", [nan] -> !INVALID_ARGUMENT Nan in summary "
                                   "histogram for: op"));

/* ---- whole messages ---- */

/* Merges the values of all Summaries into one: concatenated messages are one message. */
static mr_status *write_raw(mr_run *r)
{
    int64_t step;
    mr_event_out e;
    const mr_tensor *t = mr_in(r, 2);
    mr_status *st = NULL;
    MR_TRY(mr_in_scalar_int(r, 1, "step", &step));
    mr_event_out_begin(&e, step);
    size_t mark = mr_pb_begin(&e.w, MR_EVENT_SUMMARY);
    for (int64_t i = 0; i < t->n && !st; i++) {
        mr_sv bytes = mr_tensor_str_at(t, i);
        st = check_message(&tensorflow__summary__descriptor, bytes,
                           "Bad tf.compat.v1.Summary binary proto tensor string");
        if (st)
            st = mr_status_append(st, " at index %lld", (long long)i);
        mr_pb_put_raw(&e.w, bytes.p, bytes.n);
    }
    mr_pb_end(&e.w, mark);
    return mr_event_out_send(&e, r, st);
}

MR_OP(WriteRawProtoSummary,
    .doc      = "writes serialized Summaries to an event file",
    .sig      = "writer: resource, step: int64, tensor: string ->",
    WRITES,
    .kernels  = MR_KERNELS(MR_CPU_ANY(write_raw)),
    .examples = MR_EXAMPLES(WRITER ": w, 1, [\"\", \"\\n\\x03\\n\\x01a\"]" NOBODY,
                            WRITER ": w, 1, \"abc\" -> !DATA_LOSS Bad tf.compat.v1.Summary binary proto "
                                   "tensor string"));

static mr_status *write_graph(mr_run *r)
{
    int64_t step;
    mr_sv graph = MR_SV("");
    mr_event_out e;
    MR_TRY(mr_in_scalar_int(r, 1, "step", &step));
    MR_TRY(mr_in_scalar_str(r, 2, "tensor", &graph));
    MR_TRY(check_message(&tensorflow__graph_def__descriptor, graph,
                         "Bad tf.GraphDef binary proto scalar string"));
    mr_event_out_begin(&e, step);
    mr_pb_put_bytes(&e.w, MR_EVENT_GRAPH_DEF, graph);
    return mr_event_out_send(&e, r, NULL);
}

MR_OP(WriteGraphSummary,
    .doc      = "writes a serialized GraphDef to an event file",
    .sig      = "writer: resource, step: int64, tensor: string ->",
    WRITES,
    .kernels  = MR_KERNELS(MR_CPU_ANY(write_graph)),
    .examples = MR_EXAMPLES(WRITER ": w, 1, \"\"" NOBODY,
                            WRITER ": w, 1, \"abc\" -> !DATA_LOSS Bad tf.GraphDef binary proto"));

static mr_status *import_event(mr_run *r)
{
    mr_sv event = MR_SV("");
    MR_TRY(mr_in_scalar_str(r, 1, "event", &event));
    MR_TRY(check_message(&tensorflow__event__descriptor, event,
                         "Bad tf.Event binary proto tensor string"));
    return mr_summary_writer_put(r, event);
}

MR_OP(ImportEvent,
    .doc      = "writes a serialized Event to an event file",
    .sig      = "writer: resource, event: string ->",
    WRITES,
    .kernels  = MR_KERNELS(MR_CPU_ANY(import_event)),
    .examples = MR_EXAMPLES(WRITER ": w, \"\\x10\\x05\"" NOBODY,
                            WRITER ": w, \"abc\" -> !DATA_LOSS Bad tf.Event binary proto"));
