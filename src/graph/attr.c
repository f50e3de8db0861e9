/* graph/attr.c -- copies, compares, hashes and prints attr values.
 *
 * A value is a tagged union; a list is the same with an array for each kind. Code for lists goes through
 * list_element(), which returns entry i as a single value, so each kind is handled once. Values may nest (a func attr
 * carries attrs); the reader limits the depth to 100 levels. */
#include "graph/attr.h"

#include <stdlib.h>

#include "base/memory.h"

/* ---- copies ---- */

static mr_sv copy_sv(mr_arena *a, mr_sv s)
{
    return (mr_sv){mr_arena_strndup(a, s.p ? s.p : "", s.n), s.n};
}

static const mr_pshape *copy_shape(mr_arena *a, const mr_pshape *s)
{
    return s->rank < 0 ? &mr_pshape_unknown : mr_pshape_of(a, s->rank, s->dims);
}

/* Adds a reference to `held`; if held is NULL, the source must outlive the copy. */
static mr_tensor *hold_tensor(mr_tensor_vec *held, mr_tensor *t)
{
    if (t && held)
        mr_vec_push(held, mr_tensor_ref(t));
    return t;
}

static const mr_tensor_attr *copy_tensor(mr_arena *a, mr_tensor_vec *held, const mr_tensor_attr *v)
{
    mr_tensor_attr *copy = mr_arena_new(a, mr_tensor_attr);
    *copy = *v;
    hold_tensor(held, v->t);
    if (v->blob)
        hold_tensor(held, v->blob);
    else if (v->raw.p)
        copy->raw = copy_sv(a, v->raw);
    return copy;
}

static const mr_func_ref *copy_func(mr_arena *a, mr_tensor_vec *held, const mr_func_ref *f)
{
    mr_func_ref *copy = mr_arena_new(a, mr_func_ref);
    mr_named_attr *attrs = mr_arena_array(a, mr_named_attr, f->n_attrs);
    for (int i = 0; i < f->n_attrs; i++)
        attrs[i] = (mr_named_attr){mr_arena_strdup(a, f->attrs[i].name),
                                   mr_attr_copy(a, held, &f->attrs[i].v)};
    *copy = (mr_func_ref){mr_arena_strdup(a, f->name), f->n_attrs, attrs};
    return copy;
}

static mr_attr copy_list(mr_arena *a, mr_tensor_vec *held, const mr_attr *v)
{
    mr_attr out = *v;
    size_t n = (size_t)v->n;
    MR_ASSERT(v->is_list && v->n >= 0);
    mr_sv *ss;
    const mr_pshape **shapes;
    const mr_tensor_attr **tensors;
    const mr_func_ref **funcs;
    switch (v->kind) {
    case MR_ATTR_STRING:
        out.ss = ss = mr_arena_array(a, mr_sv, n);
        for (size_t i = 0; i < n; i++)
            ss[i] = copy_sv(a, v->ss[i]);
        break;
    case MR_ATTR_INT: out.is = mr_arena_memdup(a, v->is, n * sizeof(v->is[0])); break;
    case MR_ATTR_FLOAT: out.fs = mr_arena_memdup(a, v->fs, n * sizeof(v->fs[0])); break;
    case MR_ATTR_BOOL: out.bs = mr_arena_memdup(a, v->bs, n * sizeof(v->bs[0])); break;
    case MR_ATTR_TYPE: out.types = mr_arena_memdup(a, v->types, n * sizeof(v->types[0])); break;
    case MR_ATTR_SHAPE:
        out.shapes = shapes = mr_arena_array(a, const mr_pshape *, n);
        for (size_t i = 0; i < n; i++)
            shapes[i] = copy_shape(a, v->shapes[i]);
        break;
    case MR_ATTR_TENSOR:
        out.tensors = tensors = mr_arena_array(a, const mr_tensor_attr *, n);
        for (size_t i = 0; i < n; i++)
            tensors[i] = copy_tensor(a, held, v->tensors[i]);
        break;
    case MR_ATTR_FUNC:
        out.funcs = funcs = mr_arena_array(a, const mr_func_ref *, n);
        for (size_t i = 0; i < n; i++)
            funcs[i] = copy_func(a, held, v->funcs[i]);
        break;
    case MR_ATTR_NONE:
    case MR_ATTR_PLACEHOLDER: break;
    }
    return out;
}

mr_attr mr_attr_copy(mr_arena *a, mr_tensor_vec *held, const mr_attr *v)
{
    mr_attr out = *v; /* complete for numbers, bools and types */
    if (v->is_list)
        return copy_list(a, held, v);
    switch (v->kind) {
    case MR_ATTR_STRING:
    case MR_ATTR_PLACEHOLDER: out.s = copy_sv(a, v->s); break;
    case MR_ATTR_SHAPE: out.shape = copy_shape(a, v->shape); break;
    case MR_ATTR_TENSOR: out.tensor = copy_tensor(a, held, v->tensor); break;
    case MR_ATTR_FUNC: out.func = copy_func(a, held, v->func); break;
    case MR_ATTR_NONE:
    case MR_ATTR_INT:
    case MR_ATTR_FLOAT:
    case MR_ATTR_BOOL:
    case MR_ATTR_TYPE: break;
    }
    return out;
}

/* ---- element i of a list as a single value ---- */

static mr_attr list_element(const mr_attr *v, int i)
{
    mr_attr e = {.kind = v->kind};
    MR_ASSERT(v->is_list && i >= 0 && i < v->n);
    switch (v->kind) {
    case MR_ATTR_STRING: e.s = v->ss[i]; break;
    case MR_ATTR_INT: e.i = v->is[i]; break;
    case MR_ATTR_FLOAT: e.f = v->fs[i]; break;
    case MR_ATTR_BOOL: e.b = v->bs[i]; break;
    case MR_ATTR_TYPE: e.type = v->types[i]; break;
    case MR_ATTR_SHAPE: e.shape = v->shapes[i]; break;
    case MR_ATTR_TENSOR: e.tensor = v->tensors[i]; break;
    case MR_ATTR_FUNC: e.func = v->funcs[i]; break;
    case MR_ATTR_NONE:
    case MR_ATTR_PLACEHOLDER: break;
    }
    return e;
}

/* ---- equality and hash ---- */

/* Their attrs are sorted by name, so they are compared pairwise. */
static bool func_eq(const mr_func_ref *a, const mr_func_ref *b)
{
    if (strcmp(a->name, b->name) != 0 || a->n_attrs != b->n_attrs)
        return false;
    for (int i = 0; i < a->n_attrs; i++)
        if (strcmp(a->attrs[i].name, b->attrs[i].name) != 0 ||
            !mr_attr_eq(&a->attrs[i].v, &b->attrs[i].v))
            return false;
    return true;
}

static bool single_eq(const mr_attr *a, const mr_attr *b)
{
    switch (a->kind) {
    case MR_ATTR_NONE: return true;
    case MR_ATTR_STRING:
    case MR_ATTR_PLACEHOLDER: return mr_sv_eq(a->s, b->s);
    case MR_ATTR_INT: return a->i == b->i;
    case MR_ATTR_FLOAT: /* by bits: NaN equals itself, 0 differs from -0 */
        return memcmp(&a->f, &b->f, sizeof(a->f)) == 0;
    case MR_ATTR_BOOL: return a->b == b->b;
    case MR_ATTR_TYPE: return a->type == b->type;
    case MR_ATTR_SHAPE: return mr_pshape_eq(a->shape, b->shape);
    case MR_ATTR_TENSOR: return mr_tensor_attr_eq(a->tensor, b->tensor);
    case MR_ATTR_FUNC: return func_eq(a->func, b->func);
    }
    return false;
}

bool mr_attr_eq(const mr_attr *a, const mr_attr *b)
{
    if (a->is_list != b->is_list)
        return false;
    if (!a->is_list)
        return a->kind == b->kind && single_eq(a, b);
    if (a->n != b->n)
        return false;
    if (a->n == 0) /* an empty list has no kind */
        return true;
    if (a->kind != b->kind)
        return false;
    for (int i = 0; i < a->n; i++) {
        mr_attr x = list_element(a, i), y = list_element(b, i);
        if (!single_eq(&x, &y))
            return false;
    }
    return true;
}

static uint64_t mix_bytes(uint64_t seed, const void *p, size_t n)
{
    return (seed ^ mr_hash64(p, n)) * 0x9e3779b97f4a7c15u;
}

static uint64_t hash_func(const mr_func_ref *f, uint64_t seed)
{
    seed = mix_bytes(seed, f->name, strlen(f->name));
    for (int i = 0; i < f->n_attrs; i++) {
        seed = mix_bytes(seed, f->attrs[i].name, strlen(f->attrs[i].name));
        seed = mr_attr_hash(&f->attrs[i].v, seed);
    }
    return seed;
}

/* Equal values have equal hashes: an empty list is hashed by its length alone, since it has no kind, and tensors by
 * their values, not by their serialized form. */
uint64_t mr_attr_hash(const mr_attr *v, uint64_t seed)
{
    if (v->is_list) {
        seed = mix_bytes(seed, &v->n, sizeof(v->n));
        for (int i = 0; i < v->n; i++) {
            mr_attr e = list_element(v, i);
            seed = mr_attr_hash(&e, seed);
        }
        return seed;
    }
    seed += v->kind;
    switch (v->kind) {
    case MR_ATTR_NONE: return seed;
    case MR_ATTR_STRING:
    case MR_ATTR_PLACEHOLDER: return mix_bytes(seed, v->s.p, v->s.n);
    case MR_ATTR_INT: return mix_bytes(seed, &v->i, sizeof(v->i));
    case MR_ATTR_FLOAT: return mix_bytes(seed, &v->f, sizeof(v->f));
    case MR_ATTR_BOOL: return mix_bytes(seed, &v->b, sizeof(v->b));
    case MR_ATTR_TYPE: return mix_bytes(seed, &v->type, sizeof(v->type));
    case MR_ATTR_SHAPE:
        seed = mix_bytes(seed, &v->shape->rank, sizeof(v->shape->rank));
        return mix_bytes(seed, v->shape->dims, sizeof(int64_t) * (size_t)MR_MAX(v->shape->rank, 0));
    case MR_ATTR_TENSOR: return mr_tensor_attr_hash(v->tensor, seed);
    case MR_ATTR_FUNC: return hash_func(v->func, seed);
    }
    return seed;
}

/* ---- names ---- */

typedef struct sort_entry {
    mr_named_attr v;
    int index;
} sort_entry;

static int by_name_and_index(const void *a, const void *b)
{
    const sort_entry *x = a, *y = b;
    int c = strcmp(x->v.name, y->v.name);
    return c ? c : x->index - y->index;
}

/* For few attrs that are mostly sorted: the usual case. */
static void insertion_sort(mr_named_attr *v, int n)
{
    for (int i = 1; i < n; i++) {
        mr_named_attr x = v[i];
        int k = i;
        for (; k > 0 && strcmp(v[k - 1].name, x.name) > 0; k--)
            v[k] = v[k - 1];
        v[k] = x;
    }
}

/* Sorts short lists in place; long ones with qsort, made stable by the original index. */
mr_status *mr_named_attrs_sort(mr_named_attr *v, int *n)
{
    if (*n <= 32) {
        insertion_sort(v, *n);
    } else {
        sort_entry *e = mr_try_calloc((size_t)*n, sizeof(*e));
        if (!e)
            return mr_error(MR_RESOURCE_EXHAUSTED, "no memory to sort %d attrs", *n);
        for (int i = 0; i < *n; i++)
            e[i] = (sort_entry){v[i], i};
        qsort(e, (size_t)*n, sizeof(*e), by_name_and_index);
        for (int i = 0; i < *n; i++)
            v[i] = e[i].v;
        mr_free(e);
    }
    /* Both sorts are stable: of equal names the last one set comes last, and overwrites the others. */
    int kept = 0;
    for (int i = 0; i < *n; i++) {
        if (kept && strcmp(v[kept - 1].name, v[i].name) == 0)
            kept--;
        v[kept++] = v[i];
    }
    *n = kept;
    return NULL;
}

const mr_attr *mr_named_attrs_find(const mr_named_attr *v, int n, const char *name)
{
    int low = 0, high = n;
    while (low < high) { /* the name, if present, is in v[low .. high) */
        int mid = low + (high - low) / 2, c = strcmp(name, v[mid].name);
        if (c == 0)
            return &v[mid].v;
        if (c < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return NULL;
}

/* ---- printing ---- */

void mr_attr_type_name(mr_str *out, mr_attr_kind kind, bool is_list)
{
    static const char *const names[] = {"none", "string", "int",    "float",       "bool",
                                        "type", "shape",  "tensor", "placeholder", "func"};
    mr_str_printf(out, is_list ? "list(%s)" : "%s", names[kind]);
}

/* Quoted, control characters escaped; the middle of a long one is left out. */
static void print_string(mr_str *out, mr_sv s)
{
    mr_str_appendc(out, '"');
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (s.n > 80 && i == 35) {
            mr_str_appendz(out, "...");
            i = s.n - 35;
            c = (unsigned char)s.p[i];
        }
        if (c == '"' || c == '\\')
            mr_str_printf(out, "\\%c", c);
        else if (c < 32 || c == 127)
            mr_str_printf(out, "\\%03o", c);
        else
            mr_str_appendc(out, (char)c);
    }
    mr_str_appendc(out, '"');
}

/* Prints its first three values, or that it cannot be decoded: this is for error messages. */
static void print_tensor(mr_str *out, const mr_tensor_attr *v)
{
    mr_tensor *t = NULL;
    mr_status *st = mr_attr_tensor(v, &t);
    if (st) {
        mr_str_appendz(out, "<Invalid TensorProto>");
        mr_status_free(st);
        return;
    }
    mr_str_printf(out, "Tensor<type: %s shape: %s values: ", mr_dtype_name(t->dtype),
                  MR_TENSOR_SHAPE(t));
    mr_tensor_summarize(t, 3, out);
    mr_str_appendc(out, '>');
    mr_tensor_unref(t);
}

static void print_func(mr_str *out, const mr_func_ref *f)
{
    mr_str_printf(out, "%s[", f->name);
    for (int i = 0; i < f->n_attrs; i++) {
        mr_str_printf(out, "%s%s=", i ? ", " : "", f->attrs[i].name);
        mr_attr_print(out, &f->attrs[i].v);
    }
    mr_str_appendc(out, ']');
}

static void print_list(mr_str *out, const mr_attr *v)
{
    mr_str_appendc(out, '[');
    for (int i = 0; i < v->n; i++) {
        if (i)
            mr_str_appendz(out, ", ");
        if (v->n > 30 && i == 5) {
            mr_str_appendz(out, "..., ");
            i = v->n - 5;
        }
        mr_attr e = list_element(v, i);
        mr_attr_print(out, &e);
    }
    mr_str_appendc(out, ']');
}

void mr_attr_print(mr_str *out, const mr_attr *v)
{
    if (v->is_list) {
        print_list(out, v);
        return;
    }
    switch (v->kind) {
    case MR_ATTR_NONE: mr_str_appendz(out, "<Unknown AttrValue type>"); break;
    case MR_ATTR_STRING: print_string(out, v->s); break;
    case MR_ATTR_INT: mr_str_printf(out, "%lld", (long long)v->i); break;
    case MR_ATTR_FLOAT: mr_str_printf(out, "%g", (double)v->f); break;
    case MR_ATTR_BOOL: mr_str_appendz(out, v->b ? "true" : "false"); break;
    case MR_ATTR_TYPE: mr_str_appendz(out, mr_dtype_enum_name(v->type)); break;
    case MR_ATTR_SHAPE: mr_pshape_print(out, v->shape); break;
    case MR_ATTR_TENSOR: print_tensor(out, v->tensor); break;
    case MR_ATTR_PLACEHOLDER: mr_str_printf(out, "$%.*s", MR_SV_ARG(v->s)); break;
    case MR_ATTR_FUNC: print_func(out, v->func); break;
    }
}
