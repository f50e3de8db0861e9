/* wire/text_parse.c -- protobuf text into a message, by recursive descent.
 *
 *     message = { field }
 *     field   = name ( ":" scalar | [":"] body | ":" list ) [ "," | ";" ]
 *     body    = "{" message "}" | "<" message ">"
 *     list    = "[" [ value { "," value } ] "]"          only where the field is repeated
 *     scalar  = ["-"] number | name | string { string }
 *
 * The parser looks one token ahead, at p->lex.token.  A field that is not repeated may be given
 * once, as C++ has it; a default value leaves no trace, so giving one twice goes unseen. */
#include "wire/text_format.h"

#include <math.h>
#include <strings.h>

#include "wire/message.h"
#include "wire/pb.h"
#include "wire/reflect.h"
#include "wire/text_lexer.h"

typedef struct parser {
    mr_lexer lex;
    mr_arena *arena;
    mr_str scratch; /* of the string being read */
    int depth;      /* how many levels may still be entered */
} parser;

static mr_status *error_at(const mr_token *t, const char *fmt, ...) MR_PRINTF(2, 3);
static mr_status *error_at(const mr_token *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    mr_status *st = mr_errorv_at(__FILE__, __LINE__, MR_INVALID_ARGUMENT, fmt, ap);
    va_end(ap);
    return mr_status_prepend(st, "%d:%d: ", t->line, t->column);
}

/* An error that names what was expected and what was found. */
static mr_status *expected_error(const parser *p, const char *what)
{
    const mr_token *t = &p->lex.token;
    if (t->kind == MR_TOKEN_END)
        return error_at(t, "expected %s, but the text ends", what);
    return error_at(t, "expected %s, not %.*s", what, (int)MR_MIN(t->text.n, (size_t)40),
                    t->text.p);
}

static mr_status *no_memory(void)
{
    return mr_error(MR_RESOURCE_EXHAUSTED, "is too large: no memory for the message");
}

static mr_status *next_token(parser *p) { return mr_lexer_next(&p->lex); }
static bool at_symbol(const parser *p, char symbol) { return mr_token_is(&p->lex.token, symbol); }

/* Skips the symbol if it is the next token; *was: whether it was. */
static mr_status *accept_symbol(parser *p, char symbol, bool *was)
{
    *was = at_symbol(p, symbol);
    return *was ? next_token(p) : NULL;
}

/* ---- scalars --------------------------------------------------------------------------------- */

/* An integer of at most `max`, or at least -max - 1 where a minus is allowed; two's complement. */
static mr_status *parse_integer(parser *p, uint64_t max, bool is_signed, uint64_t *out)
{
    bool minus = false;
    if (is_signed)
        MR_TRY(accept_symbol(p, '-', &minus));
    const mr_token t = p->lex.token;
    uint64_t v;
    if (t.kind != MR_TOKEN_INTEGER)
        return expected_error(p, "an integer");
    /* max + 1 does not wrap: where a minus is allowed, max is smaller. */
    if (!mr_token_to_u64(&t, &v) || v > max + minus)
        return error_at(&t, "integer out of range: %s%.*s", minus ? "-" : "",
                        (int)MR_MIN(t.text.n, (size_t)40), t.text.p);
    *out = minus ? 0 - v : v;
    return next_token(p);
}

static bool name_is(mr_sv name, const char *lower) /* ignores case */
{
    return name.n == strlen(lower) && strncasecmp(name.p, lower, name.n) == 0;
}

static bool token_to_double(const mr_token *t, double *out)
{
    if (t->kind == MR_TOKEN_FLOAT || t->kind == MR_TOKEN_INTEGER)
        return mr_token_to_double(t, out);
    bool inf = name_is(t->text, "inf") || name_is(t->text, "infinity");
    *out = inf ? INFINITY : NAN;
    return t->kind == MR_TOKEN_NAME && (inf || name_is(t->text, "nan"));
}

static mr_status *parse_double(parser *p, double *out)
{
    bool minus;
    MR_TRY(accept_symbol(p, '-', &minus));
    if (!token_to_double(&p->lex.token, out))
        return expected_error(p, "a decimal number");
    if (minus)
        *out = -*out;
    return next_token(p);
}

/* Rounded to double first, then to float, as in C++; values that are too large become infinite. */
static mr_status *parse_float(parser *p, float *out)
{
    double v;
    MR_TRY(parse_double(p, &v));
    *out = (float)v;
    return NULL;
}

static mr_status *parse_bool(parser *p, protobuf_c_boolean *out)
{
    mr_sv v = p->lex.token.text;
    uint64_t number;
    if (p->lex.token.kind == MR_TOKEN_INTEGER) {
        MR_TRY(parse_integer(p, 1, false, &number));
        *out = (protobuf_c_boolean)number;
        return NULL;
    }
    bool yes = mr_sv_is(v, "true") || mr_sv_is(v, "True") || mr_sv_is(v, "t");
    bool no = mr_sv_is(v, "false") || mr_sv_is(v, "False") || mr_sv_is(v, "f");
    if (p->lex.token.kind != MR_TOKEN_NAME || (!yes && !no))
        return expected_error(p, "true or false");
    *out = yes;
    return next_token(p);
}

/* A walk along all names: enums have a few dozen at most. */
static const ProtobufCEnumValue *enum_value_named(const ProtobufCEnumDescriptor *e, mr_sv name)
{
    for (unsigned i = 0; i < e->n_value_names; i++)
        if (mr_sv_is(name, e->values_by_name[i].name))
            return &e->values[e->values_by_name[i].index];
    return NULL;
}

static mr_status *parse_enum(parser *p, const mr_field *f, int32_t *out)
{
    const mr_token t = p->lex.token;
    uint64_t number;
    if (t.kind == MR_TOKEN_NAME) {
        const ProtobufCEnumValue *v = enum_value_named(f->descriptor, t.text);
        if (!v)
            return error_at(&t, "%s has no value named %.*s (field %s)",
                            ((const ProtobufCEnumDescriptor *)f->descriptor)->name,
                            (int)MR_MIN(t.text.n, (size_t)100), t.text.p, f->name);
        *out = v->value;
        return next_token(p);
    }
    if (t.kind != MR_TOKEN_INTEGER && !at_symbol(p, '-'))
        return expected_error(p, "the name or number of an enum value");
    /* proto3 allows numbers without a name. */
    MR_TRY(parse_integer(p, INT32_MAX, true, &number));
    *out = (int32_t)number;
    return NULL;
}

/* Adjacent literals are one string.  The result is in p->scratch. */
static mr_status *parse_literals(parser *p)
{
    if (p->lex.token.kind != MR_TOKEN_STRING)
        return expected_error(p, "a string");
    mr_str_clear(&p->scratch);
    while (p->lex.token.kind == MR_TOKEN_STRING) {
        MR_TRY(mr_token_unescape(&p->lex.token, &p->scratch));
        MR_TRY(next_token(p));
    }
    return NULL;
}

/* The NUL after the bytes is for parse_string, which shares this function. */
static mr_status *parse_bytes(parser *p, ProtobufCBinaryData *out)
{
    MR_TRY(parse_literals(p));
    mr_sv v = mr_str_view(&p->scratch);
    out->data = mr_arena_try_alloc(p->arena, v.n + 1);
    if (!out->data)
        return no_memory();
    memcpy(out->data, v.p, v.n);
    out->data[v.n] = '\0';
    out->len = v.n;
    return NULL;
}

/* Refused as in the binary decoder: the struct's char * would end at the NUL. */
static mr_status *parse_string(parser *p, char **out)
{
    const mr_token t = p->lex.token;
    ProtobufCBinaryData v;
    MR_TRY(parse_bytes(p, &v));
    if (memchr(v.data, '\0', v.len))
        return error_at(&t, "string with a NUL inside");
    *out = (char *)v.data;
    return NULL;
}

/* Integers are read as 64 bits and stored in as many bits as the field has. */
static mr_status *parse_integer_field(parser *p, const mr_field *f, void *slot)
{
    uint64_t v = 0;
    bool wide = mr_field_elem_bytes(f) == 8;
    bool is_unsigned = f->type == PROTOBUF_C_TYPE_UINT32 || f->type == PROTOBUF_C_TYPE_FIXED32 ||
                       f->type == PROTOBUF_C_TYPE_UINT64 || f->type == PROTOBUF_C_TYPE_FIXED64;
    uint64_t max = wide ? UINT64_MAX : UINT32_MAX;
    MR_TRY(parse_integer(p, is_unsigned ? max : max / 2, !is_unsigned, &v));
    if (wide)
        *(uint64_t *)slot = v;
    else
        *(uint32_t *)slot = (uint32_t)v;
    return NULL;
}

/* ---- fields ---------------------------------------------------------------------------------- */

static mr_status *parse_message(parser *p, ProtobufCMessage *m);

/* One value of f, which for a repeated field becomes its last. */
static mr_status *parse_value(parser *p, ProtobufCMessage *m, const mr_field *f)
{
    if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        ProtobufCMessage *part = mr_field_message(p->arena, m, f);
        return part ? parse_message(p, part) : no_memory();
    }
    void *slot = mr_field_slot(p->arena, m, f);
    if (!slot)
        return no_memory();
    switch (f->type) {
    case PROTOBUF_C_TYPE_STRING: return parse_string(p, slot);
    case PROTOBUF_C_TYPE_BYTES: return parse_bytes(p, slot);
    case PROTOBUF_C_TYPE_BOOL: return parse_bool(p, slot);
    case PROTOBUF_C_TYPE_ENUM: return parse_enum(p, f, slot);
    case PROTOBUF_C_TYPE_FLOAT: return parse_float(p, slot);
    case PROTOBUF_C_TYPE_DOUBLE: return parse_double(p, slot);
    default: return parse_integer_field(p, f, slot);
    }
}

/* Reads a list, starting after the "[". */
static mr_status *parse_list(parser *p, ProtobufCMessage *m, const mr_field *f)
{
    bool more = !at_symbol(p, ']');
    while (more) {
        MR_TRY(parse_value(p, m, f));
        MR_TRY(accept_symbol(p, ',', &more));
    }
    return at_symbol(p, ']') ? next_token(p) : expected_error(p, "\",\" or \"]\"");
}

/* The member of f's oneof that is set, NULL when none is. */
static const mr_field *set_sibling(const ProtobufCMessage *m, const mr_field *f)
{
    if (!mr_field_in_oneof(f) || !*mr_field_case(m, f))
        return NULL;
    return protobuf_c_message_descriptor_get_field(m->descriptor, *mr_field_case(m, f));
}

/* Stricter than the binary format, where the last one wins: writing a field twice by hand is a
 * mistake. */
static mr_status *check_once(const mr_token *t, const ProtobufCMessage *m, const mr_field *f)
{
    const mr_field *other = set_sibling(m, f);
    if (other && other != f)
        return error_at(t, "field %s is given along with %s, of which only one may be set", f->name,
                        other->name);
    if (!mr_field_repeated(f) && mr_field_is_set(m, f))
        return error_at(t, "field %s is not repeated but given twice", f->name);
    return NULL;
}

/* Finds the field whose name is the current token, if it may be set here. */
static mr_status *find_field(parser *p, const ProtobufCMessage *m, const mr_field **out)
{
    const mr_token *t = &p->lex.token;
    if (at_symbol(p, '['))
        return error_at(t, "extensions and expanded Any messages ([...]) are not supported");
    if (t->kind != MR_TOKEN_NAME)
        return expected_error(p, "a field name");
    *out = mr_field_named(m->descriptor, t->text);
    if (!*out)
        return error_at(t, "%s has no field named %.*s", m->descriptor->name,
                        (int)MR_MIN(t->text.n, (size_t)100), t->text.p);
    return check_once(t, m, *out);
}

static mr_status *parse_field(parser *p, ProtobufCMessage *m)
{
    const mr_field *f = NULL;
    bool colon, list = false, separator;
    MR_TRY(find_field(p, m, &f));
    MR_TRY(next_token(p));
    MR_TRY(accept_symbol(p, ':', &colon));
    if (!colon && f->type != PROTOBUF_C_TYPE_MESSAGE)
        return expected_error(p, "\":\"");
    if (mr_field_repeated(f))
        MR_TRY(accept_symbol(p, '[', &list));
    MR_TRY(list ? parse_list(p, m, f) : parse_value(p, m, f));
    MR_TRY(accept_symbol(p, ';', &separator));
    return separator ? NULL : accept_symbol(p, ',', &separator);
}

/* A body with its brackets.  All recursion passes through here, so here the levels are counted. */
static mr_status *parse_message(parser *p, ProtobufCMessage *m)
{
    const mr_token *t = &p->lex.token;
    char close = at_symbol(p, '{') ? '}' : at_symbol(p, '<') ? '>' : '\0';
    if (!close)
        return expected_error(p, "\"{\"");
    if (p->depth <= 0)
        return error_at(t, "messages nested deeper than %d", MR_PB_MAX_DEPTH);
    p->depth--;
    MR_TRY(next_token(p));
    while (!at_symbol(p, close)) {
        if (t->kind == MR_TOKEN_END)
            return expected_error(p, close == '}' ? "\"}\"" : "\">\"");
        MR_TRY(parse_field(p, m));
    }
    p->depth++;
    return next_token(p);
}

static mr_status *parse_all(parser *p, ProtobufCMessage *m)
{
    MR_TRY(next_token(p));
    while (p->lex.token.kind != MR_TOKEN_END)
        MR_TRY(parse_field(p, m));
    return NULL;
}

mr_status *mr_text_parse(const ProtobufCMessageDescriptor *d, mr_sv text, ProtobufCMessage **out)
{
    ProtobufCMessage *m;
    MR_TRY(mr_message_new(d, &m));
    parser p = {.arena = mr_message_arena(m), .depth = MR_PB_MAX_DEPTH};
    mr_lexer_init(&p.lex, text);
    mr_status *st = parse_all(&p, m);
    mr_str_deinit(&p.scratch);
    if (st)
        mr_message_free(m);
    else
        *out = m;
    return mr_status_prepend(st, "%s text ", d->short_name);
}

mr_status *mr_text_to_bytes(const ProtobufCMessageDescriptor *d, mr_str *text)
{
    ProtobufCMessage *m;
    MR_TRY(mr_text_parse(d, mr_str_view(text), &m));
    mr_str_clear(text);
    mr_status *st = mr_message_pack(m, text);
    mr_message_free(m);
    return st;
}
