/* base/regex_parse.c -- reads a pattern into a tree.
 *
 * Recursive descent, as deep as groups are nested. The syntax and the error messages are those of RE2, which users
 * already know. */
#include <stdio.h>

#include "base/memory.h"
#include "base/regex_tree.h"

enum { FOLD = 1, ONE_LINE = 2, DOT_NL = 4, SWAP_LAZY = 8 }; /* (?i) not (?m) (?s) (?U) */

typedef struct parser {
    mr_sv s;    /* the whole pattern */
    size_t at;
    unsigned flags;
    int depth;
    mr_arena *a;
    int n_groups;
} parser;

/* ---- errors ---- */

static mr_status *syntax_error(const char *what, mr_sv where)
{
    return where.n ? mr_invalid("%s: %.*s", what, MR_SV_ARG(where)) : mr_invalid("%s", what);
}

static mr_sv text_since(const parser *p, size_t from) { return (mr_sv){p->s.p + from, p->at - from}; }
static mr_sv text_from(const parser *p, size_t from) { return (mr_sv){p->s.p + from, p->s.n - from}; }

/* ---- characters ---- */

static bool at_end(const parser *p) { return p->at >= p->s.n; }
static char peek_char(const parser *p) { return p->s.p[p->at]; }

static bool starts_with(const parser *p, const char *text)
{
    return mr_sv_starts(text_from(p, p->at), text);
}

static bool take_text(parser *p, const char *text)
{
    bool is = starts_with(p, text);
    p->at += is ? strlen(text) : 0;
    return is;
}

static uint32_t next_code(parser *p)
{
    uint32_t c;
    p->at += mr_utf8_next(p->s.p + p->at, p->s.n - p->at, &c);
    return c == MR_NO_CODE ? MR_REPLACEMENT_CODE : c; /* an error in the end: mr_re_parse */
}

/* Where the first byte is that belongs to no character; s.n: nowhere. */
static size_t first_bad(mr_sv s)
{
    size_t i = 0, n;
    for (uint32_t c; i < s.n; i += n) {
        n = mr_utf8_next(s.p + i, s.n - i, &c);
        if (c == MR_NO_CODE)
            break;
    }
    return i;
}

/* ---- nodes ---- */

static mr_re_node *new_node(parser *p, mr_re_kind kind)
{
    mr_re_node *n = mr_arena_new(p->a, mr_re_node);
    n->kind = kind;
    n->weight = 1;
    return n;
}

/* Takes the set's content over. */
static mr_re_node *set_node(parser *p, mr_re_set *s)
{
    mr_re_node *n = new_node(p, MR_RE_SET);
    mr_re_set_tidy(s);
    n->n_ranges = s->r.n;
    n->ranges = mr_arena_memdup(p->a, s->r.p, sizeof *s->r.p * (size_t)s->r.n);
    mr_vec_deinit(&s->r);
    return n;
}

static mr_re_node *make_literal(parser *p, uint32_t c)
{
    mr_re_node *n = new_node(p, MR_RE_SET);
    mr_re_range all[4] = {{c, c}};
    int k = 1;
    if (p->flags & FOLD)
        for (uint32_t f = mr_unicode_fold(c); f != c && k < 4; f = mr_unicode_fold(f))
            all[k++] = (mr_re_range){f, f};
    mr_re_set s = {{all, k, k}};
    mr_re_set_tidy(&s);
    n->n_ranges = s.r.n;
    n->ranges = mr_arena_memdup(p->a, all, sizeof *all * (size_t)s.r.n);
    return n;
}

static mr_re_node *make_assertion(parser *p, int flags)
{
    mr_re_node *n = new_node(p, MR_RE_ASSERT);
    n->flags = flags;
    return n;
}

typedef MR_VEC(mr_re_node *) node_list;

/* One node of many; takes the list's content over. */
static mr_re_node *join_nodes(parser *p, mr_re_kind kind, node_list *l)
{
    mr_re_node *n = l->n == 1 ? l->p[0] : new_node(p, l->n ? kind : MR_RE_EMPTY);
    if (l->n > 1) {
        n->n = l->n;
        n->child = mr_arena_memdup(p->a, l->p, sizeof *l->p * (size_t)l->n);
        for (int i = 0; i < l->n; i++)
            n->weight = MR_MAX(n->weight, l->p[i]->weight);
    }
    mr_vec_deinit(l);
    return n;
}

/* ---- escapes ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* In braces; what ends the digits is read in any case. */
static bool long_hex(parser *p, uint32_t *out)
{
    int n = 0;
    for (;; n++) {
        uint32_t c = at_end(p) ? 0 : next_code(p);
        int d = c < 0x80 ? hex_digit((char)c) : -1;
        if (d < 0)
            return c == '}' && n > 0;
        *out = *out * 16 + (uint32_t)d;
        if (*out > MR_MAX_CODE)
            return false;
    }
}

static bool hex_code(parser *p, uint32_t *out)
{
    bool good = true;
    *out = 0;
    if (take_text(p, "{"))
        return long_hex(p, out);
    for (int i = 0; i < 2; i++) {
        uint32_t c = at_end(p) ? 0 : next_code(p);
        int d = c < 0x80 ? hex_digit((char)c) : -1;
        good = good && d >= 0;
        *out = *out * 16 + (uint32_t)(d & 15);
    }
    return good;
}

static bool is_octal(const parser *p) { return !at_end(p) && peek_char(p) >= '0' && peek_char(p) <= '7'; }

/* Reads an escape after the backslash and its first character c; false if there is no such escape. */
static bool escape_code(parser *p, uint32_t c, uint32_t *out)
{
    static const char letters[] = "afnrtv", codes[] = "\a\f\n\r\t\v";
    const char *at = c && c < 0x80 ? strchr(letters, (int)c) : NULL;
    *out = c;
    if (at) {
        *out = (uint8_t)codes[at - letters];
        return true;
    }
    if (c == 'x')
        return hex_code(p, out);
    if (c >= '0' && c <= '7' && (c == '0' || is_octal(p))) { /* \1 alone would be a back reference */
        *out = c - '0';
        for (int i = 0; i < 2 && is_octal(p); i++, p->at++)
            *out = *out * 8 + (uint32_t)(peek_char(p) - '0');
        return true;
    }
    return c < 0x80 && !(c >= '0' && c <= '9') && !((c | 32) >= 'a' && (c | 32) <= 'z');
}

/* Reads a backslash and the escape after it; *out is the character that it means. */
static mr_status *parse_escape(parser *p, uint32_t *out)
{
    size_t from = p->at++;
    if (at_end(p))
        return mr_invalid("trailing \\");
    uint32_t c = next_code(p);
    return escape_code(p, c, out) ? NULL : syntax_error("invalid escape sequence", text_since(p, from));
}

/* ---- classes ---- */

static void add_set(mr_re_set *to, mr_re_set *from, bool fold, bool negate)
{
    if (fold)
        mr_re_set_fold(from);
    if (negate)
        mr_re_set_negate(from);
    for (int i = 0; i < from->r.n; i++)
        mr_re_set_add(to, from->r.p[i].lo, from->r.p[i].hi);
    mr_vec_deinit(&from->r);
}

/* Reads \d, \w, \s or their negation; false if there is none here. */
static bool perl_class(parser *p, mr_re_set *s)
{
    char name[3] = {'\\', 0, 0};
    if (at_end(p) || peek_char(p) != '\\' || p->at + 1 >= p->s.n)
        return false;
    char c = p->s.p[p->at + 1];
    if (!c || !strchr("dswDSW", c))
        return false;
    mr_re_set one = {0};
    name[1] = (char)(c | 32);
    p->at += 2;
    mr_re_set_named(&one, mr_sv_of(name));
    add_set(s, &one, p->flags & FOLD, c != name[1]);
    return true;
}

/* \pN, \p{Greek}, \P{^Lu}. */
static mr_status *unicode_class(parser *p, mr_re_set *s, bool *is)
{
    size_t from = p->at;
    mr_sv name;
    *is = starts_with(p, "\\p") || starts_with(p, "\\P");
    if (!*is)
        return NULL;
    bool negate = p->s.p[p->at + 1] == 'P';
    p->at += 2;
    if (at_end(p))
        return syntax_error("invalid character class range", text_since(p, from));
    size_t start = p->at;
    if (peek_char(p) == '{') {
        const char *end = memchr(p->s.p + start, '}', p->s.n - start);
        if (!end) {
            p->at = p->s.n;
            return syntax_error("invalid character class range", text_since(p, from));
        }
        name = (mr_sv){p->s.p + start + 1, (size_t)(end - p->s.p) - start - 1};
        p->at = (size_t)(end - p->s.p) + 1;
    } else {
        next_code(p);
        name = text_since(p, start);
    }
    if (name.n > 0 && name.p[0] == '^') {
        negate = !negate;
        name = (mr_sv){name.p + 1, name.n - 1};
    }
    mr_re_set one = {0};
    if (!mr_unicode_class(name, mr_re_set_add, &one))
        return syntax_error("invalid character class range", text_since(p, from));
    add_set(s, &one, p->flags & FOLD, negate);
    return NULL;
}

/* [:alpha:], [:^alpha:] inside of brackets. */
static mr_status *posix_class(parser *p, mr_re_set *s, bool *is)
{
    const char *end;
    *is = false;
    if (!starts_with(p, "[:") || !(end = memmem(p->s.p + p->at + 2, p->s.n - p->at - 2, ":]", 2)))
        return NULL;
    mr_sv name = {p->s.p + p->at, (size_t)(end - p->s.p) + 2 - p->at};
    bool negate = name.n > 2 && name.p[2] == '^';
    mr_re_set one = {0};
    char plain[32];
    int n = snprintf(plain, sizeof plain, "[:%.*s", (int)name.n - 2 - negate, name.p + 2 + negate);
    if (n >= (int)sizeof plain || !mr_re_set_named(&one, mr_sv_of(plain)))
        return syntax_error("invalid character class range", name);
    add_set(s, &one, p->flags & FOLD, negate);
    p->at += name.n;
    *is = true;
    return NULL;
}

static mr_status *class_code(parser *p, size_t class_from, uint32_t *out)
{
    if (at_end(p))
        return syntax_error("missing ]", text_from(p, class_from));
    if (peek_char(p) == '\\')
        return parse_escape(p, out);
    *out = next_code(p);
    return NULL;
}

/* One character, or two with a dash between them. */
static mr_status *class_range(parser *p, size_t class_from, mr_re_set *s)
{
    size_t from = p->at;
    uint32_t lo, hi;
    MR_TRY(class_code(p, class_from, &lo));
    hi = lo;
    if (p->at + 1 < p->s.n && peek_char(p) == '-' && p->s.p[p->at + 1] != ']') {
        p->at++;
        MR_TRY(class_code(p, class_from, &hi));
        if (hi < lo)
            return syntax_error("invalid character class range", text_since(p, from));
    }
    mr_re_set one = {0};
    mr_re_set_add(&one, lo, hi);
    add_set(s, &one, p->flags & FOLD, false);
    return NULL;
}

static mr_status *class_item(parser *p, size_t from, mr_re_set *s)
{
    bool is;
    MR_TRY(posix_class(p, s, &is));
    if (is)
        return NULL;
    if (p->at + 2 < p->s.n)
        MR_TRY(unicode_class(p, s, &is));
    if (is || perl_class(p, s))
        return NULL;
    return class_range(p, from, s);
}

/* At an opening bracket.  The first ] is one of the characters. */
static mr_status *parse_bracket(parser *p, mr_re_node **out)
{
    size_t from = p->at++;
    bool negate = take_text(p, "^"), first = true;
    mr_re_set s = {0};
    mr_status *st = NULL;
    for (; !at_end(p) && (first || peek_char(p) != ']'); first = false)
        MR_GO(class_item(p, from, &s));
    if (at_end(p))
        MR_GO(syntax_error("missing ]", text_from(p, from)));
    p->at++;
    if (negate)
        mr_re_set_negate(&s);
    *out = set_node(p, &s);
out:
    mr_vec_deinit(&s.r);
    return st;
}

/* ---- groups ---- */

static mr_status *parse_alternatives(parser *p, mr_re_node **out);

static bool is_name(mr_sv s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (c != '_' && !(c >= '0' && c <= '9') && !((c | 32) >= 'a' && (c | 32) <= 'z'))
            return false;
    }
    return s.n > 0;
}

/* Reads the name after (?P< and its end. Groups are never looked up by name, so two may have the same. */
static mr_status *group_name(parser *p, size_t from)
{
    const char *end = memchr(p->s.p + p->at, '>', p->s.n - p->at);
    if (!end)
        return syntax_error("invalid named capture group", text_from(p, from));
    mr_sv name = {p->s.p + p->at, (size_t)(end - p->s.p) - p->at};
    p->at += name.n + 1;
    if (!is_name(name))
        return syntax_error("invalid named capture group", text_since(p, from));
    return NULL;
}

/* The letters of (?i-s); *more: a colon ended them, so a group follows. */
static mr_status *group_flags(parser *p, size_t from, bool *more)
{
    unsigned flags = p->flags;
    bool negative = false, any = false;
    for (;;) {
        if (at_end(p))
            return syntax_error("invalid perl operator", text_since(p, from));
        uint32_t c = next_code(p);
        unsigned bit = c == 'i' ? FOLD : c == 'm' ? ONE_LINE : c == 's' ? DOT_NL : c == 'U' ? SWAP_LAZY : 0;
        bool on = (c == 'm') == negative; /* (?m) turns one-line mode off */
        if (c == ':' || c == ')') {
            if (negative && !any)
                return syntax_error("invalid perl operator", text_since(p, from));
            *more = c == ':';
            p->flags = flags;
            return NULL;
        }
        if (c == '-' && !negative) {
            negative = true;
            any = false;
            continue;
        }
        if (!bit)
            return syntax_error("invalid perl operator", text_since(p, from));
        any = true;
        flags = on ? flags | bit : flags & ~bit;
    }
}

static mr_status *group_body(parser *p, mr_re_node **out)
{
    if (++p->depth > MR_RE_MAX_DEPTH)
        return mr_invalid("pattern too large - nesting");
    MR_TRY(parse_alternatives(p, out));
    p->depth--;
    return take_text(p, ")") ? NULL : syntax_error("missing )", p->s);
}

static mr_status *parse_capture(parser *p, mr_re_node **out)
{
    mr_re_node *n = new_node(p, MR_RE_GROUP), *body;
    n->index = ++p->n_groups;
    MR_TRY(group_body(p, &body));
    n->n = 1;
    n->child = mr_arena_memdup(p->a, &body, sizeof body);
    n->weight = body->weight;
    *out = n;
    return NULL;
}

/* At an opening parenthesis; *out NULL: it was only about flags, from here to the end of the group. */
static mr_status *parse_group(parser *p, mr_re_node **out)
{
    size_t from = p->at++;
    unsigned before = p->flags;
    bool more = false;
    mr_status *st = NULL;
    *out = NULL;
    if (take_text(p, "?P<")) {
        MR_TRY(group_name(p, from));
        st = parse_capture(p, out);
    } else if (take_text(p, "?")) {
        MR_TRY(group_flags(p, from, &more));
        if (!more)
            return NULL;
        st = group_body(p, out);
    } else {
        st = parse_capture(p, out);
    }
    p->flags = before;
    return st;
}

/* ---- repetitions ---- */

static bool small_number(parser *p, int *out)
{
    size_t from = p->at;
    for (*out = 0; !at_end(p) && peek_char(p) >= '0' && peek_char(p) <= '9'; p->at++)
        *out = MR_MIN(*out * 10 + (peek_char(p) - '0'), 100000);
    return p->at > from;
}

/* {2}, {2,}, {2,3}; anything else in braces is text. */
static bool parse_counts(parser *p, int *min, int *max)
{
    size_t from = p->at++;
    if (small_number(p, min)) {
        *max = *min;
        if (take_text(p, ",") && !small_number(p, max))
            *max = -1;
        if (take_text(p, "}"))
            return true;
    }
    p->at = from;
    return false;
}

/* Reads a repetition operator; false if there is none here. */
static bool parse_repetition(parser *p, int *min, int *max, bool *lazy)
{
    if (at_end(p))
        return false;
    char c = peek_char(p);
    *min = c == '+';
    *max = c == '?' ? 1 : -1;
    if (c == '{' ? !parse_counts(p, min, max) : c != '*' && c != '+' && c != '?')
        return false;
    p->at += c != '{';
    *lazy = take_text(p, "?") != !!(p->flags & SWAP_LAZY);
    return true;
}

/* The weight is the product of nested counts; it bounds the size of the program. */
static mr_status *make_repeat(parser *p, mr_re_node *body, int min, int max, bool lazy, mr_sv text,
                              mr_re_node **out)
{
    mr_re_node *n = new_node(p, MR_RE_REPEAT);
    int times = MR_MAX(min, max);
    n->weight = body->weight * (text.p[0] == '{' ? MR_MAX(times, 1) : 1);
    if (n->weight > MR_RE_MAX_REPEAT)
        return syntax_error("invalid repetition size", text);
    n->min = min;
    n->max = max;
    n->lazy = lazy;
    n->n = 1;
    n->child = mr_arena_memdup(p->a, &body, sizeof body);
    *out = n;
    return NULL;
}

/* *body is what an operator here repeats: NULL when there is nothing. */
static mr_status *parse_repetitions(parser *p, mr_re_node **body)
{
    int min, max;
    bool lazy;
    size_t from = p->at, second;
    if (!parse_repetition(p, &min, &max, &lazy))
        return NULL;
    mr_sv text = text_since(p, from);
    if (min > MR_RE_MAX_REPEAT || max > MR_RE_MAX_REPEAT || (max >= 0 && min > max))
        return syntax_error("invalid repetition size", text);
    if (!*body)
        return syntax_error("no argument for repetition operator", text);
    MR_TRY(make_repeat(p, *body, min, max, lazy, text, body));
    second = p->at;
    if (parse_repetition(p, &min, &max, &lazy))
        return syntax_error("bad repetition operator", text_since(p, from));
    p->at = second;
    return NULL;
}

/* ---- the grammar ---- */

/* Reads an escape outside of brackets: an assertion, \C, a class or a single character. */
static mr_status *one_escape(parser *p, mr_re_node **out)
{
    static const struct {
        const char *text;
        int flags;
    } places[] = {{"\\A", MR_RE_BEGIN_TEXT}, {"\\z", MR_RE_END_TEXT}, {"\\b", MR_RE_WORD_EDGE},
                  {"\\B", MR_RE_NO_WORD_EDGE}};
    mr_re_set s = {0};
    uint32_t c;
    bool is;
    for (int i = 0; i < MR_COUNT(places); i++)
        if (take_text(p, places[i].text))
            return *out = make_assertion(p, places[i].flags), NULL;
    if (take_text(p, "\\C"))
        return *out = new_node(p, MR_RE_BYTE), NULL;
    MR_TRY(unicode_class(p, &s, &is));
    if (is || perl_class(p, &s))
        return *out = set_node(p, &s), NULL;
    MR_TRY(parse_escape(p, &c));
    *out = make_literal(p, c);
    return NULL;
}

static mr_re_node *make_dot(parser *p)
{
    mr_re_set s = {0};
    if (p->flags & DOT_NL) {
        mr_re_set_add(&s, 0, MR_MAX_CODE);
    } else {
        mr_re_set_add(&s, 0, '\n' - 1);
        mr_re_set_add(&s, '\n' + 1, MR_MAX_CODE);
    }
    return set_node(p, &s);
}

/* Reads what a repetition may follow; *out is NULL if it cannot be repeated. */
static mr_status *parse_atom(parser *p, mr_re_node **out)
{
    bool one_line = p->flags & ONE_LINE;
    *out = NULL;
    switch (peek_char(p)) {
    case '(': return parse_group(p, out);
    case '[': return parse_bracket(p, out);
    case '\\': return one_escape(p, out);
    case '*': case '+': case '?': return NULL; /* parse_repetitions reports it */
    case '.': p->at++; *out = make_dot(p); return NULL;
    case '^': p->at++; *out = make_assertion(p, one_line ? MR_RE_BEGIN_TEXT : MR_RE_BEGIN_LINE); return NULL;
    case '$': p->at++; *out = make_assertion(p, one_line ? MR_RE_END_TEXT : MR_RE_END_LINE); return NULL;
    case '{': {
        int min, max;
        size_t from = p->at;
        bool is = parse_counts(p, &min, &max);
        p->at = from;
        if (is)
            return NULL;
    } /* fall through */
    default: *out = make_literal(p, next_code(p)); return NULL;
    }
}

/* Reads the literal text between \Q and \E; only its last character may be repeated. */
static mr_status *parse_quotation(parser *p, node_list *l)
{
    p->at += 2;
    while (!at_end(p) && !take_text(p, "\\E"))
        mr_vec_push(l, make_literal(p, next_code(p)));
    if (l->n > 0)
        MR_TRY(parse_repetitions(p, &l->p[l->n - 1]));
    return NULL;
}

static mr_status *parse_sequence(parser *p, mr_re_node **out)
{
    node_list l = {0};
    mr_status *st = NULL;
    while (!at_end(p) && peek_char(p) != '|' && peek_char(p) != ')') {
        mr_re_node *n;
        if (starts_with(p, "\\Q")) {
            MR_GO(parse_quotation(p, &l));
            continue;
        }
        MR_GO(parse_atom(p, &n));
        if (n)
            mr_vec_push(&l, n);
        n = NULL; /* an operator after flags applies to what is before them, as in RE2 */
        MR_GO(parse_repetitions(p, l.n ? &l.p[l.n - 1] : &n));
    }
    *out = join_nodes(p, MR_RE_CAT, &l);
out:
    mr_vec_deinit(&l);
    return st;
}

static mr_status *parse_alternatives(parser *p, mr_re_node **out)
{
    node_list l = {0};
    mr_status *st = NULL;
    do {
        mr_re_node *n = NULL;
        MR_GO(parse_sequence(p, &n));
        mr_vec_push(&l, n);
    } while (take_text(p, "|"));
    *out = join_nodes(p, MR_RE_ALT, &l);
out:
    mr_vec_deinit(&l);
    return st;
}

mr_status *mr_re_parse(mr_sv pattern, mr_re_tree *out)
{
    parser p = {.s = pattern, .flags = ONE_LINE, .a = &out->arena};
    mr_status *st = NULL;
    size_t bad = first_bad(pattern);
    mr_arena_init(&out->arena, 0);
    MR_GO(parse_alternatives(&p, &out->root));
    if (!at_end(&p))
        MR_GO(syntax_error("unexpected )", pattern));
    out->n_groups = p.n_groups;
out:
    if (bad < p.at) { /* of two errors the first one counts */
        mr_status_free(st);
        st = mr_invalid("invalid UTF-8");
    }
    return st;
}

void mr_re_tree_deinit(mr_re_tree *t) { mr_arena_deinit(&t->arena); }

bool mr_re_nullable(const mr_re_node *n)
{
    bool any = false, all = true;
    if (n->kind == MR_RE_SET || n->kind == MR_RE_BYTE)
        return false;
    if (n->kind == MR_RE_EMPTY || n->kind == MR_RE_ASSERT || (n->kind == MR_RE_REPEAT && n->min == 0))
        return true;
    for (int i = 0; i < n->n; i++) {
        bool is = mr_re_nullable(n->child[i]);
        any |= is;
        all &= is;
    }
    return n->kind == MR_RE_ALT ? any : all;
}
