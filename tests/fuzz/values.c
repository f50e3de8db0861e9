/* tests/fuzz/values.c -- random element types, shapes, tensors and attrs. */
#include "tests/fuzz/values.h"

#include <math.h>

#include "base/memory.h"

enum { MOST_ELEMENTS = 1200 };

/* ---- numbers ---- */

int64_t fuzz_odd_int(fuzz_rng *r)
{
    switch (fuzz_below(r, 8)) {
    case 0:
    case 1:
    case 2: return fuzz_between(r, -2, 5);
    case 3: return fuzz_between(r, -300, 300);
    case 4: /* a power of two, or next to one */
        return (int64_t)(((uint64_t)1 << fuzz_below(r, 64)) + (uint64_t)fuzz_between(r, -1, 1));
    case 5: return (int64_t)((uint64_t)fuzz_between(r, -1, 1) - ((uint64_t)1 << fuzz_below(r, 63)));
    case 6: {
        static const int64_t ends[] = {INT8_MIN,   INT8_MAX,  UINT8_MAX, INT16_MIN,  INT16_MAX,
                                       UINT16_MAX, INT32_MIN, INT32_MAX, UINT32_MAX, INT64_MIN,
                                       INT64_MAX,  254,       255,       256};
        return fuzz_pick(r, ends);
    }
    default: return (int64_t)(fuzz_u64(r) >> fuzz_below(r, 64));
    }
}

static double odd_float(fuzz_rng *r)
{
    static const double odd[] = {NAN,           INFINITY, -INFINITY, 0.0,   -0.0,
                                 1e-45,         -1e-310,  65504,     65520, 3.4028235e38,
                                 -3.4028235e38, 1e308,    1e-8,      0.5,   2147483648.0,
                                 -2147483649.0, 9.3e18,   1.0 / 3};
    return fuzz_pick(r, odd);
}

mr_dtype fuzz_dtype(fuzz_rng *r)
{
    static const mr_dtype usual[] = {MR_FLOAT, MR_DOUBLE, MR_INT32, MR_INT64, MR_BOOL, MR_STRING};
    if (fuzz_once_in(r, 2))
        return fuzz_pick(r, usual);
    for (;;) {
        int t = (int)fuzz_between(r, 1, 30);
        if (mr_dtype_valid(t))
            return (mr_dtype)t;
    }
}

/* ---- shapes ---- */

int64_t fuzz_dim(fuzz_rng *r)
{
    static const uint8_t sizes[] = {0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 16, 17, 33};
    return fuzz_pick(r, sizes);
}

void fuzz_shape_limit(mr_shape *s, int64_t most)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++) {
        if (s->dims[i] > 0 && n * s->dims[i] > most)
            s->dims[i] = 1;
        n *= s->dims[i] > 0 ? s->dims[i] : 1; /* a 0 does not allow the others to be huge */
    }
}

void fuzz_shape(fuzz_rng *r, mr_shape *out)
{
    static const uint8_t ranks[] = {0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 9};
    out->rank = fuzz_pick(r, ranks);
    int64_t same = fuzz_between(r, 1, 4); /* equal sizes make compatible shapes likely */
    for (int i = 0; i < out->rank; i++)
        out->dims[i] = fuzz_once_in(r, 2) ? same : fuzz_dim(r);
    fuzz_shape_limit(out, MOST_ELEMENTS);
}

const mr_pshape *fuzz_pshape_of(fuzz_rng *r, mr_arena *a, int rank, const int64_t *dims)
{
    mr_pshape *p;
    switch (fuzz_below(r, 4)) {
    case 0: return &mr_pshape_unknown;
    case 1: return mr_pshape_of(a, rank, dims);
    default:
        p = mr_pshape_new(a, rank);
        for (int i = 0; i < rank; i++)
            p->dims[i] = fuzz_once_in(r, 2) ? dims[i] : -1;
        return p;
    }
}

const mr_pshape *fuzz_pshape(fuzz_rng *r, mr_arena *a)
{
    mr_shape s;
    fuzz_shape(r, &s);
    for (int i = 0; i < s.rank; i++)
        if (fuzz_once_in(r, 20))
            s.dims[i] = fuzz_odd_int(r);
    for (int i = 0; i < s.rank; i++)
        s.dims[i] = MR_MAX(s.dims[i], -1);
    return fuzz_pshape_of(r, a, s.rank, s.dims);
}

/* ---- strings ---- */

void fuzz_string(fuzz_rng *r, mr_str *out)
{
    /* Between 22 and 23 bytes, a TF_TString stops storing its bytes inline. */
    static const uint16_t sizes[] = {0, 0, 1, 2, 3, 5, 8, 15, 21, 22, 23, 24, 40, 255, 256, 1000};
    static const char *const words[] = {"a",
                                        "a,b",
                                        "1 2 0,1:-",
                                        "-1",
                                        "3.14",
                                        "nan",
                                        "VALID",
                                        "SAME",
                                        "NHWC",
                                        "x:0",
                                        "^x",
                                        "\xff\xfe",
                                        "\xe4\xb8\xad",
                                        "%s%n",
                                        "[1,2]",
                                        "foo/bar",
                                        "9223372036854775808"};
    if (fuzz_once_in(r, 2)) {
        mr_str_appendz(out, fuzz_pick(r, words));
        return;
    }
    for (int n = fuzz_pick(r, sizes); n > 0; n--)
        mr_str_appendc(
            out, (char)(fuzz_once_in(r, 8) ? fuzz_u64(r) : (uint64_t)fuzz_between(r, 'a', 'z')));
}

/* ---- elements ---- */

typedef enum style { SMALL, MIXED, ODD, BITS, SAME, N_STYLES } style;

static void put_number(mr_tensor *t, int64_t i, double re, double im)
{
    mr_dtype type = (mr_dtype)t->dtype;
    void *at = (char *)t->data + (size_t)i * mr_dtype_size(type);
    if (mr_dtype_is_complex(type))
        mr_dtype_convert(MR_COMPLEX128, (double[]){re, im}, type, at, 1, false);
    else
        mr_dtype_convert(MR_DOUBLE, &re, type, at, 1, false);
}

static void put_int(mr_tensor *t, int64_t i, int64_t v)
{
    mr_dtype type = (mr_dtype)t->dtype;
    size_t size = mr_dtype_size(type);
    memcpy((char *)t->data + (size_t)i * size, &v, MR_MIN(size, sizeof(v)));
}

static void put_bits(fuzz_rng *r, mr_tensor *t, int64_t i)
{
    size_t size = mr_dtype_size((mr_dtype)t->dtype);
    uint64_t bits[2] = {fuzz_u64(r), fuzz_u64(r)};
    memcpy((char *)t->data + (size_t)i * size, bits, MR_MIN(size, sizeof(bits)));
}

static bool is_fraction(mr_dtype t) { return mr_dtype_is_floating(t) || mr_dtype_is_complex(t); }

static void put_plain(fuzz_rng *r, mr_tensor *t, int64_t i, style s)
{
    mr_dtype type = (mr_dtype)t->dtype;
    if (s == MIXED)
        s = fuzz_once_in(r, 5) ? ODD : SMALL;
    if (type == MR_BOOL)
        MR_DATA(bool, t)[i] = fuzz_once_in(r, 2);
    else if (s == BITS)
        put_bits(r, t, i);
    else if (is_fraction(type) && s == ODD)
        put_number(t, i, odd_float(r), odd_float(r));
    else if (is_fraction(type))
        put_number(t, i, (double)fuzz_between(r, -8, 8) / 4, (double)fuzz_between(r, -4, 4) / 2);
    else
        put_int(t, i, s == ODD ? fuzz_odd_int(r) : fuzz_between(r, fuzz_once_in(r, 3) ? -2 : 0, 4));
}

/* Handles to nothing; every second one is missing. */
static void put_handle(fuzz_rng *r, mr_tensor *t, int64_t i)
{
    static const char *const types[] = {"tensorflow::Var", "tensorflow::QueueInterface", "x", ""};
    struct mr_handle_part part = {fuzz_dtype(r), &mr_pshape_scalar};
    if (t->dtype != MR_RESOURCE)
        return;
    mr_object_unref(MR_DATA(mr_object *, t)[i]);
    MR_DATA(mr_object *, t)[i] = NULL;
    if (fuzz_once_in(r, 2))
        return;
    MR_DATA(mr_handle *, t)
    [i] = mr_handle_new(fuzz_once_in(r, 2) ? "/job:localhost/replica:0/task:0/device:CPU:0" : "",
                        fuzz_once_in(r, 2) ? "localhost" : "c", "n", fuzz_pick(r, types),
                        (int)fuzz_below(r, 2), &part);
}

static void put_element(fuzz_rng *r, mr_tensor *t, int64_t i, style s)
{
    if (mr_dtype_is_plain((mr_dtype)t->dtype)) {
        put_plain(r, t, i, s);
    } else if (t->dtype == MR_STRING) {
        mr_str v = {0};
        fuzz_string(r, &v);
        mr_status_free(mr_tensor_set_str(t, i, mr_str_view(&v)));
        mr_str_deinit(&v);
    } else {
        put_handle(r, t, i);
    }
}

/* Allocations of these sizes always succeed. */
static void must(mr_status *st)
{
    if (st)
        mr_out_of_memory(0);
}

mr_tensor *fuzz_tensor(fuzz_rng *r, mr_dtype type, int rank, const int64_t *dims)
{
    mr_tensor *t;
    must(mr_tensor_zeros(NULL, type, rank, dims, &t));
    style s = (style)fuzz_below(r, N_STYLES);
    for (int64_t i = 0; i < t->n; i++) {
        if (s == SAME && i > 0 && mr_dtype_is_plain(type))
            must(mr_tensor_try_copy_elements(t, i, t, 0, 1));
        else
            put_element(r, t, i, s == SAME ? MIXED : s);
    }
    return t;
}

mr_tensor *fuzz_any_tensor(fuzz_rng *r, mr_dtype t)
{
    mr_shape s;
    fuzz_shape(r, &s);
    return fuzz_tensor(r, t, s.rank, s.dims);
}

/* ---- something like a tensor ---- */

static mr_tensor *other_values(fuzz_rng *r, const mr_tensor *t)
{
    mr_tensor *c;
    must(mr_tensor_copy(NULL, t, &c));
    for (uint64_t k = 1 + fuzz_below(r, 3); k > 0 && c->n > 0; k--)
        put_element(r, c, (int64_t)fuzz_below(r, (uint64_t)c->n), fuzz_once_in(r, 2) ? SMALL : ODD);
    return c;
}

/* One step away from a shape. */
static void change_shape(fuzz_rng *r, mr_shape *s)
{
    int at = (int)fuzz_below(r, (uint64_t)s->rank);
    switch (fuzz_below(r, 6)) {
    case 0:
        if (s->rank > 0)
            s->rank--;
        break;
    case 1:
        if (s->rank < 9)
            s->dims[s->rank++] = fuzz_dim(r);
        break;
    case 2:
        if (s->rank > 0) {
            int64_t first = s->dims[0];
            s->dims[0] = s->dims[at];
            s->dims[at] = first;
        }
        break;
    case 3: fuzz_shape(r, s); break;
    default:
        if (s->rank > 0)
            s->dims[at] = fuzz_once_in(r, 4) ? 0 : fuzz_dim(r);
    }
    fuzz_shape_limit(s, MOST_ELEMENTS);
}

/* The same elements under another shape. */
static mr_tensor *reshaped(fuzz_rng *r, const mr_tensor *t)
{
    mr_tensor *v;
    int64_t dims[3] = {1, t->n, 1};
    int rank = 1 + (int)fuzz_below(r, 3), first = rank == 1   ? 1
                                                  : rank == 2 ? (int)fuzz_below(r, 2)
                                                              : 0;
    must(mr_tensor_view(t, (mr_dtype)t->dtype, rank, dims + first, &v));
    return v;
}

/* Rows of a larger tensor: data that does not start at the start of its buffer. */
static mr_tensor *cut_out(fuzz_rng *r, const mr_tensor *t)
{
    mr_shape s;
    mr_tensor *rows;
    mr_shape_set(&s, t->rank, t->dims);
    if (t->rank == 0)
        return other_values(r, t);
    s.dims[0] += 2;
    mr_tensor *larger = fuzz_tensor(r, (mr_dtype)t->dtype, s.rank, s.dims);
    must(mr_tensor_rows(larger, 1, t->dims[0], &rows));
    mr_tensor_unref(larger);
    return rows;
}

mr_tensor *fuzz_tensor_like(fuzz_rng *r, const mr_tensor *t)
{
    mr_shape s;
    mr_shape_set(&s, t->rank, t->dims);
    switch (fuzz_below(r, 12)) {
    case 0:
    case 1:
    case 2:
    case 3: return other_values(r, t);
    case 4:
    case 5: return fuzz_tensor(r, (mr_dtype)t->dtype, s.rank, s.dims);
    case 6: return reshaped(r, t);
    case 7: return cut_out(r, t);
    case 8: return fuzz_any_tensor(r, fuzz_once_in(r, 3) ? fuzz_dtype(r) : (mr_dtype)t->dtype);
    default: change_shape(r, &s); return fuzz_tensor(r, (mr_dtype)t->dtype, s.rank, s.dims);
    }
}

/* ---- attrs ---- */

static int attr_type(fuzz_rng *r, const mr_attr_def *d)
{
    if (d->n_allowed > 0 && !fuzz_once_in(r, 30))
        return d->types[fuzz_below(r, (uint64_t)d->n_allowed)];
    return fuzz_once_in(r, 50) ? (int)fuzz_between(r, -1, 140) : (int)fuzz_dtype(r);
}

static int64_t attr_int(fuzz_rng *r, const mr_attr_def *d)
{
    if (fuzz_once_in(r, 8))
        return fuzz_odd_int(r);
    return d->has_min && !d->is_list ? d->min + fuzz_between(r, 0, 3) : fuzz_between(r, -1, 4);
}

static mr_sv attr_string(fuzz_rng *r, mr_arena *a, const mr_attr_def *d)
{
    if (d->n_allowed > 0 && !fuzz_once_in(r, 30))
        return d->names[fuzz_below(r, (uint64_t)d->n_allowed)];
    mr_str s = {0};
    fuzz_string(r, &s);
    mr_sv v = {mr_arena_strndup(a, mr_str_z(&s), s.n), s.n};
    mr_str_deinit(&s);
    return v;
}

static const mr_tensor_attr *attr_tensor(fuzz_rng *r, mr_arena *a, mr_tensor_vec *held)
{
    mr_tensor_attr *v = mr_arena_new(a, mr_tensor_attr);
    v->t = fuzz_any_tensor(r, fuzz_dtype(r));
    mr_vec_push(held, v->t);
    return v;
}

static const mr_func_ref *attr_func(fuzz_rng *r, mr_arena *a)
{
    static const char *const names[] = {"f", "", "Add", "no such function"};
    mr_func_ref *f = mr_arena_new(a, mr_func_ref);
    f->name = fuzz_pick(r, names);
    return f;
}

static float attr_float(fuzz_rng *r)
{
    return fuzz_once_in(r, 4) ? (float)odd_float(r) : (float)fuzz_between(r, -8, 8) / 4;
}

static mr_attr one_attr(fuzz_rng *r, mr_arena *a, const mr_attr_def *d, mr_tensor_vec *held)
{
    switch (d->kind) {
    case MR_ATTR_STRING: return mr_a_sv(attr_string(r, a, d));
    case MR_ATTR_INT: return mr_a_int(attr_int(r, d));
    case MR_ATTR_FLOAT: return mr_a_float(attr_float(r));
    case MR_ATTR_BOOL: return mr_a_bool(fuzz_once_in(r, 2));
    case MR_ATTR_TYPE: return mr_a_type(attr_type(r, d));
    case MR_ATTR_SHAPE: return mr_a_shape(fuzz_pshape(r, a));
    case MR_ATTR_TENSOR: return (mr_attr){MR_ATTR_TENSOR, .tensor = attr_tensor(r, a, held)};
    case MR_ATTR_FUNC: return (mr_attr){MR_ATTR_FUNC, .func = attr_func(r, a)};
    default: return mr_a_int(0);
    }
}

/* n values of one kind as a list. */
static mr_attr attr_list(fuzz_rng *r, mr_arena *a, const mr_attr_def *d, int n, mr_tensor_vec *held)
{
    mr_attr v = {d->kind, true, n, .i = 0};
    mr_attr *one = mr_arena_array(a, mr_attr, n + 1);
    for (int i = 0; i < n; i++)
        one[i] = one_attr(r, a, d, held);
#define GATHER(T, plural, singular)         \
    {                                       \
        T *p = mr_arena_array(a, T, n + 1); \
        for (int i = 0; i < n; i++)         \
            p[i] = one[i].singular;         \
        v.plural = p;                       \
        break;                              \
    }
    switch (d->kind) {
    case MR_ATTR_STRING: GATHER(mr_sv, ss, s)
    case MR_ATTR_INT: GATHER(int64_t, is, i)
    case MR_ATTR_FLOAT: GATHER(float, fs, f)
    case MR_ATTR_BOOL: GATHER(bool, bs, b)
    case MR_ATTR_TYPE: GATHER(int, types, type)
    case MR_ATTR_SHAPE: GATHER(const mr_pshape *, shapes, shape)
    case MR_ATTR_TENSOR: GATHER(const mr_tensor_attr *, tensors, tensor)
    case MR_ATTR_FUNC: GATHER(const mr_func_ref *, funcs, func)
    default: v.n = 0;
    }
#undef GATHER
    return v;
}

mr_attr fuzz_attr(fuzz_rng *r, mr_arena *a, const mr_attr_def *d, mr_tensor_vec *held)
{
    mr_attr_def other = *d;
    if (fuzz_once_in(r, 60)) { /* a value of another kind */
        other.kind = (mr_attr_kind)fuzz_between(r, MR_ATTR_STRING, MR_ATTR_TENSOR);
        other.n_allowed = 0;
    }
    if (!d->is_list)
        return one_attr(r, a, &other, held);
    static const uint8_t lengths[] = {0, 1, 2, 2, 3, 4, 4, 4, 5, 8};
    return attr_list(r, a, &other, fuzz_pick(r, lengths), held);
}
