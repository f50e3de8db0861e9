/* ops/summary/summary.c -- ScalarSummary and MergeSummary; writes Summary messages. */
#include "ops/summary/summary.h"

#include "base/map.h"
#include "graph/infer.h"
#include "proto/event.pb-c.h"
#include "wire/message.h"

void mr_summary_init(mr_summary *s)
{
    *s = (mr_summary){0};
    mr_pb_writer_init(&s->w, &s->bytes);
}

size_t mr_summary_begin(mr_summary *s, mr_sv tag)
{
    size_t mark = mr_pb_begin(&s->w, MR_SUMMARY_VALUE);
    mr_pb_opt_bytes(&s->w, MR_SUMMARY_TAG, tag);
    return mark;
}

mr_status *mr_summary_finish(mr_summary *s, mr_run *r)
{
    mr_tensor *out;
    mr_status *st = mr_pb_writer_status(&s->w, "Summary");
    if (!st)
        st = mr_run_output(r, 0, 0, NULL, &out);
    if (!st)
        st = mr_tensor_set_str(out, 0, mr_str_view(&s->bytes));
    mr_str_deinit(&s->bytes);
    return st;
}

/* ---- ScalarSummary ---- */

static float float_at(const mr_tensor *t, int64_t i)
{
    float v = 0;
    mr_dtype type = (mr_dtype)t->dtype;
    mr_dtype_convert(type, (char *)t->data + (size_t)i * mr_dtype_size(type), MR_FLOAT, &v, 1,
                     false);
    return v;
}

static mr_status *scalar_summary(mr_run *r)
{
    const mr_tensor *tags = mr_in(r, 0), *values = mr_in(r, 1);
    if (!mr_tensor_same_shape(tags, values)) {
        mr_sv tag = tags->n == 1 ? mr_tensor_str_at(tags, 0) : MR_SV("");
        bool one = tags->n == 1;
        return mr_invalid("tags and values not the same shape: %s != %s%s%.*s%s",
                          MR_TENSOR_SHAPE(tags), MR_TENSOR_SHAPE(values), one ? " (tag '" : "",
                          MR_SV_ARG(tag), one ? "')" : "");
    }
    mr_summary s;
    mr_summary_init(&s);
    for (int64_t i = 0; i < tags->n; i++) {
        size_t v = mr_summary_begin(&s, mr_tensor_str_at(tags, i));
        mr_pb_put_float(&s.w, MR_SUMMARY_SIMPLE_VALUE, float_at(values, i));
        mr_pb_end(&s.w, v);
    }
    return mr_summary_finish(&s, r);
}

MR_OP(ScalarSummary,
    .doc      = "a Summary of one number per tag",
    .sig      = "tags: string, values: T -> summary: string",
    .attrs    = "T: realnumbertype",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_scalar,
    .kernels  = MR_KERNELS(MR_CPU_ONE(scalar_summary, MR_REALS)),
    .examples = MR_EXAMPLES(
        "\"ab\", 1 -> \"\\n\\x09\\n\\x02ab\\x15\\x00\\x00\\x80?\"",
        "\"\", 0 -> \"\\n\\x05\\x15\\x00\\x00\\x00\\x00\"",
        "[\"a\", \"b\"], [1, 2] -> "
        "\"\\n\\x08\\n\\x01a\\x15\\x00\\x00\\x80?\\n\\x08\\n\\x01b\\x15\\x00\\x00\\x00@\"",
        "T=float: \"n\", nan -> \"\\n\\x08\\n\\x01n\\x15\\x00\\x00\\xc0\\x7f\"",
        "shape(0), shape(0) -> \"\"",
        "\"a\", [1, 2] -> !INVALID_ARGUMENT tags and values not the same shape: [] != [2] (tag "
        "'a')",
        "[\"a\", \"b\"], 1 -> !INVALID_ARGUMENT tags and values not the same shape: [2] != []"));

/* ---- MergeSummary ---- */

/* Checks that the bytes are a well-formed Summary, including nested messages. */
static mr_status *check_summary(mr_sv bytes)
{
    ProtobufCMessage *m = NULL;
    mr_status *st = mr_message_unpack(&tensorflow__summary__descriptor, bytes, "Summary", &m);
    mr_message_free(m);
    if (mr_status_code(st) != MR_INVALID_ARGUMENT)
        return st;
    return mr_status_prepend(st, "Could not parse one of the summary inputs: ");
}

static mr_sv tag_of(mr_sv value)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv tag = MR_SV("");
    mr_pb_reader_init(&r, value);
    while (mr_pb_next(&r, &field, &wire))
        if (field == MR_SUMMARY_TAG)
            tag = mr_pb_bytes(&r);
        else
            mr_pb_skip(&r);
    return tag;
}

/* Copies the values unchanged; `seen` has their tags as keys. */
static mr_status *add_values(mr_summary *s, mr_map *seen, mr_sv bytes)
{
    mr_pb_reader r;
    uint32_t field, wire;
    MR_TRY(check_summary(bytes));
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire)) {
        if (field != MR_SUMMARY_VALUE) {
            mr_pb_skip(&r);
            continue;
        }
        mr_sv value = mr_pb_bytes(&r), tag = tag_of(value);
        if (tag.n > 0 && mr_map_has(seen, tag))
            return mr_invalid("Duplicate tag %.*s found in summary inputs", MR_SV_ARG(tag));
        if (tag.n > 0)
            mr_map_put(seen, tag, seen);
        mr_pb_put_bytes(&s->w, MR_SUMMARY_VALUE, value);
    }
    return mr_pb_reader_status(&r, "Summary");
}

static mr_status *merge_summary(mr_run *r)
{
    mr_status *st = NULL;
    mr_summary s;
    mr_map seen = {.borrow_keys = true}; /* the keys point into the inputs */
    mr_summary_init(&s);
    for (int i = 0; i < r->n_in; i++)
        for (int64_t k = 0; k < mr_in(r, i)->n; k++)
            MR_GO(add_values(&s, &seen, mr_tensor_str_at(mr_in(r, i), k)));
    st = mr_summary_finish(&s, r);
out:
    mr_map_deinit(&seen);
    mr_str_deinit(&s.bytes);
    return st;
}

MR_OP(MergeSummary,
    .doc      = "the values of several Summaries in one; tags must be distinct",
    .sig      = "inputs: N * string -> summary: string",
    .attrs    = "N: int >= 1",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_scalar,
    .kernels  = MR_KERNELS(MR_CPU_ANY(merge_summary)),
    .examples = MR_EXAMPLES(
        "(\"\\n\\x08\\n\\x01a\\x15\\x00\\x00\\x80?\", "
        "\"\\n\\x08\\n\\x01b\\x15\\x00\\x00\\x80?\") -> "
        "\"\\n\\x08\\n\\x01a\\x15\\x00\\x00\\x80?\\n\\x08\\n\\x01b\\x15\\x00\\x00\\x80?\"",
        "([\"\\n\\x03\\n\\x01a\", \"\\n\\x03\\n\\x01b\"]) -> "
        "\"\\n\\x03\\n\\x01a\\n\\x03\\n\\x01b\"",
        "(\"\\n\\x00\", \"\\n\\x00\") -> \"\\n\\x00\\n\\x00\"", "(\"\", \"\") -> \"\"",
        "(\"\\n\\x03\\n\\x01a\", \"\\n\\x03\\n\\x01a\") -> !INVALID_ARGUMENT Duplicate tag a found "
        "in summary inputs",
        "(\"\\n\\x05\\n\\x09a\") -> !INVALID_ARGUMENT Could not parse one of the summary inputs",
        "(\"abc\") -> !INVALID_ARGUMENT Could not parse one of the summary inputs"));
