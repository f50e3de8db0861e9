/* net/frame.c -- frames of the local transport and of that over TCP, written and read.
 *
 *     IN_HEAD --40 bytes--> IN_META --text and parts--> IN_BODY --stream_bytes--> the frame, IN_HEAD
 *
 * The reader passes through three states per frame: head, meta, body. Small frames are cut out of the
 * stage, many at a time; if a body is longer than what the stage holds, the rest is read directly into
 * the body's own memory. Nothing is allocated before the head was found valid and the budget allows
 * it. */
#include "net/frame.h"

#include <endian.h>

#include "tensor/allocator.h"

enum { STAGE_BYTES = 32 << 10 };
enum { IN_HEAD, IN_META, IN_BODY };

/* ---- numbers ---- */

/* Numbers are little-endian and may start at any address, so they are copied byte by byte. */

static void put16(uint8_t *p, uint16_t v) { v = htole16(v), memcpy(p, &v, 2); }
static void put32(uint8_t *p, uint32_t v) { v = htole32(v), memcpy(p, &v, 4); }
static void put64(uint8_t *p, uint64_t v) { v = htole64(v), memcpy(p, &v, 8); }

static uint16_t get16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, 2);
    return le16toh(v);
}

static uint32_t get32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return le32toh(v);
}

static uint64_t get64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return le64toh(v);
}

/* The bytes between the fields (1, and 36 to 39) are reserved: 0 when written, and checked when read. */
void mr_frame_head_write(const mr_frame_head *h, uint8_t out[MR_FRAME_HEAD])
{
    memset(out, 0, MR_FRAME_HEAD);
    out[0] = h->kind;
    put16(out + 2, h->n_parts);
    put32(out + 4, h->text_bytes);
    put64(out + 8, h->id);
    put64(out + 16, h->stream_bytes);
    put64(out + 24, (uint64_t)h->value);
    put32(out + 32, h->segment);
}

/* Whether a head is valid: only calls have texts and bodies, and a segment is used by parts. */
static bool is_sound(const mr_frame_head *h, const uint8_t *in)
{
    bool call = h->kind == MR_FRAME_REQUEST || h->kind == MR_FRAME_REPLY;
    return h->kind >= MR_FRAME_REQUEST && h->kind <= MR_FRAME_FORGET && in[1] == 0 &&
           get32(in + 36) == 0 && h->n_parts <= MR_FRAME_MAX_PARTS &&
           h->text_bytes <= MR_FRAME_MAX_TEXT && (h->segment == 0 || h->n_parts != 0) &&
           (call || (!h->text_bytes && !h->stream_bytes && !h->n_parts)) &&
           (h->kind != MR_FRAME_REPLY || (h->value >= 0 && h->value <= INT32_MAX)) &&
           (h->kind != MR_FRAME_REQUEST || h->value >= 0);
}

/* After this the reader may rely on the limits of text_bytes and n_parts. stream_bytes may still have any
 * value; begin_body checks it against max_message and the budget. */
mr_status *mr_frame_head_read(const uint8_t in[MR_FRAME_HEAD], mr_frame_head *out)
{
    *out = (mr_frame_head){.kind = in[0],
                           .n_parts = get16(in + 2),
                           .text_bytes = get32(in + 4),
                           .id = get64(in + 8),
                           .stream_bytes = get64(in + 16),
                           .value = (int64_t)get64(in + 24),
                           .segment = get32(in + 32)};
    if (!is_sound(out, in))
        return mr_invalid("invalid frame head (kind %d)", out->kind);
    return NULL;
}

void mr_frame_part_write(mr_frame_part p, uint8_t out[MR_FRAME_PART])
{
    put64(out, p.offset);
    put64(out + 8, p.n);
}

mr_frame_part mr_frame_part_read(const uint8_t in[MR_FRAME_PART])
{
    return (mr_frame_part){get64(in), get64(in + 8)};
}

/* ---- memory of bodies ---- */

/* The memory of a body that came through the socket.  It comes from the allocator of tensors, which keeps what is
 * freed, so that a tensor can be received in its final place, and into pages that are mapped already. */
typedef struct mr_frame_block {
    mr_refs refs; /* one for each piece, and one for the reader while it fills the block */
    mr_net_budget *budget;
    size_t counted; /* bytes of the budget */
    size_t bytes;
    char *data;
} block;

/* Drops one reference, from any thread. The last one returns the bytes to the budget. */
static void block_drop(void *p)
{
    block *b = p;
    if (!mr_refs_drop(&b->refs))
        return;
    mr_allocator *a = mr_cpu_allocator();
    mr_net_budget_give(b->budget, b->counted);
    a->free(a, b->data, b->bytes);
    mr_small_free(b, sizeof(*b));
}

/* NULL: the budget is used up, or there is no memory. */
static block *block_new(mr_net_budget *budget, size_t n)
{
    mr_allocator *a = mr_cpu_allocator();
    if (!mr_net_budget_take(budget, n))
        return NULL;
    char *data = a->alloc(a, n);
    if (!data) {
        mr_net_budget_give(budget, n);
        return NULL;
    }
    block *b = mr_small_alloc(sizeof(*b));
    mr_refs_init(&b->refs);
    b->budget = budget;
    b->counted = b->bytes = n;
    b->data = data;
    return b;
}

/* A piece of the block; it holds one reference until it is dropped. */
static mr_piece block_piece(block *b, size_t at, size_t n)
{
    mr_refs_take(&b->refs);
    return (mr_piece){b->data + at, n, block_drop, b};
}

/* ---- the reader ---- */

/* Borrows the table and the budget, which must outlive the reader. */
void mr_frame_reader_init(mr_frame_reader *r, mr_segment_table *table, mr_net_budget *budget,
                          size_t max_message)
{
    r->table = table;
    r->budget = budget;
    r->max_message = max_message;
    r->stage = mr_alloc(STAGE_BYTES);
    r->begin = r->end = 0;
    r->state = IN_HEAD;
    r->block = NULL;
}

/* Frees a body that is incomplete. Bodies that were handed out keep their memory until they are dropped. */
void mr_frame_reader_deinit(mr_frame_reader *r)
{
    if (r->block)
        block_drop(r->block);
    r->block = NULL;
    mr_free(r->stage);
    r->stage = NULL;
}

/* ---- runs: the parts of the body that are in the stream, or all of it ---- */

static mr_frame_part part_of(const mr_frame_reader *r, int i)
{
    MR_ASSERT(i < r->head.n_parts);
    return mr_frame_part_read(r->meta + r->head.text_bytes + (size_t)i * MR_FRAME_PART);
}

/* Where a run starts in the block, and the next one after it: tensors need aligned memory. */
static size_t run_room(size_t n) { return (n + MR_SEGMENT_ALIGN - 1) & ~(size_t)(MR_SEGMENT_ALIGN - 1); }

static char *run_end(const mr_frame_reader *r) { return r->block->data + r->run_at + r->run_got; }
static size_t run_left(const mr_frame_reader *r) { return r->run_bytes - r->run_got; }

/* Goes to the next run that has bytes, from the part `run` on. */
static void find_run(mr_frame_reader *r)
{
    r->run_got = r->run_bytes = 0;
    for (; r->run < r->head.n_parts && !r->run_bytes; r->run++) {
        mr_frame_part p = part_of(r, r->run);
        if (p.offset == MR_FRAME_IN_STREAM)
            r->run_bytes = (size_t)p.n;
    }
}

/* n bytes of the present run have come. */
static void advance_run(mr_frame_reader *r, size_t n)
{
    MR_ASSERT(n <= run_left(r));
    r->body_got += n;
    r->run_got += n;
    if (run_left(r) > 0)
        return;
    r->run_at += run_room(r->run_bytes);
    find_run(r);
}

/* The bytes of the block; the parts in the stream must be exactly as long as the body. Sizes come from the peer: their
 * sum is compared before it can overflow, and stream_bytes is limited. */
static mr_status *measure_runs(const mr_frame_reader *r, size_t *bytes)
{
    uint64_t left = r->head.stream_bytes;
    *bytes = r->head.n_parts ? 0 : (size_t)left;
    for (int i = 0; i < r->head.n_parts; i++) {
        mr_frame_part p = part_of(r, i);
        if (p.offset != MR_FRAME_IN_STREAM)
            continue;
        if (p.n > left)
            return mr_invalid("the parts of a frame are longer than its body");
        left -= p.n;
        if (r->head.stream_bytes > r->max_message)
            continue; /* it will be thrown away */
        if (p.n > SIZE_MAX - MR_SEGMENT_ALIGN || !mr_size_add(*bytes, run_room((size_t)p.n), bytes))
            return mr_invalid("the parts of a frame are longer than memory");
    }
    return r->head.n_parts && left ? mr_invalid("the parts of a frame are shorter than its body") : NULL;
}

/* Where the next bytes go: the rest of a run, if a body is being read, then the stage. */
int mr_frame_reader_space(mr_frame_reader *r, struct iovec out[2])
{
    int n = 0;
    /* mr_frame_reader_next has consumed everything but the beginning of a head. */
    MR_ASSERT(r->end - r->begin < MR_FRAME_HEAD);
    memmove(r->stage, r->stage + r->begin, r->end - r->begin);
    r->end -= r->begin;
    r->begin = 0;
    if (r->state == IN_BODY && r->block) {
        MR_ASSERT(r->end == 0 && r->body_got < r->head.stream_bytes);
        out[n++] = (struct iovec){run_end(r), run_left(r)};
    }
    out[n++] = (struct iovec){r->stage + r->end, STAGE_BYTES - r->end};
    return n;
}

/* n bytes were written to the places that mr_frame_reader_space returned, the first place first. */
void mr_frame_reader_came(mr_frame_reader *r, size_t n)
{
    if (r->state == IN_BODY && r->block) {
        size_t direct = MR_MIN(n, run_left(r));
        advance_run(r, direct);
        n -= direct;
    }
    MR_ASSERT(r->end <= STAGE_BYTES && n <= STAGE_BYTES - r->end);
    r->end += n;
}

/* Moves up to n bytes from the stage; to NULL: they are dropped. */
static size_t take_staged(mr_frame_reader *r, void *to, uint64_t n)
{
    MR_ASSERT(r->begin <= r->end);
    size_t have = r->end - r->begin, part = n < have ? (size_t)n : have;
    if (to && part)
        memcpy(to, r->stage + r->begin, part);
    r->begin += part;
    return part;
}

/* A whole head is in the stage: checks it, and prepares for the text and the parts behind it. */
static mr_status *begin_frame(mr_frame_reader *r)
{
    MR_ASSERT(r->state == IN_HEAD && r->end - r->begin >= MR_FRAME_HEAD);
    MR_TRY(mr_frame_head_read(r->stage + r->begin, &r->head));
    r->begin += MR_FRAME_HEAD;
    r->state = IN_META;
    r->meta_got = 0;
    r->meta_bytes = r->head.text_bytes + (size_t)r->head.n_parts * MR_FRAME_PART;
    MR_ASSERT(r->meta_bytes <= sizeof(r->meta)); /* mr_frame_head_read has checked both */
    r->text = (mr_sv){"", 0};
    return NULL;
}

/* Text and parts are complete. If there is no memory for the body, its bytes are dropped as they
 * arrive, and the frame is marked as too large. */
static mr_status *begin_body(mr_frame_reader *r)
{
    MR_ASSERT(r->state == IN_META && !r->block);
    uint64_t n = r->head.stream_bytes;
    size_t bytes;
    MR_TRY(measure_runs(r, &bytes));
    r->state = IN_BODY;
    r->body_got = 0;
    r->block = n && n <= r->max_message ? block_new(r->budget, bytes) : NULL;
    r->too_large = n && !r->block;
    r->text = (mr_sv){(char *)r->meta, r->head.text_bytes};
    r->run = 0;
    r->run_at = 0;
    if (r->block && r->head.n_parts)
        find_run(r);
    else
        r->run_bytes = (size_t)n, r->run_got = 0;
    return NULL;
}

/* Moves what the stage has of the body to its place, or drops it. */
static void take_body(mr_frame_reader *r)
{
    if (!r->block) {
        r->body_got += take_staged(r, NULL, r->head.stream_bytes - r->body_got);
        return;
    }
    while (r->begin < r->end && r->body_got < r->head.stream_bytes) {
        size_t n = run_left(r);
        MR_ASSERT(n > 0);
        advance_run(r, take_staged(r, run_end(r), n));
    }
}

/* ---- bodies ---- */

/* Adds all parts: pieces of the segment (l; NULL: there is none), and the runs of the block, which measure_runs has
 * checked. Offsets and lengths in the segment come from the peer and are checked. */
static mr_status *add_parts(mr_frame_reader *r, mr_loan *l, mr_bytes *out)
{
    size_t at = 0;
    for (int i = 0; i < r->head.n_parts; i++) {
        mr_frame_part p = part_of(r, i);
        mr_piece piece;
        if (p.offset == MR_FRAME_IN_STREAM) {
            if (r->block && p.n)
                mr_bytes_add(out, block_piece(r->block, at, (size_t)p.n));
            at += r->block ? run_room((size_t)p.n) : 0;
            continue;
        }
        if (!l)
            return mr_invalid("a part of a frame is in a segment, but the frame has none");
        MR_TRY(mr_loan_piece(l, p.offset, p.n, &piece));
        mr_bytes_add(out, piece);
    }
    if (out->n > r->max_message)
        r->too_large = true;
    return NULL;
}

/* The body of a complete frame, as pieces that refer to the block or the segment. */
static mr_status *collect_body(mr_frame_reader *r, mr_bytes *out)
{
    if (r->head.n_parts == 0) {
        if (r->block)
            mr_bytes_add(out, block_piece(r->block, 0, r->block->bytes));
        return NULL;
    }
    if (!r->head.segment)
        return add_parts(r, NULL, out);
    /* The segment returns to the sender when all pieces of the loan are dropped. */
    mr_loan *l;
    MR_TRY(mr_loan_begin(r->table, r->head.segment, &l));
    mr_status *st = add_parts(r, l, out);
    mr_loan_drop(l);
    return st;
}

/* The frame is complete. On failure, and if it is too large, it has no body. */
static mr_status *end_frame(mr_frame_reader *r, mr_net_frame *out)
{
    MR_ASSERT(r->state == IN_BODY && r->body_got == r->head.stream_bytes);
    *out = (mr_net_frame){.head = r->head, .text = r->text};
    mr_status *st = collect_body(r, &out->body);
    if (r->block && r->head.kind == MR_FRAME_REPLY) {
        /* What was asked for may become a tensor that lives for long; the budget is for what peers send unasked. */
        mr_net_budget_give(r->budget, r->block->counted);
        r->block->counted = 0;
    }
    if (r->block)
        block_drop(r->block);
    r->block = NULL;
    r->state = IN_HEAD;
    out->too_large = r->too_large;
    if (st || r->too_large)
        mr_bytes_deinit(&out->body);
    return st;
}

/* Continues where the last call ran out of bytes. An empty meta and an empty body need no bytes, so a frame
 * that consists of a head passes through all three states in one call. The text of the frame refers to
 * r->meta, which the next frame overwrites. */
mr_status *mr_frame_reader_next(mr_frame_reader *r, mr_net_frame *out, bool *got)
{
    *got = false;
    if (r->state == IN_HEAD) {
        if (r->end - r->begin < MR_FRAME_HEAD)
            return NULL;
        MR_TRY(begin_frame(r));
    }
    if (r->state == IN_META) {
        r->meta_got += take_staged(r, r->meta + r->meta_got, r->meta_bytes - r->meta_got);
        if (r->meta_got < r->meta_bytes)
            return NULL;
        MR_TRY(begin_body(r));
    }
    take_body(r);
    MR_ASSERT(r->body_got <= r->head.stream_bytes);
    if (r->body_got < r->head.stream_bytes)
        return NULL;
    MR_TRY(end_frame(r, out));
    *got = true;
    return NULL;
}

bool mr_frame_reader_is_inside(const mr_frame_reader *r)
{
    return r->state != IN_HEAD || r->begin < r->end;
}
