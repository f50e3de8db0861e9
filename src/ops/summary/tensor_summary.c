/* ops/summary/tensor_summary.c -- TensorSummary, TensorSummaryV2: write a whole tensor as a Summary. */
#include "graph/infer.h"
#include "ops/summary/summary.h"
#include "proto/event.pb-c.h"
#include "wire/message.h"

enum { TENSOR_DTYPE = 1, TENSOR_SHAPE = 2, TENSOR_CONTENT = 4 };

/* Strings and other types that are not plain go into typed fields; numbers are always written as bytes. */
mr_status *mr_summary_put_tensor(mr_pb_writer *w, const mr_tensor *t)
{
    mr_dtype type = (mr_dtype)t->dtype;
    size_t mark = mr_pb_begin(w, MR_SUMMARY_TENSOR);
    mr_status *st = NULL;
    if (type == MR_STRING || type == MR_RESOURCE || type == MR_VARIANT) {
        st = mr_tensor_encode(t, w->out);
    } else {
        mr_pb_put_varint(w, TENSOR_DTYPE, (uint64_t)type);
        size_t shape = mr_pb_begin(w, TENSOR_SHAPE);
        for (int i = 0; i < t->rank; i++) {
            size_t dim = mr_pb_begin(w, 2);
            mr_pb_opt_varint(w, 1, (uint64_t)t->dims[i]);
            mr_pb_end(w, dim);
        }
        mr_pb_end(w, shape);
        mr_pb_opt_bytes(w, TENSOR_CONTENT, (mr_sv){t->data, mr_tensor_bytes(t)});
    }
    mr_pb_end(w, mark);
    return st;
}

mr_status *mr_summary_check_metadata(mr_sv bytes)
{
    ProtobufCMessage *m = NULL;
    mr_status *st = mr_message_unpack(&tensorflow__summary_metadata__descriptor, bytes,
                                      "SummaryMetadata", &m);
    mr_message_free(m);
    return st;
}

static mr_status *finish_summary(mr_summary *s, size_t value, mr_status *st, mr_run *r)
{
    mr_pb_end(&s->w, value);
    if (!st)
        return mr_summary_finish(s, r);
    mr_str_deinit(&s->bytes);
    return st;
}

static mr_status *tensor_summary(mr_run *r)
{
    mr_summary s;
    mr_summary_init(&s);
    size_t v = mr_summary_begin(&s, MR_SV(""));
    mr_pb_opt_bytes(&s.w, MR_SUMMARY_NODE_NAME, mr_sv_of(r->node->name));
    mr_status *st = mr_summary_put_tensor(&s.w, mr_in(r, 0));
    return finish_summary(&s, v, st, r);
}

MR_OP(TensorSummary,
    .doc      = "a Summary that holds a whole tensor",
    .sig      = "tensor: T -> summary: string",
    .attrs    = "T: type; description: string = \"\"; labels: list(string) = []; "
                "display_name: string = \"\"",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_scalar,
    .kernels  = MR_KERNELS(MR_CPU_ANY(tensor_summary)),
    .examples = MR_EXAMPLES(
        "iota(2) -> ?", "shape(0) -> ?",
        "T=float: 1 -> \"\\n\\x10:\\x02opB\\n\\x08\\x01\\x12\\x00\\x22\\x04\\x00\\x00\\x80?\"",
        "T=string: [\"a\"] -> \"\\n\\x11:\\x02opB\\x0b\\x08\\x07\\x12\\x04\\x12\\x02\\x08\\x01B\\x01a\""));

static mr_status *tensor_summary_v2(mr_run *r)
{
    const mr_tensor *tag = mr_in(r, 0), *metadata = mr_in(r, 2);
    if (tag->rank != 0)
        return mr_invalid("tag must be scalar, got shape %s", MR_TENSOR_SHAPE(tag));
    if (metadata->rank != 0)
        return mr_invalid("serialized_summary_metadata must be scalar, got shape %s",
                          MR_TENSOR_SHAPE(metadata));
    MR_TRY(mr_summary_check_metadata(mr_tensor_str_at(metadata, 0)));
    mr_summary s;
    mr_summary_init(&s);
    size_t v = mr_summary_begin(&s, mr_tensor_str_at(tag, 0));
    mr_status *st = mr_summary_put_tensor(&s.w, mr_in(r, 1));
    mr_pb_put_bytes(&s.w, MR_SUMMARY_METADATA, mr_tensor_str_at(metadata, 0));
    return finish_summary(&s, v, st, r);
}

MR_OP(TensorSummaryV2,
    .doc      = "a Summary that holds a whole tensor, with a tag and metadata for plugins",
    .sig      = "tag: string, tensor: T, serialized_summary_metadata: string -> summary: string",
    .attrs    = "T: type",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_scalar,
    .kernels  = MR_KERNELS(MR_CPU_ANY(tensor_summary_v2)),
    .examples = MR_EXAMPLES(
        "\"a\", iota(2), \"\" -> ?",
        "T=int32: \"a\", 5, \"\\x12\\x01n\" -> "
        "\"\\n\\x14\\n\\x01aB\\n\\x08\\x03\\x12\\x00\\x22\\x04\\x05\\x00\\x00\\x00J\\x03\\x12\\x01n\"",
        "[\"a\"], 1, \"\" -> !INVALID_ARGUMENT tag must be scalar",
        "\"a\", 1, \"abc\" -> !INVALID_ARGUMENT SummaryMetadata"));
