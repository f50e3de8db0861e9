/* ops/example_value.c -- literals of examples as tensors and attrs, and compared with results.
 *
 * Integers compare exactly.  A number with a point or an exponent must be right to half a unit of its last digit,
 * and every number of a floating type may differ by a few rounding errors of the largest number in its tensor:
 * enough for sums and cancellation, less than the error of a wrong formula. */
#include "ops/example.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"

/* ---- the types that a literal can have ---- */

static bool int_fits(const mr_literal *l, int bits, bool is_signed)
{
    if (!l->is_int || l->is_bool)
        return false;
    if (!is_signed)
        return (!l->negative || l->bits == 0) && (bits == 64 || l->bits >> bits == 0);
    uint64_t top = (uint64_t)1 << (bits - 1); /* magnitude of the minimum */
    return l->negative ? l->bits <= top : l->bits < top;
}

static bool float_fits(const mr_literal *l, double max)
{
    return !l->is_bool && !l->is_str && (!isfinite(l->re) || fabs(l->re) <= max) &&
           (!isfinite(l->im) || fabs(l->im) <= max);
}

static bool literal_fits(const mr_literal *l, mr_dtype type)
{
    if (l->any)
        return true;
    switch (type) {
    case MR_STRING: return l->is_str;
    case MR_BOOL: return l->is_int && !l->negative && l->bits <= 1;
    case MR_HALF: return float_fits(l, 65504) && !l->is_complex;
    case MR_BFLOAT16: return float_fits(l, 3.38e38) && !l->is_complex;
    case MR_FLOAT: return float_fits(l, FLT_MAX) && !l->is_complex;
    case MR_DOUBLE: return float_fits(l, DBL_MAX) && !l->is_complex;
    case MR_COMPLEX64: return float_fits(l, FLT_MAX);
    case MR_COMPLEX128: return float_fits(l, DBL_MAX);
    case MR_INT8: case MR_QINT8: return int_fits(l, 8, true);
    case MR_INT16: case MR_QINT16: return int_fits(l, 16, true);
    case MR_INT32: case MR_QINT32: return int_fits(l, 32, true);
    case MR_INT64: return int_fits(l, 64, true);
    case MR_UINT8: case MR_QUINT8: return int_fits(l, 8, false);
    case MR_UINT16: case MR_QUINT16: return int_fits(l, 16, false);
    case MR_UINT32: return int_fits(l, 32, false);
    case MR_UINT64: return int_fits(l, 64, false);
    default: return false;
    }
}

bool mr_example_fits(const mr_example_value *v, mr_dtype type)
{
    if (v->kind == MR_EX_LIST) {
        for (int i = 0; i < v->n_items; i++)
            if (!mr_example_fits(v->items[i], type))
                return false;
        return true;
    }
    if (v->kind == MR_EX_NAME || v->any)
        return true;
    if (v->type != MR_INVALID && v->type != type)
        return false;
    for (int64_t i = 0; i < v->n; i++)
        if (!literal_fits(&v->elements[i], type))
            return false;
    return true;
}

/* ---- tensors ---- */

static int64_t int_of(const mr_literal *l) { return (int64_t)(l->negative ? -l->bits : l->bits); }

static mr_status *set_element(mr_tensor *t, int64_t i, const mr_literal *l)
{
    mr_dtype type = (mr_dtype)t->dtype;
    if (type == MR_STRING)
        return mr_tensor_set_str(t, i, l->str);
    char *at = (char *)t->data + (size_t)i * mr_dtype_size(type);
    if (mr_dtype_is_floating(type)) {
        mr_dtype_convert(MR_DOUBLE, &l->re, type, at, 1, false);
    } else if (mr_dtype_is_complex(type)) {
        double parts[2] = {l->re, l->im};
        mr_dtype_convert(MR_COMPLEX128, parts, type, at, 1, false);
    } else {
        int64_t v = int_of(l);
        mr_dtype_convert(MR_INT64, &v, type, at, 1, false);
    }
    return NULL;
}

mr_status *mr_example_tensor(const mr_example_value *v, mr_dtype type, mr_tensor **out)
{
    *out = NULL;
    if (!mr_example_fits(v, type))
        return NULL;
    mr_tensor *t;
    MR_TRY(mr_tensor_zeros(NULL, type, v->shape->rank, v->shape->dims, &t));
    for (int64_t i = 0; i < v->n && !v->any; i++) {
        mr_status *st = set_element(t, i, &v->elements[i]);
        if (st) {
            mr_tensor_unref(t);
            return st;
        }
    }
    *out = t;
    return NULL;
}

/* ---- comparison ---- */

static double type_epsilon(mr_dtype type)
{
    switch (type) {
    case MR_HALF: return 0x1p-10;
    case MR_BFLOAT16: return 0x1p-7;
    case MR_FLOAT: case MR_COMPLEX64: return FLT_EPSILON;
    default: return DBL_EPSILON;
    }
}

/* Largest finite number among the literals. */
static double literal_scale(const mr_example_value *v)
{
    double scale = 0;
    for (int64_t i = 0; i < v->n; i++) {
        double re = fabs(v->elements[i].re), im = fabs(v->elements[i].im);
        scale = fmax(scale, fmax(isfinite(re) ? re : 0, isfinite(im) ? im : 0));
    }
    return scale;
}

static bool is_near(double got, double want, double tolerance)
{
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got);
    return got == want || fabs(got - want) <= tolerance;
}

static mr_status *compare_number(const mr_literal *l, mr_dtype type, const void *at, double slack,
                                 int64_t i)
{
    double got[2] = {0, 0};
    mr_dtype_convert(type, at, MR_COMPLEX128, got, 1, false);
    double tolerance = slack + (l->is_int ? 0 : 0.5 * pow(10, l->last_digit));
    bool sign =
        l->is_complex || l->re != 0 || !l->negative || signbit(got[0]); /* -0 must be negative zero */
    if (is_near(got[0], l->re, tolerance) && is_near(got[1], l->im, tolerance) && sign)
        return NULL;
    if (isnan(l->re) && !l->is_complex && (isnan(got[0]) || isnan(got[1]))) /* a complex NaN matches if either part
                                                                             * is NaN */
        return NULL;
    if (mr_dtype_is_complex(type))
        return mr_invalid("element %lld is %.9g%+.9gi, expected %.9g%+.9gi", (long long)i, got[0],
                          got[1], l->re, l->im);
    return mr_invalid("element %lld is %.9g, expected %.9g", (long long)i, got[0], l->re);
}

static mr_status *compare_int(const mr_literal *l, mr_dtype type, const void *at, int64_t i)
{
    int64_t got = 0;
    mr_dtype_convert(type, at, MR_INT64, &got, 1, false);
    if (got == int_of(l))
        return NULL;
    return mr_invalid("element %lld is %lld, expected %lld", (long long)i, (long long)got,
                      (long long)int_of(l));
}

static mr_status *compare_element(const mr_literal *l, const mr_tensor *t, int64_t i, double slack)
{
    mr_dtype type = (mr_dtype)t->dtype;
    if (l->any)
        return NULL;
    if (type == MR_STRING) {
        mr_sv got = mr_tensor_str_at(t, i);
        return mr_sv_eq(got, l->str) ? NULL
                                     : mr_invalid("element %lld is \"%.*s\", expected \"%.*s\"",
                                                  (long long)i, MR_SV_ARG(got), MR_SV_ARG(l->str));
    }
    const char *at = (const char *)t->data + (size_t)i * mr_dtype_size(type);
    if (mr_dtype_is_floating(type) || mr_dtype_is_complex(type))
        return compare_number(l, type, at, slack, i);
    return compare_int(l, type, at, i);
}

mr_status *mr_example_compare(const mr_example_value *expected, const mr_tensor *got)
{
    const mr_shape *s = expected->shape;
    if (!mr_shape_eq(s->rank, s->dims, got->rank, got->dims))
        return mr_invalid("shape is %s, expected %s", MR_TENSOR_SHAPE(got),
                          MR_SHAPE_TEXT(s->rank, s->dims));
    if (expected->any)
        return NULL;
    double slack = 8 * type_epsilon((mr_dtype)got->dtype) * literal_scale(expected);
    for (int64_t i = 0; i < expected->n; i++)
        MR_TRY(compare_element(&expected->elements[i], got, i, slack));
    return NULL;
}

/* ---- attrs ---- */

static mr_status *bad_attr(const mr_example_attr *attr, const char *kind)
{
    return mr_invalid("attr %.*s: %.*s is not a valid %s", MR_SV_ARG(attr->name), MR_SV_ARG(attr->text),
                      kind);
}

/* Splits a list's text [a, b] into its parts; n is -1 when the text is not a list. */
static mr_sv *list_parts(mr_arena *a, mr_sv text, int *n)
{
    *n = -1;
    if (text.n < 2 || text.p[0] != '[' || text.p[text.n - 1] != ']')
        return NULL;
    mr_sv inner = mr_sv_trim((mr_sv){text.p + 1, text.n - 2});
    mr_sv *parts = mr_arena_array(a, mr_sv, inner.n + 1);
    *n = 0;
    if (inner.n == 0)
        return parts;
    int depth = 0;
    bool in_string = false;
    size_t start = 0;
    for (size_t i = 0; i <= inner.n; i++) {
        char c = i < inner.n ? inner.p[i] : ',';
        if (c == '"')
            in_string = !in_string;
        else if (!in_string && (c == '[' || c == '('))
            depth++;
        else if (!in_string && (c == ']' || c == ')'))
            depth--;
        else if (c == ',' && !in_string && depth == 0) {
            parts[(*n)++] = mr_sv_trim((mr_sv){inner.p + start, i - start});
            start = i + 1;
        }
    }
    return parts;
}

static bool parse_type(mr_sv text, mr_dtype key, int *out)
{
    *out = mr_sv_is(text, "$T") ? (int)key : (int)mr_dtype_from_name(text);
    return *out != MR_INVALID;
}

static bool parse_shape(mr_arena *a, mr_sv text, const mr_pshape **out)
{
    *out = &mr_pshape_unknown;
    if (mr_sv_is(text, "?"))
        return true;
    int n;
    mr_sv *parts = list_parts(a, text, &n);
    if (n < 0 || n > MR_MAX_RANK)
        return false;
    mr_pshape *s = mr_pshape_new(a, n);
    for (int i = 0; i < n; i++)
        if (!mr_sv_is(parts[i], "?") && !mr_sv_to_i64(parts[i], &s->dims[i]))
            return false;
    *out = s;
    return true;
}

static bool parse_float(mr_arena *a, mr_sv text, float *out)
{
    mr_example_value *v;
    mr_status *st = mr_example_parse_value(a, text, &v);
    bool ok = !st && v->kind == MR_EX_TENSOR && v->n == 1 && !v->any && !v->elements[0].is_str;
    *out = ok ? (float)v->elements[0].re : 0;
    mr_status_free(st);
    return ok;
}

static bool parse_string(mr_arena *a, mr_sv text, mr_sv *out)
{
    mr_example_value *v;
    mr_status *st = mr_example_parse_value(a, text, &v);
    bool ok = !st && v->kind == MR_EX_TENSOR && v->n == 1 && !v->any && v->elements[0].is_str;
    *out = ok ? v->elements[0].str : (mr_sv){NULL, 0};
    mr_status_free(st);
    return ok;
}

static mr_status *parse_tensor(mr_arena *a, const mr_example_attr *attr, mr_attr *out,
                               mr_tensor **held)
{
    mr_example_value *v;
    MR_TRY(mr_example_parse_value(a, attr->text, &v));
    if (v->kind != MR_EX_TENSOR || v->type == MR_INVALID)
        return bad_attr(attr, "tensor with its type in front");
    MR_TRY(mr_example_tensor(v, v->type, held));
    if (!*held)
        return bad_attr(attr, "tensor of this type");
    mr_tensor_attr *t = mr_arena_new(a, mr_tensor_attr);
    t->t = *held;
    *out = (mr_attr){MR_ATTR_TENSOR, .tensor = t};
    return NULL;
}

/* Parses each part of a list into an array of T. */
#define PARSE_LIST(T, member, parse)                              \
    do {                                                          \
        T *v = mr_arena_array(a, T, n + 1);                       \
        for (int i = 0; i < n; i++)                               \
            if (!(parse))                                         \
                return bad_attr(attr, "list of its kind");        \
        out->member = v;                                          \
    } while (0)

static bool parse_bool(mr_sv text, bool *out)
{
    *out = mr_sv_is(text, "true");
    return *out || mr_sv_is(text, "false");
}

static mr_status *parse_list(mr_arena *a, const mr_example_attr *attr, const mr_attr_def *def,
                             mr_dtype key, mr_attr *out)
{
    int n;
    mr_sv *parts = list_parts(a, attr->text, &n);
    if (n < 0)
        return bad_attr(attr, "list");
    *out = (mr_attr){def->kind, true, n, .i = 0};
    switch (def->kind) {
    case MR_ATTR_INT: PARSE_LIST(int64_t, is, mr_sv_to_i64(parts[i], &v[i])); return NULL;
    case MR_ATTR_FLOAT: PARSE_LIST(float, fs, parse_float(a, parts[i], &v[i])); return NULL;
    case MR_ATTR_BOOL: PARSE_LIST(bool, bs, parse_bool(parts[i], &v[i])); return NULL;
    case MR_ATTR_TYPE: PARSE_LIST(int, types, parse_type(parts[i], key, &v[i])); return NULL;
    case MR_ATTR_STRING: PARSE_LIST(mr_sv, ss, parse_string(a, parts[i], &v[i])); return NULL;
    case MR_ATTR_SHAPE:
        PARSE_LIST(const mr_pshape *, shapes, parse_shape(a, parts[i], &v[i]));
        return NULL;
    default: return bad_attr(attr, "list that examples can give");
    }
}

mr_status *mr_example_attr_value(mr_arena *a, const mr_example_attr *attr, const mr_attr_def *def,
                                 mr_dtype key, mr_attr *out, mr_tensor **held)
{
    *held = NULL;
    if (def->is_list)
        return parse_list(a, attr, def, key, out);
    *out = (mr_attr){def->kind, .i = 0};
    switch (def->kind) {
    case MR_ATTR_INT: return mr_sv_to_i64(attr->text, &out->i) ? NULL : bad_attr(attr, "int");
    case MR_ATTR_FLOAT: return parse_float(a, attr->text, &out->f) ? NULL : bad_attr(attr, "float");
    case MR_ATTR_BOOL: return parse_bool(attr->text, &out->b) ? NULL : bad_attr(attr, "bool");
    case MR_ATTR_TYPE:
        return parse_type(attr->text, key, &out->type) ? NULL : bad_attr(attr, "type");
    case MR_ATTR_STRING:
        return parse_string(a, attr->text, &out->s) ? NULL : bad_attr(attr, "string");
    case MR_ATTR_SHAPE:
        return parse_shape(a, attr->text, &out->shape) ? NULL : bad_attr(attr, "shape");
    case MR_ATTR_TENSOR: return parse_tensor(a, attr, out, held);
    default: return bad_attr(attr, "attr that examples can give");
    }
}
