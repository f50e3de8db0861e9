/* ps/wire.h -- messages of the parameter server as bytes; docs/formats/ps.md has the fields.
 *
 * Every body is a head (its size in 4 bytes, then protobuf) followed by raw bytes: keys and floats,
 * which the head describes and which are sent as they are in memory. Nothing that came from a peer
 * is trusted: a head is copied before it is read, because a peer on this host may still write to
 * it, and sizes are compared with the bytes that exist before memory is allocated. */
#ifndef MR_PS_WIRE_H
#define MR_PS_WIRE_H

#include "base/bytes.h"
#include "base/thread.h"
#include "dist/ps_clock.h"
#include "dist/ps_view.h"
#include "ps/store.h"
#include "wire/pb.h"

#define MR_PS_SERVICE "/millrace.ParameterService/"
#define MR_PS_MANAGER_SERVICE "/millrace.ParameterManager/"

/* ---- memory that several messages and records share ---- */

/* Counts the bytes of blobs and pieces that were made with it and are not freed yet. From any thread;
 * it lives as long as the last of them. */
typedef struct mr_ps_tally {
    mr_refs refs;
    _Atomic size_t bytes;
} mr_ps_tally;
mr_ps_tally *mr_ps_tally_new(void);
void mr_ps_tally_unref(mr_ps_tally *t); /* NULL is fine */

typedef struct mr_ps_blob {
    mr_refs refs;
    mr_ps_tally *tally; /* counts its bytes; NULL: none */
    size_t n;
    _Alignas(16) char data[];
} mr_ps_blob;
mr_ps_blob *mr_ps_blob_new(size_t n); /* NULL: no memory */
mr_ps_blob *mr_ps_blob_new_counted(size_t n, mr_ps_tally *t);
mr_ps_blob *mr_ps_blob_ref(mr_ps_blob *b);
void mr_ps_blob_unref(mr_ps_blob *b); /* NULL is fine */
/* Adds a part of a blob to a message; the piece holds a reference to the blob. */
void mr_ps_bytes_add(mr_bytes *to, mr_ps_blob *b, const void *p, size_t n);

/* As mr_bytes_add_str, counted. */
void mr_ps_bytes_add_str(mr_bytes *to, mr_str *s, mr_ps_tally *t);

/* ---- a body ---- */

/* Writing: begin, put fields with w, end. *out is the body. The end takes over head and raw (may be
 * NULL), also on error. */
void mr_ps_head_begin(mr_pb_writer *w, mr_str *head);
mr_status *mr_ps_head_end(mr_pb_writer *w, mr_str *head, mr_bytes *raw, mr_bytes *out);

typedef struct mr_ps_frame { /* reading */
    mr_sv head;
    char *memory;
    const mr_bytes *body;
    size_t raw_at, raw_n;
} mr_ps_frame;
mr_status *mr_ps_frame_open(const mr_bytes *body, mr_ps_frame *out);
void mr_ps_frame_deinit(mr_ps_frame *f);
/* Copies n raw bytes from offset `at`; INVALID_ARGUMENT if the body has fewer. */
mr_status *mr_ps_frame_read(const mr_ps_frame *f, size_t at, size_t n, void *out);
/* The same, into a new blob. */
mr_status *mr_ps_frame_take(const mr_ps_frame *f, size_t at, size_t n, mr_ps_blob **out);

/* ---- lists of numbers of which neighbours are similar ---- */

typedef MR_VEC(uint64_t) mr_ps_numbers;
/* Packed varints of the differences, zigzag-encoded. Writes nothing for an empty list. */
void mr_ps_put_numbers(mr_pb_writer *w, uint32_t field, const mr_ps_numbers *v);
/* Appends to out; more than `max` numbers in all is an error of the reader. */
void mr_ps_get_numbers(mr_pb_reader *r, int max, mr_ps_numbers *out);

/* ---- views ---- */

typedef struct mr_ps_map { /* a view, and the addresses of its servers */
    mr_ps_view view;
    MR_VEC(char *) addresses; /* of view.servers, in their order */
} mr_ps_map;
void mr_ps_map_deinit(mr_ps_map *m);
const char *mr_ps_map_address(const mr_ps_map *m, uint64_t id); /* NULL: not in it */
/* address(arg, id) returns the address of a server. */
void mr_ps_view_put(mr_pb_writer *w, const mr_ps_view *v, const char *(*address)(void *arg, uint64_t id), void *arg);
/* The view is checked (mr_ps_view_check). *out must be empty; the caller owns it, also after an error. */
mr_status *mr_ps_map_get(mr_sv bytes, mr_ps_map *out);

/* ---- changes, in records ---- */

/* Size of the raw bytes of a change: its keys, then its floats, each padded to 8 bytes. */
size_t mr_ps_change_raw(const mr_ps_change *c, const mr_ps_table_spec *t); /* SIZE_MAX: too large for any memory */
void mr_ps_change_put(mr_pb_writer *w, const mr_ps_change *c);
/* Reads what mr_ps_change_put wrote, but for keys and floats. */
void mr_ps_change_get(mr_pb_reader *r, mr_ps_change *out, bool *listed);

/* Ends a body without raw bytes. */
static inline mr_status *mr_ps_head_end_alone(mr_pb_writer *w, mr_str *head, mr_bytes *out)
{
    return mr_ps_head_end(w, head, NULL, out);
}

#endif
