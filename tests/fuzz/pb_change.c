/* tests/fuzz/pb_change.c -- mutations of a protobuf tree. */
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/pb_tree.h"
#include "tests/fuzz/values.h"
#include "wire/pb.h"

enum { MOST_ITEMS = 20000, LONGEST_WAY = 12 };

/* ---- values ---- */

static void change_number(fuzz_rng *r, const fuzz_tree *t, fuzz_item *i)
{
    fuzz_item *other;
    if (i->f && i->f->type == PROTOBUF_C_TYPE_ENUM && !fuzz_once_in(r, 8)) {
        const ProtobufCEnumDescriptor *e = i->f->descriptor;
        i->v = (uint64_t)(int64_t)e->values[fuzz_below(r, e->n_values)].value;
        return;
    }
    switch (fuzz_below(r, 5)) {
    case 0: i->v ^= (uint64_t)1 << fuzz_below(r, i->wire == MR_WIRE_FIXED32 ? 32 : 64); break;
    case 1:
        other = i->f ? fuzz_tree_find(r, t, i->f, i) : NULL;
        i->v = other ? other->v : i->v + 1;
        break;
    case 2: i->v += (uint64_t)fuzz_between(r, -1, 1); break;
    default: i->v = (uint64_t)(fuzz_once_in(r, 2) ? fuzz_between(r, 0, 9) : fuzz_odd_int(r));
    }
}

static mr_sv keep(fuzz_tree *t, const mr_str *s)
{
    return (mr_sv){mr_arena_strndup(&t->arena, mr_str_z(s), s->n), s->n};
}

static void damage_bytes(fuzz_rng *r, fuzz_tree *t, fuzz_item *i)
{
    mr_str s = {0};
    mr_str_append(&s, i->bytes.p, i->bytes.n);
    fuzz_damage(r, &s);
    i->bytes = keep(t, &s);
    mr_str_deinit(&s);
}

static void change_bytes(fuzz_rng *r, fuzz_tree *t, fuzz_item *i, const fuzz_words *words)
{
    mr_sv word;
    mr_str s = {0};
    fuzz_item *other = i->f ? fuzz_tree_find(r, t, i->f, i) : NULL;
    if (words && fuzz_below(r, 8) > 0 && words->word(r, t, i, &word)) {
        i->bytes = (mr_sv){mr_arena_strndup(&t->arena, word.p, word.n), word.n};
    } else if (other && !other->message && fuzz_once_in(r, 2)) {
        i->bytes = other->bytes;
    } else if (fuzz_once_in(r, 4)) {
        fuzz_string(r, &s);
        i->bytes = keep(t, &s);
    } else {
        damage_bytes(r, t, i);
    }
    mr_str_deinit(&s);
}

static void change_value(fuzz_rng *r, fuzz_tree *t, fuzz_item *i, const fuzz_words *words)
{
    if (i->wire == MR_WIRE_BYTES)
        change_bytes(r, t, i, words);
    else
        change_number(r, t, i);
}

/* ---- structure ---- */

static fuzz_item *copy_item(fuzz_tree *t, const fuzz_item *i)
{
    fuzz_item *c = mr_arena_memdup(&t->arena, i, sizeof(*i));
    c->bytes =
        (mr_sv){mr_arena_strndup(&t->arena, i->bytes.p ? i->bytes.p : "", i->bytes.n), i->bytes.n};
    c->next = NULL;
    fuzz_item **end = &c->child;
    for (const fuzz_item *k = i->child; k; k = k->next) {
        *end = copy_item(t, k);
        end = &(*end)->next;
    }
    *end = NULL;
    return c;
}

static void insert_after(fuzz_item *at, fuzz_item *new)
{
    new->next = at->next;
    at->next = new;
}

static void insert_copy(fuzz_rng *r, fuzz_tree *t, fuzz_item *i, const fuzz_words *words)
{
    fuzz_item *c = copy_item(t, i);
    insert_after(i, c);
    if (words)
        words->copied(r, t, c);
}

static void remove_at(fuzz_item **link) { *link = (*link)->next; }

/* Swaps the item with one of its neighbours. */
static void swap_with_next(fuzz_item **link)
{
    fuzz_item *a = *link, *b = a->next;
    if (!b)
        return;
    a->next = b->next;
    b->next = a;
    *link = b;
}

/* Replaces the content by that of another item of the same field. */
static void take_over(fuzz_rng *r, fuzz_tree *t, fuzz_item *i, const fuzz_tree *from,
                      const fuzz_words *words)
{
    fuzz_item *other = i->f && from->links.n ? fuzz_tree_find(r, from, i->f, i) : NULL;
    if (!other)
        return;
    fuzz_item *c = copy_item(t, other);
    if (words)
        words->copied(r, t, c);
    c->next = i->next;
    *i = *c;
}

/* Adds a field that the message could have. */
static void add_field(fuzz_rng *r, fuzz_tree *t, fuzz_item *i, const fuzz_words *words)
{
    const ProtobufCMessageDescriptor *d = i->owner;
    if (!d || d->n_fields == 0)
        return;
    const mr_field *f = &d->fields[fuzz_below(r, d->n_fields)];
    fuzz_item *n = mr_arena_new(&t->arena, fuzz_item);
    *n = (fuzz_item){
        .f = f, .owner = d, .number = f->id, .wire = mr_field_wire(f), .bytes = MR_SV("")};
    n->message = f->type == PROTOBUF_C_TYPE_MESSAGE;
    fuzz_item *like = fuzz_once_in(r, 2) ? fuzz_tree_find(r, t, f, NULL) : NULL;
    if (like)
        n = copy_item(t, like);
    else if (!n->message)
        change_value(r, t, n, words);
    insert_after(i, n);
}

/* The path from a message down to a nested one of the same type, as field numbers; NULL: there is none. */
static fuzz_item *find_inside(const fuzz_item *i, const void *descriptor, uint32_t *way, int *n,
                              int at)
{
    for (fuzz_item *c = i->child; c && at < LONGEST_WAY; c = c->next) {
        if (!c->message)
            continue;
        way[at] = c->number;
        *n = at + 1;
        fuzz_item *found =
            c->f && c->f->descriptor == descriptor ? c : find_inside(c, descriptor, way, n, at + 1);
        if (found)
            return found;
    }
    return NULL;
}

/* Nests a recursive message thousands of times along that path, written from the innermost one out. As bytes, because
 * such a deep tree would overflow our own stack. */
static void nest(fuzz_rng *r, fuzz_tree *t, fuzz_item *i)
{
    uint32_t way[LONGEST_WAY];
    int n = 0;
    fuzz_item *inner = i->message && i->f ? find_inside(i, i->f->descriptor, way, &n, 0) : NULL;
    size_t room = (size_t)1 << (6 + fuzz_below(r, 11));
    if (!inner)
        return;
    char *buf = mr_arena_alloc(&t->arena, room);
    size_t at = room;
    for (int k = n - 1; at > 2 * MR_PB_MAX_VARINT; k = k > 0 ? k - 1 : n - 1) {
        uint8_t head[2 * MR_PB_MAX_VARINT];
        uint8_t *end = mr_pb_encode_varint(head, (uint64_t)way[k] << 3 | MR_WIRE_BYTES);
        end = mr_pb_encode_varint(end, room - at);
        at -= (size_t)(end - head);
        memcpy(buf + at, head, (size_t)(end - head));
        if (k == 0 && fuzz_once_in(r, 4000))
            break;
    }
    inner->message = false;
    inner->child = NULL;
    inner->bytes = (mr_sv){buf + at, room - at};
}

/* Encodings that no writer would produce. */
static void lie(fuzz_rng *r, fuzz_item *i)
{
    switch (fuzz_below(r, 4)) {
    case 0: i->lie = (int)fuzz_between(r, -3, 3); break;
    case 1: i->lie = fuzz_once_in(r, 2) ? INT32_MAX : -(int)i->bytes.n - 1; break;
    case 2: i->wire = (uint32_t)fuzz_below(r, 8); break;
    default:
        i->number = (uint32_t)(fuzz_once_in(r, 2) ? fuzz_below(r, 20) : fuzz_below(r, 1 << 29));
    }
}

/* Any item; or preferably a leaf, because leaves carry most of the content. */
static fuzz_item **pick_item(fuzz_rng *r, const fuzz_tree *t, bool leaf, const fuzz_words *words)
{
    fuzz_item **link = NULL;
    for (int tries = 0; tries < 20; tries++) {
        link = t->links.p[fuzz_below(r, (uint64_t)t->links.n)];
        if (leaf && (*link)->message)
            continue;
        if (!words || !words->brittle(*link, leaf) || fuzz_once_in(r, 40))
            break;
    }
    return link;
}

void fuzz_tree_change(fuzz_rng *r, fuzz_tree *t, fuzz_tree *donor, const fuzz_words *words)
{
    fuzz_tree_list(t);
    if (donor)
        fuzz_tree_list(donor);
    if (t->links.n == 0 || t->links.n > MOST_ITEMS)
        return;
    fuzz_item **link = pick_item(r, t, false, words);
    switch (fuzz_below(r, 16)) {
    case 0: insert_copy(r, t, *link, words); break;
    case 1: remove_at(link); break;
    case 2: swap_with_next(link); break;
    case 3: take_over(r, t, *link, t, words); break;
    case 4: take_over(r, t, *link, donor ? donor : t, words); break;
    case 5: add_field(r, t, *link, words); break;
    case 6:
        if (fuzz_once_in(r, 8))
            nest(r, t, *link);
        else if (fuzz_once_in(r, 2))
            lie(r, *link);
        break;
    default: change_value(r, t, *pick_item(r, t, true, words), words);
    }
}
