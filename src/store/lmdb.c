/* store/lmdb.c -- see lmdb.h.
 *
 * Written by hand because liblmdb trusts the files it maps: a damaged file makes it follow wild pointers, divide by
 * zero or abort, and a file that shrinks while it is mapped kills the process with SIGBUS.  Here pages are read into
 * buffers, and every number in a page is checked against the page and the file before it is used.
 *
 * A database is a B+ tree.  A walk holds the pages from the root to the current leaf, at most MAX_DEPTH of them.  In a
 * sound file no page is reached twice, so the reader stops after as many pages as the file has.  That bounds the time
 * for files whose pages form cycles. */
#include "store/lmdb.h"

#include "base/file.h"
#include "base/memory.h"

enum {
    PAGE_HEAD = 16,   /* number 8, pad 2, flags 2, then lower 2 and upper 2, or the count of overflow pages 4 */
    NODE_HEAD = 8,    /* size or page 4, flags 2, bytes of the key 2 */
    DB_BYTES = 48,    /* pad 4, flags 2, depth 2, four counts of 8, root 8 */
    META_BYTES = 136, /* magic 4, version 4, address 8, map size 8, two databases, last page 8, transaction 8 */
    META_DBS = 24, META_LAST = 120, META_TXN = 128,
    MIN_PAGE = 256, MAX_PAGE = 65536, MAX_DEPTH = 32,
};
#define MAGIC UINT32_C(0xbeefc0de)
enum { P_BRANCH = 1, P_LEAF = 2, P_META = 8, P_LEAF2 = 32 };
enum { F_BIG = 1, F_SUBTREE = 2, F_DUPLICATES = 4 };
#define NO_PAGE UINT64_MAX

typedef struct level {
    uint8_t *page; /* owned */
    int at, n;     /* the entry it is at, -1 before the first; entries */
} level;

typedef struct walk {
    level levels[MAX_DEPTH];
    int depth;
} walk;

struct mr_lmdb {
    mr_file *f;
    size_t page_bytes;
    uint64_t n_pages, n_read; /* in the file; read by now */
    walk records, values;     /* the main database; the duplicates of the current key, if they are a tree */
    const uint8_t *sub;       /* the page inside the leaf with these duplicates, if they are few; else NULL */
    size_t sub_bytes;
    int sub_at, sub_n;
    mr_sv key;
    mr_str big; /* a value that is on overflow pages */
};

static uint64_t get_uint(const uint8_t *p, int bytes)
{
    uint64_t v = 0;
    for (int i = bytes - 1; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}
static int get_uint16(const uint8_t *p) { return (int)get_uint(p, 2); }

static mr_status *bad_file(const mr_lmdb *l, const char *what)
{
    return mr_invalid("%s: %s", what, mr_file_path(l->f));
}
static mr_status *corrupted_file(const mr_lmdb *l) { return bad_file(l, "MDB_CORRUPTED: Located page was wrong type"); }

/* In TensorFlow all errors of liblmdb and of the system are INVALID_ARGUMENT here.  OUT_OF_RANGE above all must not be
 * returned: callers would take a file that has shrunk for the end of the data. */
static mr_status *as_invalid(mr_status *st)
{
    mr_status *invalid = st ? mr_invalid("%s", mr_status_message(st)) : NULL;
    mr_status_free(st);
    return invalid;
}

static mr_status *read_bytes(const mr_lmdb *l, uint64_t offset, size_t n, void *out)
{
    return as_invalid(mr_file_read_at(l->f, offset, n, out));
}

/* ---- pages ---- */

/* The number of entries of a page; -1 if it has no room for that many. */
static int entries_of(const uint8_t *page, size_t bytes)
{
    int lower = get_uint16(page + 12), n = (lower - PAGE_HEAD) / 2;
    if (lower < PAGE_HEAD)
        return -1;
    if (get_uint16(page + 10) & P_LEAF2) /* in place of offsets there are the keys, all of the size in pad */
        return (size_t)n * (size_t)get_uint16(page + 8) <= bytes - PAGE_HEAD ? n : -1;
    return (size_t)lower <= bytes ? n : -1;
}

/* Reads a page and pushes it on the walk. */
static mr_status *push_page(mr_lmdb *l, walk *w, uint64_t number)
{
    if (number >= l->n_pages)
        return bad_file(l, "MDB_PAGE_NOTFOUND: Requested page not found");
    if (w->depth == MAX_DEPTH || ++l->n_read > l->n_pages)
        return corrupted_file(l);
    level *v = &w->levels[w->depth];
    v->page = v->page ? v->page : mr_try_alloc(l->page_bytes);
    if (!v->page)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a page of %zu bytes", l->page_bytes);
    MR_TRY(read_bytes(l, number * l->page_bytes, l->page_bytes, v->page));
    v->at = -1;
    v->n = entries_of(v->page, l->page_bytes);
    int kind = get_uint16(v->page + 10) & (P_BRANCH | P_LEAF);
    if (v->n < 0 || (kind != P_BRANCH && kind != P_LEAF))
        return corrupted_file(l);
    w->depth++;
    return NULL;
}

typedef struct entry {
    mr_sv key, data;
    int flags;
    uint64_t said; /* the size of the data, also if it is on overflow pages; in a branch: the page below */
} entry;

/* Reads entry i of a page of `bytes` bytes; false if a part of it would be outside of the page. */
static bool read_entry(const uint8_t *page, size_t bytes, int i, entry *e)
{
    int flags = get_uint16(page + 10);
    if (flags & P_LEAF2) {
        size_t n = (size_t)get_uint16(page + 8);
        *e = (entry){.key = {(const char *)page + PAGE_HEAD + (size_t)i * n, n}};
        return true; /* entries_of has checked the bounds */
    }
    size_t at = (size_t)get_uint16(page + PAGE_HEAD + 2 * i), rest;
    if (at < PAGE_HEAD || at + NODE_HEAD > bytes)
        return false;
    const uint8_t *p = page + at;
    size_t key = (size_t)get_uint16(p + 6);
    rest = bytes - at - NODE_HEAD;
    if (key > rest)
        return false;
    *e = (entry){.key = {(const char *)p + NODE_HEAD, key}, .flags = get_uint16(p + 4), .said = get_uint(p, 4)};
    if (flags & P_BRANCH) {
        e->said |= (uint64_t)e->flags << 32;
        return true;
    }
    size_t data = e->flags & F_BIG ? sizeof(uint64_t) : (size_t)e->said;
    e->data = (mr_sv){(const char *)p + NODE_HEAD + key, data};
    return data <= rest - key;
}

/* The next entry of a leaf, going up and down as needed; *at_end when the tree has no more. */
static mr_status *walk_next(mr_lmdb *l, walk *w, entry *e, bool *at_end)
{
    while (w->depth > 0) {
        level *v = &w->levels[w->depth - 1];
        if (++v->at >= v->n) {
            w->depth--;
            continue;
        }
        if (!read_entry(v->page, l->page_bytes, v->at, e))
            return corrupted_file(l);
        if (get_uint16(v->page + 10) & P_LEAF)
            return NULL;
        MR_TRY(push_page(l, w, e->said));
    }
    *at_end = true;
    return NULL;
}

static mr_status *walk_begin(mr_lmdb *l, walk *w, const uint8_t *db)
{
    uint64_t root = get_uint(db + DB_BYTES - 8, 8);
    w->depth = 0;
    return root == NO_PAGE ? NULL : push_page(l, w, root);
}

/* ---- opening ---- */

/* One of the two meta pages. */
static mr_status *read_meta(mr_lmdb *l, uint64_t offset, uint8_t *meta)
{
    uint8_t head[PAGE_HEAD];
    if (offset + PAGE_HEAD + META_BYTES > mr_file_bytes(l->f))
        return bad_file(l, mr_file_bytes(l->f) == 0 ? "No such file or directory"
                                                    : "MDB_INVALID: File is not an LMDB file");
    MR_TRY(read_bytes(l, offset, sizeof head, head));
    MR_TRY(read_bytes(l, offset + PAGE_HEAD, META_BYTES, meta));
    if (!(get_uint16(head + 10) & P_META) || get_uint(meta, 4) != MAGIC)
        return bad_file(l, "MDB_INVALID: File is not an LMDB file");
    if (get_uint(meta + 4, 4) != 1)
        return bad_file(l, "MDB_VERSION_MISMATCH: Database environment version mismatch");
    return NULL;
}

/* Reads the meta pages: the newer one has the root. */
static mr_status *read_head(mr_lmdb *l)
{
    uint8_t meta[2][META_BYTES];
    MR_TRY(read_meta(l, 0, meta[0]));
    uint64_t bytes = get_uint(meta[0] + META_DBS, 4); /* kept in the pad of the first database */
    if (bytes < MIN_PAGE || bytes > MAX_PAGE || (bytes & (bytes - 1)) != 0)
        return bad_file(l, "MDB_INVALID: File is not an LMDB file");
    MR_TRY(read_meta(l, bytes, meta[1]));
    const uint8_t *m = meta[get_uint(meta[0] + META_TXN, 8) < get_uint(meta[1] + META_TXN, 8)];
    uint64_t last = get_uint(m + META_LAST, 8), whole = mr_file_bytes(l->f) / bytes;
    l->page_bytes = (size_t)bytes;
    l->n_pages = last < whole ? last + 1 : whole;
    return walk_begin(l, &l->records, m + META_DBS + DB_BYTES);
}

mr_status *mr_lmdb_open(const char *path, mr_lmdb **out)
{
    char *inside = mr_dir_exists(path) ? mr_printf("%s/data.mdb", path) : NULL;
    mr_lmdb *l = mr_new(mr_lmdb);
    mr_status *st = as_invalid(mr_file_open(inside ? inside : path, &l->f));
    mr_free(inside);
    if (!st)
        st = read_head(l);
    *out = st ? NULL : l;
    if (st)
        mr_lmdb_close(l);
    return st;
}

void mr_lmdb_close(mr_lmdb *l)
{
    if (!l)
        return;
    for (int i = 0; i < MAX_DEPTH; i++) {
        mr_free(l->records.levels[i].page);
        mr_free(l->values.levels[i].page);
    }
    mr_str_deinit(&l->big);
    mr_file_close(l->f);
    mr_free(l);
}

/* ---- records ---- */

/* A value that begins after the head of an overflow page and continues on the pages after it. */
static mr_status *read_big(mr_lmdb *l, const entry *e, mr_sv *value)
{
    uint64_t page = get_uint((const uint8_t *)e->data.p, 8), n = e->said;
    if (page >= l->n_pages)
        return bad_file(l, "MDB_PAGE_NOTFOUND: Requested page not found");
    if (n + PAGE_HEAD > (l->n_pages - page) * l->page_bytes)
        return corrupted_file(l);
    mr_str_clear(&l->big);
    if (!mr_str_try_reserve(&l->big, (size_t)n))
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a value of %llu bytes", (unsigned long long)n);
    MR_TRY(read_bytes(l, page * l->page_bytes + PAGE_HEAD, (size_t)n, l->big.p));
    *value = (mr_sv){l->big.p, (size_t)n};
    return NULL;
}

/* Begins the duplicates of a key: they are the keys of a tree, or of a small page that is the data of the entry. */
static mr_status *begin_values(mr_lmdb *l, const entry *e)
{
    const uint8_t *p = (const uint8_t *)e->data.p;
    if (e->flags & F_SUBTREE)
        return e->data.n < DB_BYTES ? corrupted_file(l) : walk_begin(l, &l->values, p);
    if (e->data.n < PAGE_HEAD || (l->sub_n = entries_of(p, e->data.n)) < 0 || !(get_uint16(p + 10) & P_LEAF))
        return corrupted_file(l);
    l->sub = p;
    l->sub_bytes = e->data.n;
    l->sub_at = -1;
    return NULL;
}

/* The next of the current key's duplicates; *found false when there is none. */
static mr_status *next_value(mr_lmdb *l, mr_sv *value, bool *found)
{
    entry e;
    bool end = false;
    *found = false;
    if (l->sub && ++l->sub_at < l->sub_n) {
        if (!read_entry(l->sub, l->sub_bytes, l->sub_at, &e))
            return corrupted_file(l);
    } else {
        l->sub = NULL;
        MR_TRY(walk_next(l, &l->values, &e, &end));
        if (end)
            return NULL;
    }
    *value = e.key;
    *found = true;
    return NULL;
}

/* First the remaining duplicates of the current key, then the next key. After an error the next call continues after
 * the damaged part. */
mr_status *mr_lmdb_next(mr_lmdb *l, mr_sv *key, mr_sv *value, bool *at_end)
{
    bool found;
    *at_end = false;
    for (;;) {
        entry e = {0};
        MR_TRY(next_value(l, value, &found));
        *key = l->key;
        if (found)
            return NULL;
        MR_TRY(walk_next(l, &l->records, &e, at_end));
        if (*at_end)
            return NULL;
        *key = l->key = e.key;
        if (!(e.flags & F_DUPLICATES)) {
            *value = e.data;
            return e.flags & F_BIG ? read_big(l, &e, value) : NULL;
        }
        MR_TRY(begin_values(l, &e));
    }
}
