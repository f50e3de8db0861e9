/* distbelief/sandblaster_messages.c -- encodes and decodes the messages of Sandblaster.
 *
 * Decoding checks everything that can be checked without knowing the job, because messages come from
 * other processes. */
#include "distbelief/sandblaster_messages.h"

#include "ps/client.h"
#include "wire/pb.h"

/* Moves the encoded text to *out; frees it on failure. */
static mr_status *finish_message(mr_pb_writer *w, mr_str *text, const char *what, mr_bytes *out)
{
    mr_status *st = mr_pb_writer_status(w, what);
    if (!st)
        mr_bytes_add_str(out, text);
    mr_str_deinit(text);
    return st;
}

/* Fields are described in the header. */
mr_status *mr_blast_put_hello(const mr_blast_hello *h, mr_bytes *out)
{
    mr_str text = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &text);
    mr_pb_put_bytes(&w, 1, h->name);
    mr_pb_put_varint(&w, 2, h->keys);
    mr_pb_put_varint(&w, 3, (uint64_t)h->width);
    return finish_message(&w, &text, "hello", out);
}

/* The sizes are checked against the limits of the parameter server, so that a table can be made. */
mr_status *mr_blast_get_hello(mr_sv bytes, mr_blast_hello *out)
{
    mr_pb_reader r;
    uint32_t field, wire;
    *out = (mr_blast_hello){.name = MR_SV("")};
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1: out->name = mr_pb_bytes(&r); break;
        case 2: out->keys = mr_pb_varint(&r); break;
        case 3: out->width = mr_pb_int64(&r); break;
        default: mr_pb_skip(&r);
        }
    MR_TRY(mr_pb_reader_status(&r, "hello"));
    if (out->keys == 0 || out->keys > MR_PS_MAX_KEYS || out->width < 1 || out->width > MR_PS_MAX_WIDTH)
        return mr_invalid("The vector of a replica has %llu keys of %lld numbers, expected 1 to %llu keys of 1 to %d",
                          (unsigned long long)out->keys, (long long)out->width, (unsigned long long)MR_PS_MAX_KEYS,
                          (int)MR_PS_MAX_WIDTH);
    return NULL;
}

/* Fields that are 0 or empty are left out. */
mr_status *mr_blast_put_report(const mr_blast_report *o, mr_bytes *out)
{
    mr_str text = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &text);
    mr_pb_put_varint(&w, 1, (uint64_t)o->kind);
    mr_pb_opt_varint(&w, 2, (uint64_t)o->evaluation);
    mr_pb_opt_varint(&w, 3, (uint64_t)o->portion);
    mr_pb_opt_double(&w, 4, o->loss);
    mr_pb_opt_varint(&w, 5, (uint64_t)o->code);
    mr_pb_opt_bytes(&w, 6, o->message);
    return finish_message(&w, &text, "report", out);
}

/* Kind and code must be known values, because they are cast to enums. */
mr_status *mr_blast_get_report(mr_sv bytes, mr_blast_report *out)
{
    mr_pb_reader r;
    uint32_t field, wire;
    int64_t kind = 0, code = 0;
    *out = (mr_blast_report){.message = MR_SV("")};
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1: kind = mr_pb_int64(&r); break;
        case 2: out->evaluation = mr_pb_int64(&r); break;
        case 3: out->portion = mr_pb_int64(&r); break;
        case 4: out->loss = mr_pb_double(&r); break;
        case 5: code = mr_pb_int64(&r); break;
        case 6: out->message = mr_pb_bytes(&r); break;
        default: mr_pb_skip(&r);
        }
    MR_TRY(mr_pb_reader_status(&r, "report"));
    if (kind < MR_TOLD_STARTED || kind > MR_TOLD_FAILED || code < 0 || code > MR_UNAUTHENTICATED)
        return mr_invalid("Invalid report: kind %lld, code %lld", (long long)kind, (long long)code);
    out->kind = (mr_blast_report_kind)kind;
    out->code = (int)code;
    return NULL;
}

/* Fields that are 0 are left out; only the kind is always written, so that an order is never empty. */
mr_status *mr_blast_put_order(const mr_blast_order *o, mr_bytes *out)
{
    mr_str text = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &text);
    mr_pb_put_varint(&w, 1, (uint64_t)o->kind);
    mr_pb_opt_varint(&w, 2, (uint64_t)o->evaluation);
    mr_pb_opt_varint(&w, 3, (uint64_t)o->portion);
    mr_pb_opt_varint(&w, 4, (uint64_t)o->lane);
    mr_pb_opt_varint(&w, 5, o->keep);
    mr_pb_opt_varint(&w, 6, (uint64_t)o->portions);
    return finish_message(&w, &text, "order", out);
}

/* The lane must be a possible table, and the portion one of the portions. */
mr_status *mr_blast_get_order(mr_sv bytes, mr_blast_order *out)
{
    mr_pb_reader r;
    uint32_t field, wire;
    int64_t kind = 0, lane = 0;
    *out = (mr_blast_order){0};
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1: kind = mr_pb_int64(&r); break;
        case 2: out->evaluation = mr_pb_int64(&r); break;
        case 3: out->portion = mr_pb_int64(&r); break;
        case 4: lane = mr_pb_int64(&r); break;
        case 5: out->keep = mr_pb_bool(&r); break;
        case 6: out->portions = mr_pb_int64(&r); break;
        default: mr_pb_skip(&r);
        }
    MR_TRY(mr_pb_reader_status(&r, "order"));
    bool sensible = kind >= MR_WISH_START && kind <= MR_WISH_END && lane >= 0 && lane < MR_PS_MAX_TABLES;
    if (sensible && kind == MR_WISH_COMPUTE)
        sensible = out->portion >= 0 && out->portion < out->portions;
    if (!sensible)
        return mr_invalid("Invalid order: kind %lld, lane %lld, portion %lld of %lld", (long long)kind, (long long)lane,
                          (long long)out->portion, (long long)out->portions);
    out->kind = (mr_blast_order_kind)kind;
    out->lane = (int)lane;
    return NULL;
}

/* The coordinator and the replicas derive the same name, and the first one makes the table. */
mr_status *mr_blast_table(mr_ps *ps, mr_sv job, const char *vector, int number, uint64_t keys, int64_t width, int *out)
{
    mr_ps_table_options o = {.struct_size = sizeof o, .num_keys = keys, .width = (int)width, .update = MR_PS_ASSIGN};
    char *name = number < 0 ? mr_printf("%.*s/%s", MR_SV_ARG(job), vector)
                            : mr_printf("%.*s/%s %d", MR_SV_ARG(job), vector, number);
    mr_status *st = mr_ps_make_table(ps, mr_sv_of(name), &o, out);
    mr_free(name);
    return st;
}
