/* net/grpc/body.c -- messages as lists of pieces and as gRPC's slices.
 *
 * Sending: a slice refers to the piece's own memory, and drops the piece when gRPC releases the slice,
 * from any of its threads. Receiving: the pieces refer to the slices, which are kept together until
 * all pieces are dropped; until then gRPC must not be shut down (mr_grpc_use). */
#include "net/grpc/grpc.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>

enum { COPY_BYTES = 256 }; /* up to this size copying is cheaper than a slice with a reference */

mr_sv mr_slice_view(const grpc_slice *s)
{
    return (mr_sv){(const char *)GRPC_SLICE_START_PTR(*s), GRPC_SLICE_LENGTH(*s)};
}

/* ---- sending ---- */

/* gRPC has released the slice. */
static void drop_piece(void *arg)
{
    mr_piece *p = arg;
    MR_GET(p);
    mr_piece_drop(*p);
    mr_free(p);
}

/* Makes a slice of a piece and takes the piece. */
static grpc_slice slice_of(mr_piece p)
{
    if (p.n <= COPY_BYTES) {
        grpc_slice s = grpc_slice_from_copied_buffer(p.data, p.n);
        mr_piece_drop(p);
        return s;
    }
    if (!p.drop)
        return grpc_slice_from_static_buffer(p.data, p.n);
    mr_piece *kept = mr_alloc(sizeof(p));
    *kept = p;
    MR_GIVE(kept);
    return grpc_slice_new_with_user_data((void *)(uintptr_t)p.data, p.n, drop_piece, kept);
}

/* Takes all pieces: *b is empty afterwards. Up to 16 slices need no allocation. */
grpc_byte_buffer *mr_body_to_grpc(mr_bytes *b)
{
    int n = b->pieces.n;
    grpc_slice few[16], *slices = n <= MR_COUNT(few) ? few : mr_new_array(grpc_slice, n);
    for (int i = 0; i < n; i++)
        slices[i] = slice_of(b->pieces.p[i]);
    grpc_byte_buffer *g = grpc_raw_byte_buffer_create(slices, (size_t)n);
    for (int i = 0; i < n; i++)
        grpc_slice_unref(slices[i]); /* the buffer has its own references */
    if (slices != few)
        mr_free(slices);
    mr_vec_deinit(&b->pieces);
    *b = (mr_bytes){0};
    return g;
}

/* ---- receiving ---- */

/* The slices of a received message. */
typedef struct slices {
    mr_refs refs; /* one for each piece, and one while they are collected */
    int n;
    grpc_slice p[];
} slices;

/* Drops one reference, from any thread. The last one releases the slices and lets gRPC be shut down. */
static void drop_slices(void *arg)
{
    slices *s = arg;
    if (!mr_refs_drop(&s->refs))
        return;
    for (int i = 0; i < s->n; i++)
        grpc_slice_unref(s->p[i]);
    mr_free(s);
    mr_grpc_unuse();
}

/* Collects all slices of a buffer; NULL: there is no memory. The number of slices is the sender's
 * choice, so the array may fail to grow. */
static slices *collect_slices(grpc_byte_buffer *g)
{
    grpc_byte_buffer_reader r;
    int cap = 4;
    slices *s = mr_try_alloc(sizeof(*s) + (size_t)cap * sizeof(grpc_slice));
    if (!s || !grpc_byte_buffer_reader_init(&r, g)) {
        mr_free(s);
        return NULL;
    }
    mr_refs_init(&s->refs);
    mr_grpc_use();
    for (s->n = 0; grpc_byte_buffer_reader_next(&r, &s->p[s->n]); s->n++) {
        MR_ASSERT(s->n < cap);
        if (s->n + 1 < cap)
            continue;
        slices *more = cap < INT32_MAX / 2
                           ? mr_try_realloc(s, sizeof(*s) + 2 * (size_t)cap * sizeof(grpc_slice))
                           : NULL;
        if (!more) {
            s->n++;
            drop_slices(s);
            s = NULL;
            break;
        }
        s = more;
        cap *= 2;
    }
    grpc_byte_buffer_reader_destroy(&r);
    return s;
}

/* The views are taken of the slices in their final place, because short slices hold their bytes
 * themselves. */
mr_status *mr_body_from_grpc(grpc_byte_buffer *g, mr_bytes *out)
{
    size_t n = grpc_byte_buffer_length(g);
    slices *s = collect_slices(g);
    grpc_byte_buffer_destroy(g);
    if (!s)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a message of %zu bytes", n);
    for (int i = 0; i < s->n; i++) {
        mr_sv v = mr_slice_view(&s->p[i]);
        mr_refs_take(&s->refs);
        mr_bytes_add(out, (mr_piece){v.p, v.n, drop_slices, s});
    }
    drop_slices(s);
    return NULL;
}
