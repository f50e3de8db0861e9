/* tensor/dtype.c -- one table of the properties of each element type.
 *
 * The table is indexed by the number in types.proto and made from the rows of dtype.h; the types
 * that have no arithmetic (strings, handles, 8-bit floats, 4-bit integers) are added by hand. An
 * entry without a name is an unused number. */
#include "tensor/dtype.h"

#include "base/memory.h"

/* HANDLE: elements are references; gradients flow to what they refer to. */
enum { FLOATING = 1, COMPLEX = 2, INTEGER = 4, PLAIN = 8, HANDLE = 16 };

typedef struct type_info {
    const char *name, *ref_name, *enum_name, *ref_enum_name;
    uint8_t bytes;
    uint8_t flags;
} type_info;

/* The four texts of a type are constants, so names can be handed out without owning them. */
#define INFO(E, text, size, what)                                                                \
    [MR_##E] = {.name = text,                                                                    \
                .ref_name = text "_ref",                                                         \
                .enum_name = "DT_" #E,                                                           \
                .ref_enum_name = "DT_" #E "_REF",                                                \
                .bytes = size,                                                                   \
                .flags = what},
#define ROW(E, name, number, S, C, what) INFO(E, #name, sizeof(S), PLAIN | (what))

static const type_info types[] = {
    MR_FLOATS(ROW, FLOATING)
    MR_INTS(ROW, INTEGER)
    MR_COMPLEXES(ROW, COMPLEX)
    MR_TYPE_BOOL(ROW, 0)
    MR_QUANTIZED(ROW, 0)
    INFO(STRING, "string", 24, 0)
    INFO(RESOURCE, "resource", sizeof(void *), HANDLE)
    INFO(VARIANT, "variant", sizeof(void *), HANDLE)
    INFO(FLOAT8_E5M2, "float8_e5m2", 1, PLAIN)
    INFO(FLOAT8_E4M3FN, "float8_e4m3fn", 1, PLAIN)
    INFO(INT4, "int4", 1, PLAIN)
    INFO(UINT4, "uint4", 1, PLAIN)
};
#undef ROW
#undef INFO

/* NULL when t is not a base type. */
static const type_info *find_type(int t)
{
    return t > 0 && t < MR_COUNT(types) && types[t].name ? &types[t] : NULL;
}

/* Any of the flags. */
static bool has_flags(int t, unsigned flags)
{
    const type_info *i = find_type(t);
    return i && (i->flags & flags);
}

bool mr_dtype_valid(int t) { return find_type(t) != NULL; }

size_t mr_dtype_size(mr_dtype t)
{
    const type_info *i = find_type((int)t);
    return i ? i->bytes : 0;
}

const char *mr_dtype_name(int t)
{
    const type_info *i = find_type(mr_dtype_base(t));
    if (!i)
        return "invalid";
    return mr_dtype_is_ref(t) ? i->ref_name : i->name;
}

const char *mr_dtype_enum_name(int t)
{
    const type_info *i = find_type(mr_dtype_base(t));
    if (!i)
        return "DT_INVALID";
    return mr_dtype_is_ref(t) ? i->ref_enum_name : i->enum_name;
}

/* A search over all: names are read while graphs are made, not while they run. */
mr_dtype mr_dtype_from_name(mr_sv name)
{
    if (mr_sv_is(name, "float32")) /* NumPy's names, where they differ */
        return MR_FLOAT;
    if (mr_sv_is(name, "float64"))
        return MR_DOUBLE;
    for (int t = 1; t < MR_COUNT(types); t++) {
        const type_info *i = find_type(t);
        if (!i)
            continue;
        if (mr_sv_is(name, i->name) || mr_sv_is(name, i->enum_name))
            return (mr_dtype)t;
        if (mr_sv_is(name, i->ref_name) || mr_sv_is(name, i->ref_enum_name))
            return (mr_dtype)mr_dtype_ref(t);
    }
    return MR_INVALID;
}

bool mr_dtype_is_plain(mr_dtype t) { return has_flags((int)t, PLAIN); }
bool mr_dtype_is_floating(mr_dtype t) { return has_flags((int)t, FLOATING); }
bool mr_dtype_is_complex(mr_dtype t) { return has_flags((int)t, COMPLEX); }
bool mr_dtype_is_integer(mr_dtype t) { return has_flags((int)t, INTEGER); }
bool mr_dtype_is_trainable(mr_dtype t) { return has_flags((int)t, FLOATING | COMPLEX | HANDLE); }
