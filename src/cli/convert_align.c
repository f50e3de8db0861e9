/* cli/convert_align.c -- moves the elements of large constants to multiples of 64 in the file, where a process that maps
 * it can use them (mr_map_file).
 *
 * Between the nodes there are fields that no reader of a GraphDef knows, so all skip them; their number is one of those
 * that Protocol Buffers never give to a field. */
#include "cli/convert.h"
#include "wire/pb.h"

enum {
    LARGE = 4096, /* bytes; smaller ones are always copied */
    ALIGN = 64,
    PADDING_FIELD = 19000,
    PADDING_LEAST = 4, /* bytes of its tag and length */
};

/* {NULL, 0}: there is none. */
static mr_sv first_field(mr_sv bytes, uint32_t wanted)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire)) {
        if (field == wanted && wire == MR_WIRE_BYTES)
            return mr_pb_bytes(&r);
        mr_pb_skip(&r);
    }
    return (mr_sv){NULL, 0};
}

/* The elements of the first large tensor among the attrs of a NodeDef: attr { value { tensor { tensor_content } } }. */
static mr_sv large_content(mr_sv node)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_pb_reader_init(&r, node);
    while (mr_pb_next(&r, &field, &wire)) {
        if (field != 5 || wire != MR_WIRE_BYTES) {
            mr_pb_skip(&r);
            continue;
        }
        mr_sv content = first_field(first_field(first_field(mr_pb_bytes(&r), 2), 8), 4);
        if (content.n >= LARGE)
            return content;
    }
    return (mr_sv){NULL, 0};
}

/* Bytes that a field header with a length of n takes, for a field number below 16. */
static size_t header_bytes(size_t n)
{
    size_t bytes = 2;
    for (; n >= 0x80; n >>= 7)
        bytes++;
    return bytes;
}

/* n bytes, PADDING_LEAST or a few more. */
static void put_padding(mr_pb_writer *w, size_t n)
{
    static const char zeros[PADDING_LEAST + ALIGN];
    mr_pb_put_bytes(w, PADDING_FIELD, (mr_sv){zeros, n - PADDING_LEAST});
}

static void put_node(mr_pb_writer *w, mr_sv node)
{
    mr_sv content = large_content(node);
    if (content.p) {
        size_t at = w->out->n + header_bytes(node.n) + (size_t)(content.p - node.p);
        size_t pad = (ALIGN - at % ALIGN) % ALIGN;
        if (pad)
            put_padding(w, pad < PADDING_LEAST ? pad + ALIGN : pad);
    }
    mr_pb_put_bytes(w, 1, node);
}

mr_status *mr_align_graph(mr_sv graph_def, mr_str *out)
{
    mr_pb_reader r;
    mr_pb_writer w;
    uint32_t field, wire;
    mr_pb_reader_init(&r, graph_def);
    mr_pb_writer_init(&w, out);
    for (const uint8_t *from = r.at; mr_pb_next(&r, &field, &wire); from = r.at) {
        if (field == 1 && wire == MR_WIRE_BYTES) {
            put_node(&w, mr_pb_bytes(&r));
            continue;
        }
        mr_pb_skip(&r);
        if (field != PADDING_FIELD) /* of an earlier run */
            mr_pb_put_raw(&w, from, (size_t)(r.at - from));
    }
    MR_TRY(mr_pb_reader_status(&r, "GraphDef"));
    return mr_pb_writer_status(&w, "GraphDef");
}
