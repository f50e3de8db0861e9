/* graph/op_value.c -- reads the default of an attr from an op's text.
 *
 *     "SAME" 'x'   -1   1e-4 inf nan   true   DT_FLOAT float
 *     shapes    ?  []  [2,-1]  [2,?]  { unknown_rank: true }  { dim { size: 2 } }
 *     tensors   uint8[4]{255,0,0,255}  { dtype: DT_FLOAT float_val: 1 }
 *     functions { name: "f" }
 *     lists     [a, b]
 *
 * Text in braces is protobuf's text format of the message. */
#include "graph/op_text.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include "proto/graph.pb-c.h"
#include "wire/message.h"
#include "wire/text_format.h"

/* ---- numbers ---- */

/* The characters of a number, copied so that strtod finds their end. */
static mr_sv number_word(mr_sv *s, char *buf, size_t buf_bytes)
{
    size_t n = 0;
    mr_spec_space(s);
    while (n < s->n && n + 1 < buf_bytes &&
           (isalnum((unsigned char)s->p[n]) || strchr("+-._", s->p[n])))
        n++;
    memcpy(buf, s->p, n);
    buf[n] = '\0';
    s->p += n;
    s->n -= n;
    return (mr_sv){buf, n};
}

static mr_status *read_int(mr_sv *s, int64_t *out)
{
    char buf[64];
    mr_sv word = number_word(s, buf, sizeof(buf));
    return mr_sv_to_i64(word, out) ? NULL : mr_invalid("'%s' is not an int", buf);
}

static mr_status *read_double(mr_sv *s, double *out)
{
    char buf[64], *end;
    mr_sv word = number_word(s, buf, sizeof(buf));
    *out = strtod(buf, &end);
    if (end != buf && (*end == 'f' || *end == 'F') && end[1] == '\0') /* text format allows 1.5f */
        end++;
    return word.n && *end == '\0' ? NULL : mr_invalid("'%s' is not a number", buf);
}

static mr_status *read_bool(mr_sv *s, bool *out)
{
    mr_sv word = mr_spec_word(s);
    *out = mr_sv_is(word, "true");
    return *out || mr_sv_is(word, "false") ? NULL
                                           : mr_invalid("'%.*s' is not a bool", MR_SV_ARG(word));
}

static mr_status *read_type(mr_sv *s, int *out)
{
    mr_sv word = mr_spec_word(s);
    *out = mr_dtype_from_name(word);
    return *out ? NULL : mr_invalid("'%.*s' is not a type", MR_SV_ARG(word));
}

/* ---- messages ---- */

/* The text between a brace at s and its partner; quotes hide braces. */
static mr_status *read_braces(mr_sv *s, mr_sv *out)
{
    char quote = '\0';
    int depth = 0;
    if (mr_spec_peek(s) != '{')
        return mr_invalid("'{' is expected at '%.*s'", MR_SV_ARG(*s));
    for (size_t i = 0; i < s->n; i++) {
        char c = s->p[i];
        if (quote) {
            if (c == '\\')
                i++;
            else if (c == quote)
                quote = '\0';
        } else if (c == '"' || c == '\'') {
            quote = c;
        } else if (c == '{') {
            depth++;
        } else if (c == '}' && --depth == 0) {
            *out = (mr_sv){s->p + 1, i - 1};
            s->p += i + 1;
            s->n -= i + 1;
            return NULL;
        }
    }
    return mr_invalid("'{' is not closed");
}

/* A message in text as the bytes of an AttrValue that holds it. */
static mr_status *read_message(mr_sv *s, mr_arena *a, const char *field, mr_attr *out)
{
    mr_status *st = NULL;
    mr_sv inner = {0};
    mr_str text = {0}, bytes = {0};
    ProtobufCMessage *m = NULL;
    MR_GO(read_braces(s, &inner));
    mr_str_printf(&text, "%s { %.*s }", field, MR_SV_ARG(inner));
    MR_GO(mr_text_parse(&tensorflow__attr_value__descriptor, mr_str_view(&text), &m));
    MR_GO(mr_message_pack(m, &bytes));
    MR_GO(mr_attr_decode(a, mr_str_view(&bytes), out));
out:
    mr_message_free(m);
    mr_str_deinit(&text);
    mr_str_deinit(&bytes);
    return st;
}

/* ---- short forms of shapes and tensors ---- */

/* "[2,?]" after the opening bracket. */
static mr_status *read_dims(mr_sv *s, mr_shape *out)
{
    out->rank = 0;
    if (mr_spec_eat(s, "]"))
        return NULL;
    do {
        int64_t dim = -1;
        if (!mr_spec_eat(s, "?"))
            MR_TRY(read_int(s, &dim));
        if (out->rank == MR_MAX_RANK || dim < -1)
            return mr_invalid("bad shape");
        out->dims[out->rank++] = dim;
    } while (mr_spec_eat(s, ","));
    return mr_spec_eat(s, "]") ? NULL : mr_invalid("']' is expected at '%.*s'", MR_SV_ARG(*s));
}

static mr_status *read_shape(mr_sv *s, mr_arena *a, const mr_pshape **out)
{
    mr_shape dims;
    mr_attr v;
    if (mr_spec_eat(s, "?")) {
        *out = &mr_pshape_unknown;
    } else if (mr_spec_eat(s, "[")) {
        MR_TRY(read_dims(s, &dims));
        *out = mr_pshape_of(a, dims.rank, dims.dims);
    } else if (mr_spec_peek(s) == '{') {
        MR_TRY(read_message(s, a, "shape", &v));
        *out = v.shape;
    } else {
        return mr_invalid("a shape is expected at '%.*s'", MR_SV_ARG(*s));
    }
    return NULL;
}

/* One value of a tensor, stored as element i. */
static mr_status *read_element(mr_sv *s, mr_arena *a, mr_tensor *t, int64_t i)
{
    mr_dtype type = (mr_dtype)t->dtype;
    size_t size = mr_dtype_size(type);
    char *at = MR_DATA(char, t) + (size_t)i * size;
    if (type == MR_STRING) {
        mr_sv text;
        MR_TRY(mr_spec_string(s, a, &text));
        return mr_tensor_set_str(t, i, text);
    }
    if (type == MR_BOOL)
        return read_bool(s, (bool *)at);
    if (mr_dtype_is_floating(type) || mr_dtype_is_complex(type)) {
        double v;
        MR_TRY(read_double(s, &v));
        MR_ENSURE(mr_dtype_convert(MR_DOUBLE, &v, type, at, 1, false));
        return NULL;
    }
    int64_t v;
    MR_TRY(read_int(s, &v));
    return mr_dtype_convert(MR_INT64, &v, type, at, 1, false)
               ? NULL
               : mr_invalid("tensors of type %s cannot be written here", mr_dtype_name(type));
}

/* "uint8[4]{255,0,0,255}" into a TensorProto. */
static mr_status *read_short_tensor(mr_sv *s, mr_arena *a, mr_tensor_attr *out)
{
    mr_status *st = NULL;
    mr_tensor *t = NULL;
    mr_str bytes = {0};
    mr_shape shape = {.rank = 0};
    int type;
    MR_GO(read_type(s, &type));
    if (mr_spec_eat(s, "["))
        MR_GO(read_dims(s, &shape));
    MR_GO(mr_tensor_zeros(NULL, (mr_dtype)type, shape.rank, shape.dims, &t));
    if (!mr_spec_eat(s, "{"))
        MR_GO(mr_invalid("'{' is expected at '%.*s'", MR_SV_ARG(*s)));
    for (int64_t i = 0; i < t->n; i++) {
        if (i > 0 && !mr_spec_eat(s, ","))
            MR_GO(
                mr_invalid("a tensor of %lld values has only %lld", (long long)t->n, (long long)i));
        MR_GO(read_element(s, a, t, i));
    }
    if (!mr_spec_eat(s, "}"))
        MR_GO(mr_invalid("'}' is expected at '%.*s'", MR_SV_ARG(*s)));
    MR_GO(mr_tensor_encode(t, &bytes));
    out->raw = (mr_sv){mr_arena_memdup(a, mr_str_view(&bytes).p, bytes.n), bytes.n};
out:
    mr_tensor_unref(t);
    mr_str_deinit(&bytes);
    return st;
}

static mr_status *read_tensor(mr_sv *s, mr_arena *a, const mr_tensor_attr **out)
{
    if (mr_spec_peek(s) == '{') {
        mr_attr v;
        MR_TRY(read_message(s, a, "tensor", &v));
        *out = v.tensor;
        return NULL;
    }
    mr_tensor_attr *t = mr_arena_new(a, mr_tensor_attr);
    *out = t;
    return read_short_tensor(s, a, t);
}

/* ---- one value, and lists ---- */

/* The switch names every kind, so a new one cannot be forgotten. */
static mr_status *read_single(mr_sv *s, mr_arena *a, mr_attr_kind kind, mr_attr *out)
{
    *out = (mr_attr){.kind = kind};
    double f;
    switch (kind) {
    case MR_ATTR_STRING: return mr_spec_string(s, a, &out->s);
    case MR_ATTR_INT: return read_int(s, &out->i);
    case MR_ATTR_FLOAT:
        MR_TRY(read_double(s, &f));
        out->f = (float)f;
        return NULL;
    case MR_ATTR_BOOL: return read_bool(s, &out->b);
    case MR_ATTR_TYPE: return read_type(s, &out->type);
    case MR_ATTR_SHAPE: return read_shape(s, a, &out->shape);
    case MR_ATTR_TENSOR: return read_tensor(s, a, &out->tensor);
    case MR_ATTR_FUNC: return read_message(s, a, "func", out);
    case MR_ATTR_NONE:
    case MR_ATTR_PLACEHOLDER: break;
    }
    return mr_invalid("an attr of this type has no default");
}

/* Makes the array of a list out of single values. */
static void gather_list(mr_arena *a, const mr_attr *v, int n, mr_attr *out)
{
#define GATHER(KIND, member, plural, T)   \
    case KIND: {                          \
        T *all = mr_arena_array(a, T, n); \
        for (int i = 0; i < n; i++)       \
            all[i] = v[i].member;         \
        out->plural = (void *)all;        \
        break;                            \
    }
    switch (out->kind) {
        GATHER(MR_ATTR_STRING, s, ss, mr_sv)
        GATHER(MR_ATTR_INT, i, is, int64_t)
        GATHER(MR_ATTR_FLOAT, f, fs, float)
        GATHER(MR_ATTR_BOOL, b, bs, bool)
        GATHER(MR_ATTR_TYPE, type, types, int)
        GATHER(MR_ATTR_SHAPE, shape, shapes, const mr_pshape *)
        GATHER(MR_ATTR_TENSOR, tensor, tensors, const mr_tensor_attr *)
        GATHER(MR_ATTR_FUNC, func, funcs, const mr_func_ref *)
    case MR_ATTR_NONE:
    case MR_ATTR_PLACEHOLDER: break;
    }
#undef GATHER
}

static mr_status *read_list(mr_sv *s, mr_arena *a, mr_attr_kind kind, mr_attr *out)
{
    mr_status *st = NULL;
    MR_VEC(mr_attr) v = {0};
    if (!mr_spec_eat(s, "["))
        MR_GO(mr_invalid("'[' is expected at '%.*s'", MR_SV_ARG(*s)));
    if (!mr_spec_eat(s, "]")) {
        do {
            mr_vec_push(&v, (mr_attr){0});
            MR_GO(read_single(s, a, kind, &mr_vec_last(&v)));
        } while (mr_spec_eat(s, ","));
        if (!mr_spec_eat(s, "]"))
            MR_GO(mr_invalid("']' is expected at '%.*s'", MR_SV_ARG(*s)));
    }
    *out = (mr_attr){.kind = kind, .is_list = true, .n = v.n};
    gather_list(a, v.p, v.n, out);
out:
    mr_vec_deinit(&v);
    return st;
}

mr_status *mr_spec_value(mr_sv *s, mr_arena *a, mr_attr_kind kind, bool is_list, mr_attr *out)
{
    return is_list ? read_list(s, a, kind, out) : read_single(s, a, kind, out);
}
