/* ops/example.c -- parses the language of examples (its grammar is in example.h).
 *
 * A recursive descent over the text. The reader keeps its first error and from then on sees only the end of the
 * text, so the functions below need not check after each call. */
#include "ops/example.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/vec.h"

enum { MAX_ELEMENTS = 1 << 20 }; /* limit for one value: examples are for people to read */

typedef struct reader {
    mr_arena *a;
    const char *text, *p, *end;
    mr_status *st; /* first error */
} reader;

typedef MR_VEC(mr_literal) literal_vec;
typedef MR_VEC(mr_example_value *) value_vec;

static void note_error(reader *r, const char *what)
{
    if (!r->st)
        r->st = mr_invalid("example '%s': %s at '%.20s'", r->text, what, r->p);
    r->p = r->end;
}

static void skip_blanks(reader *r)
{
    while (r->p < r->end && isspace((unsigned char)*r->p))
        r->p++;
}

static bool peek_char(reader *r, char c)
{
    skip_blanks(r);
    return r->p < r->end && *r->p == c;
}

static bool take_char(reader *r, char c)
{
    if (!peek_char(r, c))
        return false;
    r->p++;
    return true;
}

static void expect_char(reader *r, char c)
{
    if (!take_char(r, c))
        note_error(r, c == ')'   ? "')' expected"
                : c == ']' ? "']' expected"
                : c == ':' ? "':' expected"
                           : "syntax error");
}

static bool peek_text(reader *r, const char *s)
{
    skip_blanks(r);
    size_t n = strlen(s);
    return (size_t)(r->end - r->p) >= n && memcmp(r->p, s, n) == 0;
}

static bool word_char(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* The next word, which is not consumed; empty when there is none. */
static mr_sv peek_word(reader *r)
{
    skip_blanks(r);
    const char *e = r->p;
    if (e < r->end && (isalpha((unsigned char)*e) || *e == '_'))
        while (e < r->end && word_char(*e))
            e++;
    return (mr_sv){r->p, (size_t)(e - r->p)};
}

static bool take_word(reader *r, const char *word)
{
    mr_sv w = peek_word(r);
    if (!mr_sv_is(w, word))
        return false;
    r->p += w.n;
    return true;
}

static mr_sv any_word(reader *r)
{
    mr_sv w = peek_word(r);
    if (w.n == 0)
        note_error(r, "name expected");
    r->p += w.n;
    return w;
}

/* ---- elements ---- */

/* The exponent of ten of the last digit: from the digits after the point and the exponent. */
static int last_digit(const char *p, const char *end)
{
    int place = 0;
    bool fraction = false;
    for (; p < end; p++) {
        if (*p == '.')
            fraction = true;
        else if (*p == 'e' || *p == 'E')
            return place + atoi(p + 1);
        else if (fraction && isdigit((unsigned char)*p))
            place--;
    }
    return place;
}

/* Reads one real number, with its sign. */
static void real_number(reader *r, mr_literal *l, double *value)
{
    char *e;
    const char *p = r->p;
    *value = strtod(p, &e); /* accepts inf and nan too */
    if (e == p || e > r->end) {
        note_error(r, "number expected");
        return;
    }
    l->negative = *p == '-';
    const char *digits = p + (*p == '-' || *p == '+');
    l->is_int = (size_t)(e - digits) == strspn(digits, "0123456789");
    if (l->is_int)
        l->bits = strtoull(digits, NULL, 10);
    if (isfinite(*value))
        l->last_digit = MR_MIN(l->last_digit, last_digit(digits, e));
    r->p = e;
}

static void read_number(reader *r, mr_literal *l)
{
    real_number(r, l, &l->re);
    if (r->p < r->end && *r->p == 'i') {
        l->im = l->re;
        l->re = 0;
        l->is_complex = true;
    } else if (r->p < r->end && (*r->p == '+' || *r->p == '-')) {
        real_number(r, l, &l->im);
        l->is_complex = true;
        if (r->p >= r->end || *r->p != 'i')
            note_error(r, "i expected");
    }
    if (l->is_complex) {
        l->is_int = false;
        r->p += !r->st; /* the i */
    }
}

static char read_escape(reader *r)
{
    char c = r->p < r->end ? *r->p++ : 0;
    if (c == 'n' || c == 't')
        return c == 'n' ? '\n' : '\t';
    if (c != 'x')
        return c;
    char hex[3] = {0};
    for (int i = 0; i < 2 && r->p < r->end; i++)
        hex[i] = *r->p++;
    return (char)strtol(hex, NULL, 16);
}

static mr_sv read_quoted(reader *r)
{
    expect_char(r, '"');
    char *s = mr_arena_alloc(r->a, (size_t)(r->end - r->p) + 1);
    size_t n = 0;
    while (r->p < r->end && *r->p != '"') {
        char c = *r->p++;
        s[n++] = c == '\\' ? read_escape(r) : c;
    }
    expect_char(r, '"');
    return (mr_sv){s, n};
}

static mr_literal read_element(reader *r)
{
    mr_literal l = {.last_digit = 0};
    skip_blanks(r);
    if (take_char(r, '?')) {
        l.any = true;
    } else if (peek_char(r, '"')) {
        l.is_str = true;
        l.str = read_quoted(r);
    } else if (take_word(r, "true")) {
        l.is_bool = l.is_int = true;
        l.bits = 1;
        l.re = 1;
    } else if (take_word(r, "false")) {
        l.is_bool = l.is_int = true;
    } else {
        read_number(r, &l);
    }
    return l;
}

/* ---- values ---- */

/* Reads a nested list. All lists at one depth must have the length of the first list at that depth. */
static void read_nested(reader *r, mr_shape *shape, int depth, literal_vec *out)
{
    if (!take_char(r, '[')) {
        if (depth != shape->rank)
            note_error(r, "uneven depth of brackets");
        mr_vec_push(out, read_element(r));
        return;
    }
    if (depth == MR_MAX_RANK) {
        note_error(r, "too deep");
        return;
    }
    if (depth == shape->rank) {
        if (out->n > 0) /* elements were found at this depth before */
            note_error(r, "uneven depth of brackets");
        shape->dims[shape->rank++] = -1;
    }
    int64_t n = 0;
    while (!r->st && !take_char(r, ']')) {
        read_nested(r, shape, depth + 1, out);
        n++;
        if (!peek_char(r, ']'))
            expect_char(r, ',');
    }
    if (shape->dims[depth] >= 0 && shape->dims[depth] != n)
        note_error(r, "uneven lengths of lists");
    shape->dims[depth] = n;
}

static int64_t whole_number(reader *r)
{
    mr_literal l = read_element(r);
    if (!l.is_int || l.negative || l.bits > INT64_MAX)
        note_error(r, "size expected");
    return (int64_t)l.bits;
}

/* Reads sizes up to the closing parenthesis: 2,3) */
static void dims_until_paren(reader *r, mr_shape *shape)
{
    while (!r->st && !take_char(r, ')')) {
        mr_status *st = mr_shape_push(shape, whole_number(r));
        if (st) {
            mr_status_free(st);
            note_error(r, "too many dimensions");
        }
        if (!peek_char(r, ')'))
            expect_char(r, ',');
    }
}

static int64_t count_elements(reader *r, const mr_shape *shape)
{
    int64_t n = 0;
    mr_status *st = mr_shape_elements(shape->rank, shape->dims, &n);
    if (st || n > MAX_ELEMENTS)
        note_error(r, "too many elements");
    mr_status_free(st);
    return r->st ? 0 : n;
}

static mr_literal int_literal(int64_t i)
{
    return (mr_literal){.is_int = true, .bits = (uint64_t)i, .re = (double)i};
}

/* Reads shape(..), iota(..) or fill(..); false when the next word is none of them. */
static bool made_tensor(reader *r, mr_example_value *v)
{
    bool any = take_word(r, "shape"), iota = !any && take_word(r, "iota");
    if (!any && !iota && !take_word(r, "fill"))
        return false;
    expect_char(r, '(');
    mr_literal with = {0};
    if (!any && !iota) {
        with = read_element(r);
        if (!peek_char(r, ')'))
            expect_char(r, ',');
    }
    dims_until_paren(r, v->shape);
    v->n = count_elements(r, v->shape);
    v->any = any;
    v->elements = mr_arena_array(r->a, mr_literal, any ? 0 : v->n);
    for (int64_t i = 0; i < v->n && !any; i++)
        v->elements[i] = iota ? int_literal(i) : with;
    return true;
}

static mr_example_value *read_value(reader *r);

/* Reads values up to `stop` (0: as long as commas follow). */
static void read_values(reader *r, char stop, int *n, mr_example_value ***out)
{
    value_vec v = {0};
    while (!r->st && !(stop && peek_char(r, stop))) {
        mr_vec_push(&v, read_value(r));
        if (!take_char(r, ','))
            break;
    }
    if (stop)
        expect_char(r, stop);
    *n = v.n;
    *out = v.n ? mr_arena_memdup(r->a, v.p, (size_t)v.n * sizeof *v.p) : NULL;
    mr_vec_deinit(&v);
}

static void literal_tensor(reader *r, mr_example_value *v)
{
    literal_vec elements = {0};
    read_nested(r, v->shape, 0, &elements);
    v->n = elements.n;
    v->elements = mr_arena_array(r->a, mr_literal, elements.n);
    if (elements.n)
        memcpy(v->elements, elements.p, (size_t)elements.n * sizeof *elements.p);
    mr_vec_deinit(&elements);
}

/* True if the word can begin a number or a string of the language, so that it is not a name. */
static bool is_literal_word(mr_sv w)
{
    static const char *const words[] = {"true", "false", "nan", "inf", "shape", "iota", "fill"};
    for (int i = 0; i < MR_COUNT(words); i++)
        if (mr_sv_is(w, words[i]))
            return true;
    return w.n == 0;
}

static mr_example_value *read_value(reader *r)
{
    mr_example_value *v = mr_arena_new(r->a, mr_example_value);
    if (take_char(r, '(')) {
        v->kind = MR_EX_LIST;
        read_values(r, ')', &v->n_items, &v->items);
        return v;
    }
    if (take_word(r, "dead")) {
        v->kind = MR_EX_DEAD;
        return v;
    }
    mr_sv w = peek_word(r);
    if (!is_literal_word(w)) {
        v->type = mr_dtype_from_name(w);
        r->p += w.n;
        if (v->type == MR_INVALID) {
            v->kind = MR_EX_NAME;
            v->name = w;
            v->output = take_char(r, ':') ? (int)whole_number(r) : 0;
            return v;
        }
    }
    v->shape = mr_arena_new(r->a, mr_shape);
    if (!made_tensor(r, v))
        literal_tensor(r, v);
    return v;
}

/* ---- steps ---- */

/* The text of an attr's value: up to a blank or colon outside quotes and brackets. */
static mr_sv attr_text(reader *r)
{
    const char *start = r->p;
    int depth = 0;
    bool in_string = false;
    for (; r->p < r->end; r->p++) {
        char c = *r->p;
        if (in_string) {
            if (c == '\\' && r->p + 1 < r->end)
                r->p++;
            in_string = c != '"';
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '(' || c == '{') {
            depth++;
        } else if (c == ']' || c == ')' || c == '}') {
            depth--;
        } else if (depth == 0 && (isspace((unsigned char)c) || c == ':' || c == ';')) {
            break;
        }
    }
    if (r->p == start)
        note_error(r, "value expected");
    return (mr_sv){start, (size_t)(r->p - start)};
}

/* name=value name=value nograd unknown */
static void read_settings(reader *r, mr_example *e, mr_example_step *s)
{
    MR_VEC(mr_example_attr) attrs = {0};
    for (;;) {
        const char *start = r->p;
        mr_sv w = peek_word(r);
        if (mr_sv_is(w, "nograd") || mr_sv_is(w, "unknown")) {
            *(mr_sv_is(w, "nograd") ? &e->nograd : &e->unknown) = true;
            r->p += w.n;
            continue;
        }
        r->p += w.n;
        if (w.n == 0 || !take_char(r, '=')) {
            r->p = start;
            break;
        }
        mr_vec_push(&attrs, (mr_example_attr){w, attr_text(r)});
    }
    s->n_attrs = attrs.n;
    s->attrs = attrs.n ? mr_arena_memdup(r->a, attrs.p, (size_t)attrs.n * sizeof *attrs.p) : NULL;
    mr_vec_deinit(&attrs);
}

static bool at_end_of_inputs(reader *r)
{
    skip_blanks(r);
    return r->p == r->end || *r->p == ';' || peek_text(r, "->");
}

static void read_inputs(reader *r, mr_example *e, mr_example_step *s)
{
    read_settings(r, e, s);
    bool colon = take_char(r, ':');
    if (!colon && s->n_attrs > 0 && !at_end_of_inputs(r))
        note_error(r, "':' expected after the attrs");
    if (!at_end_of_inputs(r))
        read_values(r, 0, &s->n_in, &s->in);
}

/* [name =] Op attrs: inputs; */
static void setup_step(reader *r, mr_example *e, mr_example_step *s)
{
    s->op = any_word(r);
    if (take_char(r, '=')) {
        s->name = s->op;
        s->op = any_word(r);
    }
    read_inputs(r, e, s);
    expect_char(r, ';');
}

static void expected_error(reader *r, mr_example *e)
{
    e->fails = true;
    mr_sv w = any_word(r);
    for (int c = MR_CANCELLED; c <= MR_UNAUTHENTICATED; c++)
        if (mr_sv_is(w, mr_code_name((mr_code)c)))
            e->code = (mr_code)c;
    if (e->code == MR_OK)
        note_error(r, "unknown error code");
    skip_blanks(r);
    e->text = (mr_sv){r->p, (size_t)(r->end - r->p)};
    r->p = r->end;
}

static void checked_step(reader *r, mr_example *e, mr_example_step *s)
{
    read_inputs(r, e, s);
    if (!peek_text(r, "->"))
        note_error(r, "'->' expected");
    r->p += r->st ? 0 : 2;
    if (take_char(r, '!'))
        expected_error(r, e);
    else if (!at_end_of_inputs(r))
        read_values(r, 0, &e->n_out, &e->out);
    skip_blanks(r);
    if (r->p < r->end)
        note_error(r, "end expected");
}

/* Counts the semicolons outside strings, up to the arrow (an expected text may contain anything). */
static int count_steps(const char *text)
{
    int n = 1;
    bool in_string = false;
    for (const char *p = text; *p && (in_string || strncmp(p, "->", 2) != 0); p++) {
        if (in_string && *p == '\\' && p[1])
            p++;
        else if (*p == '"')
            in_string = !in_string;
        else if (*p == ';' && !in_string)
            n++;
    }
    return n;
}

mr_status *mr_example_parse(mr_arena *a, const char *text, mr_example **out)
{
    reader r = {a, text, text, text + strlen(text), NULL};
    mr_example *e = mr_arena_new(a, mr_example);
    e->n_steps = count_steps(text);
    e->steps = mr_arena_array(a, mr_example_step, e->n_steps);
    for (int i = 0; i + 1 < e->n_steps; i++)
        setup_step(&r, e, &e->steps[i]);
    checked_step(&r, e, &e->steps[e->n_steps - 1]);
    *out = e;
    return r.st;
}

mr_status *mr_example_parse_value(mr_arena *a, mr_sv text, mr_example_value **out)
{
    const char *copy = mr_arena_strndup(a, text.p, text.n);
    reader r = {a, copy, copy, copy + text.n, NULL};
    *out = read_value(&r);
    skip_blanks(&r);
    if (r.p < r.end)
        note_error(&r, "end expected");
    return r.st;
}
