/* tensor/variant.c -- zeros, sums and bytes of variants, by their types.
 *
 *     VariantTensorDataProto: 1 type_name   2 metadata: bytes   3 tensors: repeated TensorProto
 *
 * How deep a thread is inside of variants is counted, because a value that came from outside, or from a loop that puts
 * a list into itself, may be nested as deep as memory allows. */
#include "tensor/variant.h"

#include "base/memory.h"
#include "wire/pb.h"

static _Thread_local int depth;

static mr_status *too_deep(void)
{
    return mr_invalid("Variants are nested more than %d deep", MR_VARIANT_DEPTH);
}

static const char *name_of(const mr_object *o) { return o ? o->type->name : "[empty]"; }

mr_status *mr_variant_tensor(mr_object *o, mr_tensor **out)
{
    mr_status *st = mr_tensor_new(NULL, MR_VARIANT, 0, NULL, out);
    if (st)
        mr_object_unref(o);
    else
        *MR_DATA(mr_object *, *out) = o;
    return st;
}

/* ---- zeros and sums ---- */

static mr_status *zero_of_object(mr_allocator *a, const mr_object *o, mr_object **out)
{
    *out = NULL;
    if (!o)
        return NULL;
    if (!o->type->zeros_like)
        return mr_error(MR_UNIMPLEMENTED, "Variants of type %s have no zero", o->type->name);
    if (depth >= MR_VARIANT_DEPTH)
        return too_deep();
    depth++;
    mr_status *st = o->type->zeros_like(o, a, out);
    depth--;
    return st;
}

static mr_status *sum_of_objects(mr_allocator *a, const mr_object *x, const mr_object *y, mr_object **out)
{
    *out = NULL;
    if (!x && !y)
        return NULL;
    if (!x || !y || x->type != y->type)
        return mr_invalid("Cannot add a variant of type %s to one of type %s", name_of(x), name_of(y));
    if (!x->type->add)
        return mr_error(MR_UNIMPLEMENTED, "Variants of type %s cannot be added", x->type->name);
    if (depth >= MR_VARIANT_DEPTH)
        return too_deep();
    depth++;
    mr_status *st = x->type->add(x, y, a, out);
    depth--;
    return st;
}

mr_status *mr_variants_zeros_like(mr_allocator *a, const mr_tensor *t, mr_tensor **out)
{
    mr_tensor *z;
    mr_status *st = NULL;
    MR_TRY(mr_tensor_new(a, MR_VARIANT, t->rank, t->dims, &z));
    for (int64_t i = 0; i < t->n && !st; i++)
        st = zero_of_object(a, MR_DATA(mr_object *, t)[i], &MR_DATA(mr_object *, z)[i]);
    if (st)
        mr_tensor_unref(z);
    else
        *out = z;
    return st;
}

mr_status *mr_variants_add(mr_allocator *a, const mr_tensor *x, const mr_tensor *y, mr_tensor **out)
{
    mr_tensor *z;
    mr_status *st = NULL;
    if (!mr_tensor_same_shape(x, y))
        return mr_invalid("Cannot add variants of shapes %s and %s", MR_TENSOR_SHAPE(x), MR_TENSOR_SHAPE(y));
    MR_TRY(mr_tensor_new(a, MR_VARIANT, x->rank, x->dims, &z));
    for (int64_t i = 0; i < x->n && !st; i++)
        st = sum_of_objects(a, MR_DATA(mr_object *, x)[i], MR_DATA(mr_object *, y)[i], &MR_DATA(mr_object *, z)[i]);
    if (st)
        mr_tensor_unref(z);
    else
        *out = z;
    return st;
}

/* ---- bytes ---- */

enum { F_TYPE_NAME = 1, F_METADATA = 2, F_TENSORS = 3 };

/* There are few, added only at start-up, so readers need no lock. */
enum { MAX_TYPES = 32 };
static const mr_object_type *types[MAX_TYPES];
static int n_types;

void mr_variant_register(const mr_object_type *type)
{
    MR_ASSERT(n_types < MAX_TYPES && type->decode);
    types[n_types++] = type;
}

static const mr_object_type *find_type(mr_sv name)
{
    for (int i = 0; i < n_types; i++)
        if (mr_sv_is(name, types[i]->name))
            return types[i];
    return NULL;
}

void mr_variant_data_deinit(mr_variant_data *d)
{
    for (int i = 0; i < d->tensors.n; i++)
        mr_tensor_unref(d->tensors.p[i]);
    mr_vec_deinit(&d->tensors);
    mr_str_deinit(&d->metadata);
}

static mr_status *put_tensors(mr_pb_writer *w, const mr_variant_data *d)
{
    for (int i = 0; i < d->tensors.n; i++) {
        mr_str bytes = {0};
        mr_status *st = mr_tensor_encode(d->tensors.p[i], &bytes);
        if (!st)
            mr_pb_put_bytes(w, F_TENSORS, mr_str_view(&bytes));
        mr_str_deinit(&bytes);
        MR_TRY(st);
    }
    return NULL;
}

mr_status *mr_variant_encode(const mr_object *o, mr_str *out)
{
    mr_variant_data d = {0};
    mr_pb_writer w;
    if (!o->type->encode)
        return mr_error(MR_UNIMPLEMENTED, "TensorProto: a variant of type %s cannot be written", o->type->name);
    if (depth >= MR_VARIANT_DEPTH)
        return too_deep();
    depth++;
    mr_status *st = o->type->encode(o, &d);
    mr_pb_writer_init(&w, out);
    if (!st) {
        mr_pb_put_bytes(&w, F_TYPE_NAME, mr_sv_of(o->type->name));
        mr_pb_put_bytes(&w, F_METADATA, mr_str_view(&d.metadata));
        st = put_tensors(&w, &d);
    }
    if (!st)
        st = mr_pb_writer_status(&w, "VariantTensorDataProto");
    depth--;
    mr_variant_data_deinit(&d);
    return st;
}

static mr_status *read_parts(mr_sv bytes, mr_sv *name, mr_variant_data *d)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_tensor *t;
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire)) {
        mr_sv v = MR_SV("");
        if (field > F_TENSORS)
            mr_pb_skip(&r);
        else
            v = mr_pb_bytes(&r);
        if (field == F_TYPE_NAME)
            *name = v;
        if (field == F_METADATA) {
            mr_str_clear(&d->metadata);
            if (!mr_str_try_append(&d->metadata, v.p, v.n))
                return mr_error(MR_RESOURCE_EXHAUSTED, "No memory for the metadata of a variant");
        }
        if (field == F_TENSORS) {
            MR_TRY(mr_tensor_decode(NULL, v, &t));
            mr_vec_push(&d->tensors, t);
        }
    }
    return mr_pb_reader_status(&r, "VariantTensorDataProto");
}

mr_status *mr_variant_decode(mr_sv bytes, mr_object **out)
{
    mr_status *st = NULL;
    mr_variant_data d = {0};
    mr_sv name = MR_SV("");
    if (depth >= MR_VARIANT_DEPTH)
        return too_deep();
    depth++;
    MR_GO(read_parts(bytes, &name, &d));
    const mr_object_type *type = find_type(name);
    if (!type)
        MR_GO(mr_error(MR_UNIMPLEMENTED, "TensorProto: a variant of type '%.*s' cannot be read",
                       (int)MR_MIN(name.n, 100), name.p));
    MR_GO(type->decode(&d, out));
out:
    depth--;
    mr_variant_data_deinit(&d);
    return st;
}
