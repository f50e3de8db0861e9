/* ops/parse/decode_json.c -- DecodeJSONExample: converts Examples from JSON to serialized protobufs. */
#include "base/memory.h"
#include "graph/infer.h"
#include "run/run.h"
#include "store/example_json.h"

static mr_status *decode_json(mr_run *r)
{
    const mr_tensor *in = mr_in(r, 0);
    mr_tensor *out;
    mr_str s = {0};
    mr_status *st = NULL;
    MR_TRY(mr_run_output(r, 0, in->rank, in->dims, &out));
    for (int64_t i = 0; i < in->n && !st; i++) {
        mr_str_clear(&s);
        st = mr_example_from_json(mr_tensor_str_at(in, i), &s);
        if (mr_status_code(st) == MR_INVALID_ARGUMENT)
            st = mr_status_prepend(st, "Error while parsing JSON: ");
        if (!st)
            st = mr_tensor_set_str(out, i, mr_str_view(&s));
    }
    mr_str_deinit(&s);
    return st;
}

#define FEATURE(list) "\"{\\\"features\\\":{\\\"feature\\\":{\\\"a\\\":" list "}}}\""

MR_OP(DecodeJSONExample,
    .doc      = "converts Examples from JSON to serialized protobufs",
    .sig      = "json_examples: string -> binary_examples: string",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_ANY(decode_json)),
    .examples = MR_EXAMPLES(
        "[" FEATURE("{\\\"floatList\\\":{\\\"value\\\":[1,2]}}") "] -> "
        "[\"\\n\\x13\\n\\x11\\n\\x01a\\x12\\x0c\\x12\\n\\n\\x08\\x00\\x00\\x80?\\x00\\x00\\x00@\"]",
        FEATURE("{\\\"int64_list\\\":{\\\"value\\\":[\\\"7\\\",8]}}") " -> "
        "\"\\n\\x0d\\n\\x0b\\n\\x01a\\x12\\x06\\x1a\\x04\\n\\x02\\x07\\x08\"",
        FEATURE("{\\\"bytesList\\\":{\\\"value\\\":[\\\"eA==\\\",\\\"eXo\\\"]}}") " -> "
        "\"\\n\\x10\\n\\x0e\\n\\x01a\\x12\\x09\\n\\x07\\n\\x01x\\n\\x02yz\"",
        FEATURE("{\\\"floatList\\\":{\\\"value\\\":[\\\"-Infinity\\\"]}}") " -> "
        "\"\\n\\x0f\\n\\x0d\\n\\x01a\\x12\\x08\\x12\\x06\\n\\x04\\x00\\x00\\x80\\xff\"",
        "[\"{}\", \"{\\\"features\\\":null}\"] -> [\"\", \"\"]", "shape(0) -> shape(0)",
        "\"\" -> !INVALID_ARGUMENT Error while parsing JSON: Example: bad JSON",
        "\"{\\\"x\\\":1}\" -> !INVALID_ARGUMENT unknown field, expected 'features'",
        FEATURE("{\\\"bytesList\\\":{\\\"value\\\":[\\\"*\\\"]}}") " -> !INVALID_ARGUMENT not valid base64",
        FEATURE("{\\\"floatList\\\":{},\\\"bytesList\\\":{}}") " -> !INVALID_ARGUMENT a feature has more than one list"));
