/* tensor/variant_number.c -- variants that hold one number: int, float, double, bool.
 *
 * TensorFlow registers them under these names; their metadata is the number's bytes in memory.  Its tests and some
 * tools put them into TensorProtos. */
#include "base/memory.h"
#include "tensor/variant.h"

typedef struct number {
    mr_object base;
    union {
        int32_t i;
        float f;
        double d;
        uint8_t b; /* any byte but 0 is true */
    } v;
} number;

static void number_free(mr_object *o) { mr_free(o); }

static number *new_number(const mr_object_type *type)
{
    number *n = mr_new(number);
    mr_object_init(&n->base, type);
    return n;
}

static mr_status *number_zero(const mr_object *o, mr_allocator *a, mr_object **out)
{
    (void)a;
    *out = &new_number(o->type)->base;
    return NULL;
}

/* The sum of bools is their OR, as in C++. */
#define NUMBER_TYPE(kind, text, field, S, SUM)                                                                     \
    static mr_status *kind##_add(const mr_object *x, const mr_object *y, mr_allocator *a, mr_object **out)         \
    {                                                                                                              \
        number *z = new_number(x->type);                                                                           \
        S p = ((const number *)x)->v.field, q = ((const number *)y)->v.field;                                      \
        (void)a;                                                                                                   \
        z->v.field = SUM;                                                                                          \
        *out = &z->base;                                                                                           \
        return NULL;                                                                                               \
    }                                                                                                              \
    static mr_status *kind##_encode(const mr_object *o, mr_variant_data *d)                                        \
    {                                                                                                              \
        mr_str_append(&d->metadata, &((const number *)o)->v.field, sizeof(S));                                     \
        return NULL;                                                                                               \
    }                                                                                                              \
    static mr_status *kind##_decode(const mr_variant_data *d, mr_object **out);                                    \
    static const mr_object_type kind##_type = {.name = text, .free = number_free, .zeros_like = number_zero,       \
                                               .add = kind##_add, .encode = kind##_encode, .decode = kind##_decode}; \
    static mr_status *kind##_decode(const mr_variant_data *d, mr_object **out)                                     \
    {                                                                                                              \
        if (d->metadata.n != sizeof(S) || d->tensors.n != 0)                                                       \
            return mr_invalid("A variant of type %s with %zu bytes of metadata", text, d->metadata.n);             \
        number *n = new_number(&kind##_type);                                                                      \
        memcpy(&n->v.field, d->metadata.p, sizeof(S));                                                             \
        *out = &n->base;                                                                                           \
        return NULL;                                                                                               \
    }
NUMBER_TYPE(int, "int", i, int32_t, (int32_t)((uint32_t)p + (uint32_t)q))
NUMBER_TYPE(float, "float", f, float, p + q)
NUMBER_TYPE(double, "double", d, double, p + q)
NUMBER_TYPE(bool, "bool", b, uint8_t, (p | q) != 0)

void mr_variant_register_numbers(void)
{
    mr_variant_register(&int_type);
    mr_variant_register(&float_type);
    mr_variant_register(&double_type);
    mr_variant_register(&bool_type);
}

bool mr_variant_print_number(const mr_object *o, mr_str *out)
{
    const number *n = (const number *)o;
    if (!o || o->type->free != number_free)
        return false;
    if (o->type == &int_type)
        mr_str_printf(out, "%d", n->v.i);
    else if (o->type == &bool_type)
        mr_str_appendz(out, n->v.b ? "1" : "0");
    else
        mr_str_printf(out, "%g", o->type == &float_type ? (double)n->v.f : n->v.d);
    return true;
}
