/* ops/parse/decode_compressed.c -- DecodeCompressed: decompresses strings. */
#include "base/memory.h"
#include "graph/infer.h"
#include "run/run.h"
#include "store/stream.h"

static mr_status *init_compression(mr_make *m, void *p)
{
    mr_sv type;
    MR_TRY(mr_node_get_str(m->node, "compression_type", &type));
    if (!mr_compression_parse(type, p))
        return mr_invalid("Only ZLIB, GZIP or NONE are supported compressions, not %.*s",
                          MR_SV_ARG(type));
    return NULL;
}

static mr_status *decompress_bytes(mr_sv bytes, mr_compression c, mr_str *out)
{
    mr_stream *s;
    mr_str_clear(out);
    MR_TRY(mr_stream_of_bytes(bytes, c, &s));
    mr_status *st = mr_stream_read_all(s, out);
    mr_stream_close(s);
    return st;
}

static mr_status *decode_compressed(mr_run *r)
{
    const mr_compression *c = r->state;
    const mr_tensor *in = mr_in(r, 0);
    mr_tensor *out;
    mr_str s = {0};
    mr_status *st = NULL;
    if (*c == MR_UNCOMPRESSED) {
        mr_run_pass(r, 0, 0);
        return NULL;
    }
    MR_TRY(mr_run_output(r, 0, in->rank, in->dims, &out));
    for (int64_t i = 0; i < in->n && !st; i++) {
        st = decompress_bytes(mr_tensor_str_at(in, i), *c, &s);
        if (!st)
            st = mr_tensor_set_str(out, i, mr_str_view(&s));
    }
    mr_str_deinit(&s);
    return st;
}

#define ZLIB_HELLO "\"x\\x9c\\xcbH\\xcd\\xc9\\xc9\\x07\\x00\\x06,\\x02\\x15\""
#define GZIP_A                                                                                     \
    "\"\\x1f\\x8b\\x08\\x00\\x00\\x00\\x00\\x00\\x00\\x03K\\x04\\x00C\\xbe\\xb7\\xe8\\x01\\x00\\x00\\x00\""

MR_OP(DecodeCompressed,
    .doc      = "decompresses strings that zlib or gzip compressed",
    .sig      = "bytes: string -> output: string",
    .attrs    = "compression_type: string = \"\"",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_ANY(decode_compressed)),
    .state_bytes = sizeof(mr_compression), .init = init_compression,
    .examples = MR_EXAMPLES(
        "[\"a\", \"b\"] -> [\"a\", \"b\"]", "compression_type=\"ZLIB\": " ZLIB_HELLO " -> \"hello\"",
        "compression_type=\"GZIP\": [" GZIP_A "] -> [\"a\"]",
        "compression_type=\"ZLIB\": shape(0) -> shape(0)",
        "compression_type=\"ZLIB\": \"\" -> \"\"",
        "compression_type=\"ZLIB\": \"hello\" -> !DATA_LOSS inflate() failed with error -3",
        "compression_type=\"RAR\": \"a\" -> !INVALID_ARGUMENT Only ZLIB, GZIP or NONE are supported "
        "compressions"));
