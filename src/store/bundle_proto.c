/* store/bundle_proto.c -- the two messages of a bundle's index, written by hand because their bytes are part of the
 * format: fields with value 0 are left out, the shape is always written. */
#include "store/bundle_proto.h"

#include "wire/pb.h"

void mr_bundle_header_encode(const mr_bundle_header *h, mr_str *out)
{
    mr_pb_writer w;
    mr_pb_writer_init(&w, out);
    mr_pb_opt_varint(&w, 1, (uint64_t)h->n_shards);
    mr_pb_opt_varint(&w, 2, h->big_endian);
    size_t mark = mr_pb_begin(&w, 3);
    mr_pb_opt_varint(&w, 1, (uint64_t)h->producer);
    mr_pb_opt_varint(&w, 2, (uint64_t)h->min_consumer);
    mr_pb_end(&w, mark);
}

/* Also rejects headers of newer versions, and numbers of shards that no writer produces: the caller allocates by that
 * number. */
mr_status *mr_bundle_header_decode(mr_sv bytes, mr_bundle_header *out)
{
    mr_pb_reader r, v;
    uint32_t field, wire;
    *out = (mr_bundle_header){0};
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire)) {
        if (field == 1)
            out->n_shards = mr_pb_int32(&r);
        else if (field == 2)
            out->big_endian = mr_pb_int32(&r) == 1;
        else if (field == 3 && mr_pb_message(&r, &v)) {
            while (mr_pb_next(&v, &field, &wire)) {
                if (field == 1)
                    out->producer = mr_pb_int32(&v);
                else if (field == 2)
                    out->min_consumer = mr_pb_int32(&v);
                else
                    mr_pb_skip(&v);
            }
        } else
            mr_pb_skip(&r);
    }
    MR_TRY(mr_pb_reader_status(&r, "BundleHeaderProto"));
    if (out->n_shards < 0 || out->n_shards > 100000)
        return mr_error(MR_DATA_LOSS, "Checkpoint header: the number of shards is %d, expected 0 to 100000",
                        out->n_shards);
    if (out->min_consumer > MR_BUNDLE_VERSION || out->producer < 0)
        return mr_invalid("Checkpoint of version %d needs a reader of version %d or later; this reader has version %d",
                          out->producer, out->min_consumer, MR_BUNDLE_VERSION);
    return NULL;
}

/* The caller's slices are already encoded, with tag and length, so they are appended as raw bytes. */
void mr_bundle_entry_encode(const mr_bundle_entry *e, mr_sv slices, mr_str *out)
{
    mr_pb_writer w;
    mr_pb_writer_init(&w, out);
    mr_pb_opt_varint(&w, 1, (uint64_t)e->dtype);
    size_t mark = mr_pb_begin(&w, 2);
    for (int i = 0; i < e->shape.rank; i++) {
        size_t dim = mr_pb_begin(&w, 2);
        mr_pb_opt_varint(&w, 1, (uint64_t)e->shape.dims[i]);
        mr_pb_end(&w, dim);
    }
    mr_pb_end(&w, mark);
    mr_pb_opt_varint(&w, 3, (uint64_t)e->shard);
    mr_pb_opt_varint(&w, 4, e->offset);
    mr_pb_opt_varint(&w, 5, e->size);
    mr_pb_opt_fixed32(&w, 6, e->crc);
    mr_pb_put_raw(&w, slices.p, slices.n);
}

static mr_status *read_shape(mr_pb_reader *r, mr_shape *out)
{
    mr_pb_reader d;
    uint32_t field, wire;
    out->rank = 0;
    while (mr_pb_next(r, &field, &wire)) {
        int64_t size = 0;
        if (field != 2) {
            mr_pb_skip(r);
            continue;
        }
        mr_pb_message(r, &d);
        while (mr_pb_next(&d, &field, &wire)) {
            if (field == 1)
                size = mr_pb_int64(&d);
            else
                mr_pb_skip(&d);
        }
        if (size < 0)
            return mr_error(MR_DATA_LOSS, "Checkpoint entry: a dimension is negative (%lld)", (long long)size);
        MR_TRY(mr_shape_push(out, size));
    }
    return NULL;
}

/* Only a negative dimension and malformed bytes are errors here; the reader checks the type, the shard and the size
 * when it uses the entry. */
mr_status *mr_bundle_entry_decode(mr_sv bytes, mr_bundle_entry *out,
                                  mr_status *(*on_slice)(void *ctx, mr_sv slice_proto), void *ctx)
{
    mr_pb_reader r, sub;
    uint32_t field, wire;
    out->dtype = MR_INVALID;
    out->shard = out->n_slices = 0;
    out->offset = out->size = out->crc = 0;
    out->shape.rank = 0;
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire)) {
        switch (field) {
        case 1: out->dtype = (mr_dtype)mr_pb_int32(&r); break;
        case 2:
            mr_pb_message(&r, &sub);
            MR_TRY(read_shape(&sub, &out->shape));
            break;
        case 3: out->shard = mr_pb_int32(&r); break;
        case 4: out->offset = mr_pb_varint(&r); break;
        case 5: out->size = mr_pb_varint(&r); break;
        case 6: out->crc = mr_pb_fixed32(&r); break;
        case 7: {
            mr_sv slice = mr_pb_bytes(&r);
            out->n_slices++;
            if (on_slice && !r.error)
                MR_TRY(on_slice(ctx, slice));
            break;
        }
        default: mr_pb_skip(&r);
        }
    }
    return mr_pb_reader_status(&r, "BundleEntryProto");
}

char *mr_bundle_data_path(const char *prefix, int shard, int n_shards)
{
    return mr_printf("%s.data-%05d-of-%05d", prefix, shard, n_shards);
}

char *mr_bundle_index_path(const char *prefix) { return mr_printf("%s.index", prefix); }
