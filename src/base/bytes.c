/* base/bytes.c -- messages as lists of pieces.
 *
 * Invariants: no piece is empty, and b->n is the sum of their sizes. */
#include "base/bytes.h"

void mr_bytes_add(mr_bytes *b, mr_piece p)
{
    if (p.n == 0) {
        mr_piece_drop(p);
        return;
    }
    MR_ASSERT(p.data && p.n <= SIZE_MAX - b->n);
    mr_vec_push(&b->pieces, p);
    b->n += p.n;
}

void mr_bytes_add_str(mr_bytes *b, mr_str *s)
{
    mr_bytes_add(b, (mr_piece){s->p, s->n, mr_free, s->p});
    *s = (mr_str){0};
}

bool mr_bytes_add_copy(mr_bytes *b, const void *data, size_t n)
{
    void *copy = n ? mr_try_alloc(n) : NULL;
    if (n == 0 || !copy)
        return n == 0;
    memcpy(copy, data, n);
    mr_bytes_add(b, (mr_piece){copy, n, mr_free, copy});
    return true;
}

void mr_bytes_append(mr_bytes *b, mr_bytes *from)
{
    MR_ASSERT(b != from);
    mr_bytes moved = *from;
    *from = (mr_bytes){0};
    if (b->pieces.n == 0) { /* the whole list changes hands */
        mr_vec_deinit(&b->pieces);
        *b = moved;
        return;
    }
    for (int i = 0; i < moved.pieces.n; i++)
        mr_bytes_add(b, moved.pieces.p[i]);
    mr_vec_deinit(&moved.pieces);
}

void mr_bytes_deinit(mr_bytes *b)
{
    mr_bytes old = *b; /* a drop may look at b again */
    *b = (mr_bytes){0};
    for (int i = 0; i < old.pieces.n; i++)
        mr_piece_drop(old.pieces.p[i]);
    mr_vec_deinit(&old.pieces);
}

/* All pieces one after the other; out has room for them. */
static void copy_out(const mr_bytes *b, char *out)
{
    for (int i = 0; i < b->pieces.n; i++) {
        memcpy(out, b->pieces.p[i].data, b->pieces.p[i].n);
        out += b->pieces.p[i].n;
    }
}

mr_status *mr_bytes_flat(mr_bytes *b, mr_sv *out)
{
    if (b->pieces.n > 1 || (b->pieces.n == 1 && b->pieces.p[0].shared)) {
        size_t n = b->n;
        char *all = mr_try_alloc(n);
        if (!all)
            return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a message of %zu bytes", n);
        copy_out(b, all);
        mr_bytes_deinit(b);
        mr_bytes_add(b, (mr_piece){all, n, mr_free, all});
    }
    *out = b->pieces.n ? (mr_sv){b->pieces.p[0].data, b->n} : MR_SV("");
    return NULL;
}

bool mr_bytes_read(const mr_bytes *b, size_t at, void *out, size_t n)
{
    if (at > b->n || n > b->n - at)
        return false;
    char *to = out;
    for (const mr_piece *p = b->pieces.p; n > 0; p++) {
        if (at >= p->n) {
            at -= p->n;
            continue;
        }
        size_t part = MR_MIN(n, p->n - at);
        memcpy(to, (const char *)p->data + at, part);
        to += part;
        n -= part;
        at = 0;
    }
    return true;
}

mr_piece mr_bytes_take(mr_bytes *b, int i)
{
    MR_ASSERT(i >= 0 && i < b->pieces.n);
    mr_piece p = b->pieces.p[i];
    b->pieces.n--;
    b->n -= p.n;
    memmove(b->pieces.p + i, b->pieces.p + i + 1, (size_t)(b->pieces.n - i) * sizeof(p));
    return p;
}
