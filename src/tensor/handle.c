/* tensor/handle.c -- the elements of resource and variant tensors: reference-counted objects and
 * names of resources.
 *
 * The strings and shapes of a handle are in its arena. ResourceHandleProto:
 *
 *     1 device   2 container   3 name   4 hash_code: uint64   5 maybe_type_name
 *     6 dtypes_and_shapes: repeated { 1 dtype, 2 shape } */
#include "tensor/tensor.h"

#include "base/memory.h"
#include "base/vec.h"
#include "tensor/handle_proto.h"

void mr_object_init(mr_object *o, const mr_object_type *type)
{
    mr_refs_init(&o->refs);
    o->type = type;
}

mr_object *mr_object_ref(mr_object *o)
{
    if (o)
        mr_refs_take(&o->refs);
    return o;
}

/* A list in a list in a list ... would free itself ever deeper down the stack: from some depth on objects are put
 * aside and freed by the outermost call. */
enum { MAX_NESTED = 64 };
static _Thread_local int nested;
static _Thread_local MR_VEC(mr_object *) aside;

static void free_object(mr_object *o)
{
    nested++;
    o->type->free(o);
    while (nested == 1 && aside.n > 0) {
        mr_object *next = mr_vec_pop(&aside);
        next->type->free(next);
    }
    if (--nested == 0 && aside.p)
        mr_vec_deinit(&aside);
}

/* The last one out frees it, in whichever thread that is. */
void mr_object_unref(mr_object *o)
{
    if (!o || !mr_refs_drop(&o->refs))
        return;
    if (nested < MAX_NESTED)
        free_object(o);
    else
        mr_vec_push(&aside, o);
}

static void handle_free(mr_object *o)
{
    mr_handle *h = (mr_handle *)o;
    mr_object_unref(h->object);
    mr_arena_deinit(&h->arena);
    mr_free(h);
}

static const mr_object_type handle_type = {"tensorflow::ResourceHandle", handle_free};

/* NULL if there is no memory: a proto may contain any number of handles. */
static mr_handle *try_new_empty(void)
{
    mr_handle *h = mr_try_calloc(1, sizeof(*h));
    if (!h)
        return NULL;
    mr_object_init(&h->base, &handle_type);
    mr_arena_init(&h->arena, 256);
    h->device = h->container = h->name = h->type_name = "";
    return h;
}

/* NULL is as good as "". */
static const char *keep_string(mr_handle *h, const char *s)
{
    return s ? mr_arena_strdup(&h->arena, s) : "";
}

mr_handle *mr_handle_new(const char *device, const char *container, const char *name,
                         const char *type_name, int n_parts, const struct mr_handle_part *parts)
{
    mr_handle *h = try_new_empty();
    if (!h) /* tests refuse once; only memory that is really out ends the process */
        h = try_new_empty();
    if (!h)
        mr_out_of_memory(sizeof(*h));
    h->device = keep_string(h, device);
    h->container = keep_string(h, container);
    h->name = keep_string(h, name);
    h->type_name = keep_string(h, type_name);
    /* TensorFlow's is a compiler's number for the C++ type; any number that types share will do. */
    h->type_hash = mr_hash64(h->type_name, strlen(h->type_name));
    h->n_parts = n_parts;
    h->parts = mr_arena_array(&h->arena, struct mr_handle_part, n_parts);
    for (int i = 0; i < n_parts; i++) {
        const mr_pshape *s = parts[i].shape ? parts[i].shape : &mr_pshape_unknown;
        h->parts[i] =
            (struct mr_handle_part){parts[i].dtype, mr_pshape_of(&h->arena, s->rank, s->dims)};
    }
    return h;
}

/* ---- ResourceHandleProto --------------------------------------------------------------------- */

/* The text as a C string: sized by input, so its memory may be refused. */
static mr_status *read_text(mr_handle *h, mr_sv v, const char **out)
{
    if (memchr(v.p, '\0', v.n))
        return mr_invalid("ResourceHandleProto: a NUL in \"%.*s\"", (int)MR_MIN(v.n, 100), v.p);
    char *s = mr_arena_try_alloc(&h->arena, v.n + 1);
    if (!s)
        return mr_error(MR_RESOURCE_EXHAUSTED, "ResourceHandleProto: no memory for %zu bytes", v.n);
    memcpy(s, v.p, v.n);
    s[v.n] = '\0';
    *out = s;
    return NULL;
}

/* One of dtypes_and_shapes.  A missing shape is that of an empty message, a scalar's. */
static mr_status *read_part(mr_handle *h, mr_sv bytes, struct mr_handle_part *out)
{
    mr_pb_reader r;
    uint32_t field, wire;
    *out = (struct mr_handle_part){MR_INVALID, &mr_pshape_scalar};
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire)) {
        if (field == 1)
            out->dtype = (mr_dtype)mr_pb_int32(&r);
        else if (field == 2)
            MR_TRY(mr_pshape_decode(&h->arena, mr_pb_bytes(&r), &out->shape));
        else
            mr_pb_skip(&r);
    }
    return mr_pb_reader_status(&r, "DtypeAndShape");
}

typedef MR_VEC(struct mr_handle_part) part_vec;

/* Shapes go to the arena, as do texts; the growing list of parts does when it is whole. */
static mr_status *read_fields(mr_handle *h, mr_sv bytes, part_vec *parts)
{
    mr_pb_reader r;
    uint32_t field, wire;
    struct mr_handle_part part;
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire)) {
        switch (field) {
        case 1: MR_TRY(read_text(h, mr_pb_bytes(&r), &h->device)); break;
        case 2: MR_TRY(read_text(h, mr_pb_bytes(&r), &h->container)); break;
        case 3: MR_TRY(read_text(h, mr_pb_bytes(&r), &h->name)); break;
        case 4: h->type_hash = mr_pb_varint(&r); break;
        case 5: MR_TRY(read_text(h, mr_pb_bytes(&r), &h->type_name)); break;
        case 6:
            if (parts->n >= MR_HANDLE_MAX_PARTS)
                return mr_invalid("ResourceHandleProto: more than %d dtypes_and_shapes",
                                  MR_HANDLE_MAX_PARTS);
            MR_TRY(read_part(h, mr_pb_bytes(&r), &part));
            mr_vec_push(parts, part);
            break;
        default: mr_pb_skip(&r);
        }
    }
    return mr_pb_reader_status(&r, "ResourceHandleProto");
}

mr_status *mr_handle_decode(mr_sv bytes, mr_handle **out)
{
    part_vec parts = {0};
    mr_handle *h = try_new_empty();
    if (!h)
        return mr_error(MR_RESOURCE_EXHAUSTED, "ResourceHandleProto: no memory for a handle");
    mr_status *st = read_fields(h, bytes, &parts);
    if (st) {
        mr_object_unref(&h->base);
    } else {
        h->n_parts = parts.n;
        if (parts.n)
            h->parts = mr_arena_memdup(&h->arena, parts.p, (size_t)parts.n * sizeof(*parts.p));
        *out = h;
    }
    mr_vec_deinit(&parts);
    return st;
}

void mr_handle_write(const mr_handle *h, mr_pb_writer *w)
{
    mr_pb_opt_bytes(w, 1, mr_sv_of(h->device));
    mr_pb_opt_bytes(w, 2, mr_sv_of(h->container));
    mr_pb_opt_bytes(w, 3, mr_sv_of(h->name));
    mr_pb_opt_varint(w, 4, h->type_hash);
    mr_pb_opt_bytes(w, 5, mr_sv_of(h->type_name));
    for (int i = 0; i < h->n_parts; i++) {
        mr_str shape = {0};
        mr_pshape_encode(h->parts[i].shape, &shape);
        size_t part = mr_pb_begin(w, 6);
        mr_pb_opt_varint(w, 1, (uint64_t)h->parts[i].dtype);
        mr_pb_put_bytes(w, 2, mr_str_view(&shape)); /* also when empty: a scalar's */
        mr_pb_end(w, part);
        mr_str_deinit(&shape);
    }
}

void mr_handle_encode(const mr_handle *h, mr_str *out)
{
    mr_pb_writer w;
    size_t before = out->n;
    mr_pb_writer_init(&w, out);
    mr_handle_write(h, &w);
    if (w.failed) { /* a handle is small, so it is tried again before the process ends */
        out->n = before;
        mr_pb_writer_init(&w, out);
        mr_handle_write(h, &w);
    }
    if (w.failed)
        mr_out_of_memory(out->n);
}
