/* ops/parse/proto_text.c -- converts the text format of messages that are described at run time to bytes.
 *
 *     message = { field }
 *     field   = ( name | "[" extension "]" ) ( [":"] body | ":" value | ":" list ) [ "," | ";" ]
 *     body    = "{" message "}" | "<" message ">"
 *     list    = "[" [ value { "," value } ] "]" */
#include <math.h>
#include <strings.h>

#include "ops/parse/proto_pool.h"
#include "wire/pb.h"
#include "wire/text_lexer.h"

typedef struct parser {
    mr_lexer lex;
    mr_pb_writer *w;
    int depth; /* how many more levels of messages may be entered */
} parser;

static mr_status *parse_message(parser *p, const mr_proto_message *m, char close);

static mr_status *unexpected_token(const parser *p, const char *what)
{
    const mr_token *t = &p->lex.token;
    return mr_error(MR_DATA_LOSS, "Unable to parse text protobuf: %d:%d: expected %s", t->line, t->column,
                    what);
}

static mr_status *next_token(parser *p)
{
    mr_status *st = mr_lexer_next(&p->lex);
    if (!st)
        return NULL;
    mr_status *loss = mr_error(MR_DATA_LOSS, "Unable to parse text protobuf: %s", mr_status_message(st));
    mr_status_free(st);
    return loss;
}

static bool at_symbol(const parser *p, char symbol) { return mr_token_is(&p->lex.token, symbol); }

static mr_status *expect_symbol(parser *p, char symbol)
{
    return at_symbol(p, symbol) ? next_token(p) : unexpected_token(p, (char[]){symbol, 0});
}

/* ---- values ---- */

static mr_status *string_value(parser *p, uint32_t number)
{
    mr_str s = {0};
    mr_status *st = p->lex.token.kind == MR_TOKEN_STRING ? NULL : unexpected_token(p, "a string");
    while (!st && p->lex.token.kind == MR_TOKEN_STRING) {
        st = mr_token_unescape(&p->lex.token, &s);
        if (st) {
            mr_status_free(st);
            st = unexpected_token(p, "a string with valid escapes");
        } else {
            st = next_token(p);
        }
    }
    if (!st)
        mr_pb_put_bytes(p->w, number, mr_str_view(&s));
    mr_str_deinit(&s);
    return st;
}

static bool is_word(const mr_token *t, const char *word)
{
    return t->kind == MR_TOKEN_NAME && t->text.n == strlen(word) &&
           strncasecmp(t->text.p, word, t->text.n) == 0;
}

static mr_status *float_value(parser *p, double *out)
{
    bool minus = at_symbol(p, '-');
    if (minus)
        MR_TRY(next_token(p));
    const mr_token *t = &p->lex.token;
    if (is_word(t, "inf") || is_word(t, "infinity"))
        *out = HUGE_VAL;
    else if (is_word(t, "nan"))
        *out = NAN;
    else if ((t->kind != MR_TOKEN_INTEGER && t->kind != MR_TOKEN_FLOAT) || !mr_token_to_double(t, out))
        return unexpected_token(p, "a number");
    *out = minus ? -*out : *out;
    return next_token(p);
}

static bool enum_number(const mr_proto_enum *e, mr_sv name, int64_t *out)
{
    for (int i = 0; e && i < e->names.n; i++)
        if (mr_sv_eq(e->names.p[i], name)) {
            *out = e->numbers.p[i];
            return true;
        }
    return false;
}

/* Whether an integer is within the bounds of this type. */
static bool in_range(mr_proto_type t, bool minus, uint64_t v)
{
    switch (t) {
    case MR_PROTO_INT32: case MR_PROTO_SINT32: case MR_PROTO_SFIXED32: case MR_PROTO_ENUM:
        return v <= (uint64_t)INT32_MAX + minus;
    case MR_PROTO_UINT32: case MR_PROTO_FIXED32: return v <= UINT32_MAX && (!minus || v == 0);
    case MR_PROTO_UINT64: case MR_PROTO_FIXED64: return !minus || v == 0;
    case MR_PROTO_BOOL: return v <= 1 && !minus;
    default: return v <= (uint64_t)INT64_MAX + minus;
    }
}

static mr_status *int_value(parser *p, const mr_proto_field *f, int64_t *out)
{
    bool minus = at_symbol(p, '-');
    uint64_t v;
    if (minus)
        MR_TRY(next_token(p));
    const mr_token *t = &p->lex.token;
    if (f->type == MR_PROTO_BOOL && (is_word(t, "true") || is_word(t, "t")))
        *out = 1;
    else if (f->type == MR_PROTO_BOOL && (is_word(t, "false") || is_word(t, "f")))
        *out = 0;
    else if (f->type == MR_PROTO_ENUM && t->kind == MR_TOKEN_NAME) {
        if (!enum_number(f->enumeration, t->text, out))
            return unexpected_token(p, "a value of the enum");
    } else if (t->kind != MR_TOKEN_INTEGER || !mr_token_to_u64(t, &v) || !in_range(f->type, minus, v))
        return unexpected_token(p, "an integer in range");
    else
        *out = (int64_t)(minus ? 0 - v : v);
    return next_token(p);
}

static void put_int(parser *p, const mr_proto_field *f, int64_t v)
{
    uint64_t bits = (uint64_t)v;
    switch (f->type) {
    case MR_PROTO_SINT32:
    case MR_PROTO_SINT64: mr_pb_put_varint(p->w, f->number, bits << 1 ^ (uint64_t)(v >> 63)); break;
    case MR_PROTO_FIXED32:
    case MR_PROTO_SFIXED32: mr_pb_put_fixed32(p->w, f->number, (uint32_t)bits); break;
    case MR_PROTO_FIXED64:
    case MR_PROTO_SFIXED64: mr_pb_put_fixed64(p->w, f->number, bits); break;
    default: mr_pb_put_varint(p->w, f->number, bits);
    }
}

static mr_status *parse_scalar(parser *p, const mr_proto_field *f)
{
    double d = 0;
    int64_t v = 0;
    if (f->type == MR_PROTO_STRING || f->type == MR_PROTO_BYTES)
        return string_value(p, f->number);
    if (f->type == MR_PROTO_FLOAT || f->type == MR_PROTO_DOUBLE) {
        MR_TRY(float_value(p, &d));
        if (f->type == MR_PROTO_FLOAT)
            mr_pb_put_float(p->w, f->number, (float)d);
        else
            mr_pb_put_double(p->w, f->number, d);
        return NULL;
    }
    MR_TRY(int_value(p, f, &v));
    put_int(p, f, v);
    return NULL;
}

static mr_status *parse_submessage(parser *p, const mr_proto_field *f)
{
    bool angle = at_symbol(p, '<'), group = f->type == MR_PROTO_GROUP;
    size_t mark = 0;
    if (!angle && !at_symbol(p, '{'))
        return unexpected_token(p, "{");
    if (--p->depth < 0)
        return unexpected_token(p, "fewer nested messages");
    MR_TRY(next_token(p));
    if (group)
        mr_pb_put_tag(p->w, f->number, MR_WIRE_GROUP);
    else
        mark = mr_pb_begin(p->w, f->number);
    MR_TRY(parse_message(p, f->message, angle ? '>' : '}'));
    if (group)
        mr_pb_put_tag(p->w, f->number, MR_WIRE_GROUP_END);
    else
        mr_pb_end(p->w, mark);
    p->depth++;
    return next_token(p);
}

static mr_status *parse_value(parser *p, const mr_proto_field *f)
{
    return f->message ? parse_submessage(p, f) : parse_scalar(p, f);
}

/* ---- fields ---- */

/* A name, or the name of an extension in brackets. */
static mr_status *field_name(parser *p, const mr_proto_message *m, const mr_proto_field **out)
{
    mr_str name = {0};
    bool bracket = at_symbol(p, '[');
    mr_status *st = bracket ? next_token(p) : NULL;
    while (!st && (p->lex.token.kind == MR_TOKEN_NAME || (bracket && at_symbol(p, '.')))) {
        mr_str_append(&name, p->lex.token.text.p, p->lex.token.text.n);
        st = next_token(p);
        if (!bracket)
            break;
    }
    if (!st && bracket)
        st = expect_symbol(p, ']');
    *out = mr_proto_message_field(m, mr_str_view(&name));
    mr_str_deinit(&name);
    return st ? st : *out ? NULL : unexpected_token(p, "a field of the message");
}

static mr_status *parse_list(parser *p, const mr_proto_field *f)
{
    MR_TRY(next_token(p));
    while (!at_symbol(p, ']')) {
        MR_TRY(parse_value(p, f));
        if (!at_symbol(p, ']'))
            MR_TRY(expect_symbol(p, ','));
    }
    return next_token(p);
}

static mr_status *parse_message(parser *p, const mr_proto_message *m, char close)
{
    const mr_proto_field *f;
    while (close ? !at_symbol(p, close) : p->lex.token.kind != MR_TOKEN_END) {
        MR_TRY(field_name(p, m, &f));
        bool colon = at_symbol(p, ':');
        if (colon)
            MR_TRY(next_token(p));
        else if (!f->message)
            return unexpected_token(p, "a colon");
        MR_TRY(colon && f->repeated && at_symbol(p, '[') ? parse_list(p, f) : parse_value(p, f));
        if (at_symbol(p, ',') || at_symbol(p, ';'))
            MR_TRY(next_token(p));
    }
    return NULL;
}

mr_status *mr_proto_from_text(const mr_proto_message *m, mr_sv text, mr_str *out)
{
    mr_pb_writer w;
    parser p = {.w = &w, .depth = MR_PB_MAX_DEPTH};
    mr_pb_writer_init(&w, out);
    mr_lexer_init(&p.lex, text);
    MR_TRY(next_token(&p));
    MR_TRY(parse_message(&p, m, 0));
    return mr_pb_writer_status(&w, "message");
}
