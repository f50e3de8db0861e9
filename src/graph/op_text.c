/* graph/op_text.c -- parses the text of an op: its signature and its attrs.
 *
 *     sig    := [arg {"," arg}] ["->" [arg {"," arg}]]
 *     arg    := name ":" ( type | "Ref(" type ")" )
 *     type   := [attr "*"] ( dtype | attr )
 *     attrs  := [attr {";" attr}] [";"]
 *     attr   := name ":" ( kind | "list(" kind ")" ) {">=" int | "=" value}
 *     kind   := "int" | "float" | ... | "{" dtype-or-set {"," ...} "}" | "{" string {"," ...} "}"
 *     value  := what op_value.c reads
 *
 * Everything is read by one cursor that moves forward, so quotes and braces inside defaults need no
 * splitting beforehand.  Attrs come first: whether `x: T` names a type, a type attr or a list of
 * types depends on them. */
#include "graph/op_text.h"

#include <ctype.h>

/* ---- the cursor ---- */

void mr_spec_space(mr_sv *s)
{
    while (s->n && isspace((unsigned char)s->p[0])) {
        s->p++;
        s->n--;
    }
}

bool mr_spec_eat(mr_sv *s, const char *token)
{
    size_t n = strlen(token);
    mr_spec_space(s);
    if (s->n < n || memcmp(s->p, token, n) != 0)
        return false;
    s->p += n;
    s->n -= n;
    return true;
}

char mr_spec_peek(mr_sv *s)
{
    mr_spec_space(s);
    return s->n ? s->p[0] : '\0';
}

mr_sv mr_spec_word(mr_sv *s)
{
    mr_spec_space(s);
    mr_sv word = {s->p, 0};
    while (word.n < s->n && (isalnum((unsigned char)s->p[word.n]) || s->p[word.n] == '_'))
        word.n++;
    s->p += word.n;
    s->n -= word.n;
    return word;
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : isxdigit((unsigned char)c) ? tolower(c) - 'a' + 10 : 99;
}

/* Up to `most` digits of a base at s; returns how many there were. */
static int read_digits(mr_sv *s, int base, int most, int *value)
{
    int n = 0;
    for (*value = 0; n < most && s->n && digit_of(s->p[0]) < base; n++) {
        *value = *value * base + digit_of(s->p[0]);
        s->p++;
        s->n--;
    }
    return n;
}

/* Reads the character after a backslash. */
static bool read_escape(mr_sv *s, char *out)
{
    static const char from[] = "abfnrtv\\'\"?", to[] = "\a\b\f\n\r\t\v\\'\"?";
    int value;
    if (read_digits(s, 8, 3, &value)) {
        *out = (char)value;
        return true;
    }
    if (!s->n)
        return false;
    char c = s->p[0];
    s->p++;
    s->n--;
    if (c == 'x' || c == 'X') {
        bool any = read_digits(s, 16, 2, &value) > 0;
        *out = (char)value;
        return any;
    }
    const char *at = strchr(from, c);
    if (!c || !at)
        return false;
    *out = to[at - from];
    return true;
}

/* The result is in the arena, without quotes and with its escapes replaced. */
mr_status *mr_spec_string(mr_sv *s, mr_arena *a, mr_sv *out)
{
    char quote = mr_spec_peek(s);
    if (quote != '\'' && quote != '"')
        return mr_invalid("a quoted string is expected at '%.*s'", MR_SV_ARG(*s));
    s->p++;
    s->n--;
    char *text = mr_arena_alloc(a, s->n + 1); /* escapes only shrink it */
    size_t n = 0;
    while (s->n && s->p[0] != quote) {
        char c = s->p[0];
        s->p++;
        s->n--;
        if (c == '\\' && !read_escape(s, &c))
            return mr_invalid("bad escape before '%.*s'", MR_SV_ARG(*s));
        text[n++] = c;
    }
    if (!s->n)
        return mr_invalid("a string is not closed");
    s->p++;
    s->n--;
    text[n] = '\0';
    *out = (mr_sv){text, n};
    return NULL;
}

static const char *dup_sv(mr_arena *a, mr_sv v) { return mr_arena_strndup(a, v.p, v.n); }

/* ---- kinds and sets ---- */

typedef MR_VEC(int) int_vec;
typedef MR_VEC(mr_sv) sv_vec;

static const int number_types[] = {MR_FLOAT,  MR_DOUBLE,    MR_INT32,  MR_UINT8,      MR_INT16,
                                   MR_INT8,   MR_COMPLEX64, MR_INT64,  MR_QINT8,      MR_QUINT8,
                                   MR_QINT32, MR_BFLOAT16,  MR_UINT16, MR_COMPLEX128, MR_HALF,
                                   MR_UINT32, MR_UINT64};
static const int real_types[] = {MR_FLOAT, MR_DOUBLE,   MR_INT32,  MR_UINT8, MR_INT16,  MR_INT8,
                                 MR_INT64, MR_BFLOAT16, MR_UINT16, MR_HALF,  MR_UINT32, MR_UINT64};
static const int quantized_types[] = {MR_QINT8, MR_QUINT8, MR_QINT32, MR_QINT16, MR_QUINT16};

static const struct type_set {
    const char *name;
    const int *types;
    int n;
} type_sets[] = {
    {"numbertype", number_types, MR_COUNT(number_types)},
    {"numerictype", number_types, MR_COUNT(number_types)},
    {"realnumbertype", real_types, MR_COUNT(real_types)},
    {"realnumerictype", real_types, MR_COUNT(real_types)},
    {"quantizedtype", quantized_types, MR_COUNT(quantized_types)},
};

/* Adds the types that a word denotes: a set, or one dtype. */
static bool push_types(mr_sv word, int_vec *out)
{
    for (int i = 0; i < MR_COUNT(type_sets); i++) {
        if (!mr_sv_is(word, type_sets[i].name))
            continue;
        for (int k = 0; k < type_sets[i].n; k++)
            mr_vec_push(out, type_sets[i].types[k]);
        return true;
    }
    mr_dtype t = mr_dtype_from_name(word);
    if (t == MR_INVALID)
        return false;
    mr_vec_push(out, t);
    return true;
}

static void set_types(mr_arena *a, const int_vec *v, mr_attr_def *d)
{
    d->kind = MR_ATTR_TYPE;
    d->n_allowed = v->n;
    d->types = mr_arena_memdup(a, v->p, (size_t)v->n * sizeof(int));
}

static mr_status *parse_type_set(mr_sv *s, mr_arena *a, mr_attr_def *d)
{
    mr_status *st = NULL;
    int_vec v = {0};
    do {
        mr_sv word = mr_spec_word(s);
        if (!push_types(word, &v))
            MR_GO(mr_invalid("unknown type '%.*s'", MR_SV_ARG(word)));
    } while (mr_spec_eat(s, ","));
    if (!mr_spec_eat(s, "}"))
        MR_GO(mr_invalid("'}' is expected at '%.*s'", MR_SV_ARG(*s)));
    set_types(a, &v, d);
out:
    mr_vec_deinit(&v);
    return st;
}

static mr_status *parse_string_set(mr_sv *s, mr_arena *a, mr_attr_def *d)
{
    mr_status *st = NULL;
    sv_vec v = {0};
    do {
        mr_sv name;
        MR_GO(mr_spec_string(s, a, &name));
        mr_vec_push(&v, name);
    } while (mr_spec_eat(s, ","));
    if (!mr_spec_eat(s, "}"))
        MR_GO(mr_invalid("'}' is expected at '%.*s'", MR_SV_ARG(*s)));
    d->kind = MR_ATTR_STRING;
    d->n_allowed = v.n;
    d->names = mr_arena_memdup(a, v.p, (size_t)v.n * sizeof(mr_sv));
out:
    mr_vec_deinit(&v);
    return st;
}

mr_attr_kind mr_attr_kind_from_name(mr_sv name)
{
    static const struct {
        const char *name;
        mr_attr_kind kind;
    } kinds[] = {{"string", MR_ATTR_STRING}, {"int", MR_ATTR_INT},   {"float", MR_ATTR_FLOAT},
                 {"bool", MR_ATTR_BOOL},     {"type", MR_ATTR_TYPE}, {"shape", MR_ATTR_SHAPE},
                 {"tensor", MR_ATTR_TENSOR}, {"func", MR_ATTR_FUNC}};
    for (int i = 0; i < MR_COUNT(kinds); i++)
        if (mr_sv_is(name, kinds[i].name))
            return kinds[i].kind;
    return MR_ATTR_NONE;
}

static mr_status *parse_kind(mr_sv *s, mr_arena *a, mr_attr_def *d)
{
    if (mr_spec_eat(s, "{")) {
        char c = mr_spec_peek(s);
        return c == '\'' || c == '"' ? parse_string_set(s, a, d) : parse_type_set(s, a, d);
    }
    mr_sv word = mr_spec_word(s);
    d->kind = mr_attr_kind_from_name(word);
    if (d->kind != MR_ATTR_NONE)
        return NULL;
    /* A set, or as a shorthand of ours one dtype, without braces. */
    int_vec v = {0};
    bool known = push_types(word, &v);
    if (known)
        set_types(a, &v, d);
    mr_vec_deinit(&v);
    return known ? NULL : mr_invalid("unknown attr type '%.*s'", MR_SV_ARG(word));
}

/* ---- attrs ---- */

static mr_status *parse_min(mr_sv *s, mr_attr_def *d)
{
    mr_attr v;
    if (d->kind != MR_ATTR_INT && !d->is_list)
        return mr_invalid("only ints and lists have a minimum");
    MR_TRY(mr_spec_value(s, NULL, MR_ATTR_INT, false, &v));
    d->has_min = true;
    d->min = v.i;
    return NULL;
}

/* Minimum and default may come in either order. */
static mr_status *parse_attr(mr_sv *s, mr_arena *a, mr_attr_def *d)
{
    mr_sv name = mr_spec_word(s);
    if (!name.n || !isalpha((unsigned char)name.p[0]))
        return mr_invalid("an attr name is expected at '%.*s'", MR_SV_ARG(*s));
    d->name = dup_sv(a, name);
    if (!mr_spec_eat(s, ":"))
        return mr_invalid("':' is expected after '%s'", d->name);
    d->is_list = mr_spec_eat(s, "list(") || mr_spec_eat(s, "list (");
    MR_TRY(parse_kind(s, a, d));
    if (d->is_list && !mr_spec_eat(s, ")"))
        return mr_invalid("')' is expected in attr '%s'", d->name);
    for (;;) {
        if (mr_spec_eat(s, ">=")) {
            MR_TRY(parse_min(s, d));
        } else if (mr_spec_eat(s, "=")) {
            d->has_default = true;
            MR_TRY(mr_spec_value(s, a, d->kind, d->is_list, &d->deflt));
        } else {
            return NULL;
        }
    }
}

static mr_status *parse_attrs(mr_arena *a, mr_sv text, mr_op_def *out)
{
    mr_status *st = NULL;
    MR_VEC(mr_attr_def) v = {0};
    while (mr_spec_peek(&text)) {
        mr_vec_push(&v, (mr_attr_def){0});
        MR_GO(parse_attr(&text, a, &mr_vec_last(&v)));
        if (!mr_spec_eat(&text, ";") && text.n)
            MR_GO(mr_invalid("';' is expected at '%.*s'", MR_SV_ARG(text)));
    }
    out->n_attrs = v.n;
    out->attrs = mr_arena_memdup(a, v.p, (size_t)v.n * sizeof(v.p[0]));
out:
    mr_vec_deinit(&v);
    return st;
}

/* ---- arguments ---- */

/* The attr of that name; attr_order does not exist yet. */
static mr_attr_def *attr_named(const mr_op_def *d, mr_sv name)
{
    for (int i = 0; i < d->n_attrs; i++)
        if (mr_sv_is(name, d->attrs[i].name))
            return (mr_attr_def *)(uintptr_t)&d->attrs[i]; /* mutable until it is finished */
    return NULL;
}

/* Lists of arguments must not be empty unless the op allows it. */
static void at_least_one(mr_attr_def *a)
{
    if (!a->has_min) {
        a->has_min = true;
        a->min = 1;
    }
}

/* `T`, `float`, `N * T`, `list_of_types`. */
static mr_status *parse_arg_type(mr_sv *s, mr_op_def *d, mr_arg_def *arg)
{
    mr_sv word = mr_spec_word(s);
    mr_attr_def *attr = attr_named(d, word);
    if (mr_spec_eat(s, "*")) {
        if (!attr || attr->kind != MR_ATTR_INT || attr->is_list)
            return mr_invalid("'%.*s' is not an int attr", MR_SV_ARG(word));
        at_least_one(attr);
        arg->number_attr = attr->name;
        word = mr_spec_word(s);
        attr = attr_named(d, word);
    }
    /* An attr hides a dtype of the same name, as `T: type` with an op's own "T" should. */
    if (!attr) {
        arg->type = mr_dtype_from_name(word);
        return arg->type ? NULL
                         : mr_invalid("'%.*s' is neither a type nor an attr", MR_SV_ARG(word));
    }
    if (attr->kind != MR_ATTR_TYPE)
        return mr_invalid("attr '%s' is not a type", attr->name);
    if (attr->is_list) {
        at_least_one(attr);
        arg->type_list_attr = attr->name;
    } else {
        arg->type_attr = attr->name;
    }
    return NULL;
}

static mr_status *parse_arg(mr_sv *s, mr_arena *a, mr_op_def *d, mr_arg_def *arg)
{
    mr_sv name = mr_spec_word(s);
    if (!name.n)
        return mr_invalid("an argument name is expected at '%.*s'", MR_SV_ARG(*s));
    arg->name = dup_sv(a, name);
    if (!mr_spec_eat(s, ":"))
        return mr_invalid("':' is expected after '%s'", arg->name);
    arg->is_ref = mr_spec_eat(s, "Ref(");
    MR_TRY(parse_arg_type(s, d, arg));
    if (arg->is_ref && !mr_spec_eat(s, ")"))
        return mr_invalid("')' is expected after '%s'", arg->name);
    return NULL;
}

static mr_status *parse_args(mr_sv *s, mr_arena *a, mr_op_def *d, int *n, const mr_arg_def **out)
{
    mr_status *st = NULL;
    MR_VEC(mr_arg_def) v = {0};
    if (mr_spec_peek(s) && mr_spec_peek(s) != '-') {
        do {
            mr_vec_push(&v, (mr_arg_def){0});
            MR_GO(parse_arg(s, a, d, &mr_vec_last(&v)));
        } while (mr_spec_eat(s, ","));
    }
    *n = v.n;
    *out = mr_arena_memdup(a, v.p, (size_t)v.n * sizeof(v.p[0]));
out:
    mr_vec_deinit(&v);
    return st;
}

static mr_status *parse_sig(mr_arena *a, mr_sv text, mr_op_def *out)
{
    MR_TRY(parse_args(&text, a, out, &out->n_in, &out->in));
    if (mr_spec_eat(&text, "->"))
        MR_TRY(parse_args(&text, a, out, &out->n_out, &out->out));
    return mr_spec_peek(&text) ? mr_invalid("unexpected '%.*s'", MR_SV_ARG(text)) : NULL;
}

/* ---- the whole ---- */

/* Handles refer to state, so an op with handles in its signature is stateful. */
static bool has_resources(const mr_arg_def *args, int n)
{
    for (int i = 0; i < n; i++)
        if (args[i].type == MR_RESOURCE)
            return true;
    return false;
}

/* Kernels are chosen by one type attr; nearly always it is the only one, or the first. */
static mr_status *resolve_key(const mr_op *op, mr_op_def *out)
{
    if (op->key) {
        out->key = mr_op_def_attr(out, op->key);
        if (!out->key || out->key->kind != MR_ATTR_TYPE || out->key->is_list)
            return mr_invalid("key '%s' is not a type attr", op->key);
        return NULL;
    }
    for (int i = 0; i < out->n_attrs && !out->key; i++)
        if (out->attrs[i].kind == MR_ATTR_TYPE && !out->attrs[i].is_list)
            out->key = &out->attrs[i];
    return NULL;
}

mr_status *mr_op_def_parse(mr_arena *a, const mr_op *op, mr_op_def *out)
{
    mr_status *st = NULL;
    *out = (mr_op_def){.name = op->name,
                       .op = op,
                       .flags = op->flags,
                       .deprecated = op->deprecated,
                       .deprecation_text = op->deprecation,
                       .summary = op->doc};
    MR_GO(parse_attrs(a, mr_sv_of(op->attrs), out));
    MR_GO(parse_sig(a, mr_sv_of(op->sig), out));
    MR_GO(mr_op_def_finish(a, out));
    MR_GO(resolve_key(op, out));
    if (has_resources(out->in, out->n_in) || has_resources(out->out, out->n_out))
        out->flags |= MR_STATEFUL;
out:
    return mr_status_prepend(st, "Op definition of '%s': ", op->name ? op->name : "");
}
