/* base/bytes.h -- a message as a list of pieces that are not copied.
 *
 * A piece is memory and a reference that keeps it alive; dropping the list drops each piece once. A
 * message with a large tensor is a few bytes of header, the tensor's own buffer, and a few bytes
 * more. */
#ifndef MR_BASE_BYTES_H
#define MR_BASE_BYTES_H

#include "base/str.h"
#include "base/vec.h"

typedef struct mr_piece {
    const void *data;
    size_t n;
    void (*drop)(void *owner); /* NULL: static memory.  Called once, from any thread. */
    void *owner;
    bool shared; /* another process can still write it: copy data before reading it twice */
} mr_piece;

typedef struct mr_bytes { /* all zero: empty */
    MR_VEC(mr_piece) pieces;
    size_t n; /* of all pieces */
} mr_bytes;

/* Takes over the piece. An empty piece is dropped at once, so a list never contains one. */
void mr_bytes_add(mr_bytes *b, mr_piece p);
/* Takes over s's memory and leaves it empty. */
void mr_bytes_add_str(mr_bytes *b, mr_str *s);
/* A copy, for few bytes.  false: no memory, b unchanged. */
bool mr_bytes_add_copy(mr_bytes *b, const void *data, size_t n);
/* Moves all pieces of `from` to the end of b; `from` is empty then and holds no memory. */
void mr_bytes_append(mr_bytes *b, mr_bytes *from);
void mr_bytes_deinit(mr_bytes *b); /* and ready for use again */

/* One contiguous view for a parser.  Several pieces are first joined into one of malloc, and so is
 * a shared one, so that the view stays the same bytes until b is changed or dropped.
 * RESOURCE_EXHAUSTED: b unchanged. */
mr_status *mr_bytes_flat(mr_bytes *b, mr_sv *out);
/* Copies n bytes from `at` on; false when they are not all there. */
bool mr_bytes_read(const mr_bytes *b, size_t at, void *out, size_t n);
/* Takes the piece i out of the list, which is then the caller's to drop. */
mr_piece mr_bytes_take(mr_bytes *b, int i);
static inline void mr_piece_drop(mr_piece p)
{
    if (p.drop)
        p.drop(p.owner);
}

#endif
