/* tests/fuzz/pb_tree.c -- converts a protobuf message to a tree and back.
 *
 * The reader is independent, so that it shares no bug with the library's. */
#include "tests/fuzz/pb_tree.h"

#include "tests/fuzz/fuzz.h"
#include "wire/message.h"
#include "wire/pb.h"
#include "wire/text_format.h"

enum { DEEPEST = 150 };

/* ---- taking apart ---- */

typedef struct cursor {
    const uint8_t *at, *end;
    bool bad;
} cursor;

static uint64_t varint(cursor *c)
{
    uint64_t v = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (c->at == c->end)
            break;
        uint8_t b = *c->at++;
        v |= shift < 64 ? (uint64_t)(b & 0x7f) << shift : 0;
        if (b < 0x80)
            return v;
    }
    c->bad = true;
    return 0;
}

static uint64_t fixed(cursor *c, size_t n)
{
    uint64_t v = 0;
    if ((size_t)(c->end - c->at) < n) {
        c->bad = true;
        return 0;
    }
    memcpy(&v, c->at, n);
    c->at += n;
    return v;
}

static const mr_field *field_of(const ProtobufCMessageDescriptor *d, uint32_t number)
{
    for (unsigned i = 0; d && i < d->n_fields; i++)
        if (d->fields[i].id == number)
            return &d->fields[i];
    return NULL;
}

static fuzz_item *parse_fields(mr_arena *a, const ProtobufCMessageDescriptor *d, mr_sv bytes,
                               int depth, bool *ok);

static void parse_content(mr_arena *a, fuzz_item *i, int depth)
{
    if (!i->f || i->f->type != PROTOBUF_C_TYPE_MESSAGE || depth >= DEEPEST)
        return;
    bool ok = true;
    fuzz_item *child = parse_fields(a, i->f->descriptor, i->bytes, depth + 1, &ok);
    if (!ok)
        return; /* stays bytes */
    i->message = true;
    i->child = child;
}

static bool parse_field(mr_arena *a, const ProtobufCMessageDescriptor *d, cursor *c, int depth,
                        fuzz_item *out)
{
    uint64_t tag = varint(c);
    *out = (fuzz_item){.number = (uint32_t)(tag >> 3), .wire = tag & 7, .owner = d};
    out->f = field_of(d, out->number);
    switch (out->wire) {
    case MR_WIRE_VARINT: out->v = varint(c); break;
    case MR_WIRE_FIXED64: out->v = fixed(c, 8); break;
    case MR_WIRE_FIXED32: out->v = fixed(c, 4); break;
    case MR_WIRE_BYTES: {
        uint64_t n = varint(c);
        if (c->bad || n > (size_t)(c->end - c->at))
            return false;
        out->bytes = (mr_sv){mr_arena_strndup(a, (const char *)c->at, n), n};
        c->at += n;
        parse_content(a, out, depth);
        break;
    }
    default: return false;
    }
    return !c->bad;
}

static fuzz_item *parse_fields(mr_arena *a, const ProtobufCMessageDescriptor *d, mr_sv bytes,
                               int depth, bool *ok)
{
    fuzz_item *first = NULL, **end = &first;
    cursor c = {(const uint8_t *)bytes.p, (const uint8_t *)bytes.p + bytes.n, false};
    while (c.at < c.end) {
        fuzz_item one;
        if (!parse_field(a, d, &c, depth, &one)) {
            *ok = false;
            return NULL;
        }
        *end = mr_arena_memdup(a, &one, sizeof(one));
        end = &(*end)->next;
    }
    return first;
}

void fuzz_tree_parse(fuzz_tree *t, const ProtobufCMessageDescriptor *d, mr_sv bytes)
{
    bool ok = true;
    *t = (fuzz_tree){.d = d};
    mr_arena_init(&t->arena, 16384);
    t->root = (fuzz_item){.message = true};
    t->root.child = parse_fields(&t->arena, d, bytes, 0, &ok);
    if (!ok)
        t->root.child = NULL;
}

void fuzz_tree_deinit(fuzz_tree *t)
{
    mr_arena_deinit(&t->arena);
    mr_vec_deinit(&t->links);
}

/* ---- putting together ---- */

static size_t measure(fuzz_item *i)
{
    i->size = i->bytes.n;
    if (!i->message)
        return i->size;
    i->size = 0;
    for (fuzz_item *c = i->child; c; c = c->next) {
        size_t n = measure(c);
        i->size += mr_pb_varint_size((uint64_t)c->number << 3 | c->wire);
        switch (c->wire) {
        case MR_WIRE_VARINT: i->size += mr_pb_varint_size(c->v); break;
        case MR_WIRE_FIXED64: i->size += 8; break;
        case MR_WIRE_FIXED32: i->size += 4; break;
        case MR_WIRE_BYTES: i->size += mr_pb_varint_size(n + (size_t)c->lie) + n; break;
        default: /* an unterminated group, or an invalid wire type */ i->size += n;
        }
    }
    return i->size;
}

static void put_varint(mr_str *out, uint64_t v)
{
    uint8_t buf[MR_PB_MAX_VARINT];
    mr_str_append(out, buf, (size_t)(mr_pb_encode_varint(buf, v) - buf));
}

static void write_content(const fuzz_item *i, mr_str *out)
{
    if (!i->message) {
        mr_str_append(out, i->bytes.p, i->bytes.n);
        return;
    }
    for (const fuzz_item *c = i->child; c; c = c->next) {
        put_varint(out, (uint64_t)c->number << 3 | c->wire);
        if (c->wire == MR_WIRE_VARINT)
            put_varint(out, c->v);
        else if (c->wire == MR_WIRE_FIXED64 || c->wire == MR_WIRE_FIXED32)
            mr_str_append(out, &c->v, c->wire == MR_WIRE_FIXED64 ? 8 : 4);
        if (c->wire == MR_WIRE_BYTES)
            put_varint(out, c->size + (size_t)c->lie);
        if (c->wire != MR_WIRE_VARINT && c->wire != MR_WIRE_FIXED64 && c->wire != MR_WIRE_FIXED32)
            write_content(c, out);
    }
}

void fuzz_tree_write(fuzz_tree *t, mr_str *out)
{
    measure(&t->root);
    write_content(&t->root, out);
}

/* ---- looking ---- */

static void list_under(fuzz_tree *t, fuzz_item *message)
{
    for (fuzz_item **at = &message->child; *at; at = &(*at)->next) {
        mr_vec_push(&t->links, at);
        if ((*at)->message)
            list_under(t, *at);
    }
}

void fuzz_tree_list(fuzz_tree *t)
{
    t->links.n = 0;
    list_under(t, &t->root);
}

bool fuzz_item_is(const fuzz_item *i, const char *message, const char *field)
{
    return i->f && strcmp(i->f->name, field) == 0 && strcmp(i->owner->short_name, message) == 0;
}

fuzz_item *fuzz_tree_find(fuzz_rng *r, const fuzz_tree *t, const mr_field *f,
                          const fuzz_item * not )
{
    uint64_t start = fuzz_below(r, (uint64_t)t->links.n);
    for (int k = 0; k < t->links.n; k++) {
        fuzz_item *i = *t->links.p[(start + (uint64_t)k) % (uint64_t)t->links.n];
        if (i->f == f && i != not )
            return i;
    }
    return NULL;
}

void fuzz_pack_text(const ProtobufCMessageDescriptor *d, const char *text, mr_str *out)
{
    ProtobufCMessage *m;
    fuzz_must(mr_text_parse(d, mr_sv_of(text), &m), "seed");
    fuzz_must(mr_message_pack(m, out), "seed");
    mr_message_free(m);
}
