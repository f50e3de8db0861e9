/* base/wrap.c -- see wrap.h. */
#include "base/wrap.h"

#include <ctype.h>

#include "base/memory.h"

/* The length in bytes of the escape sequence that starts at p, or 0. */
static size_t escape_length(const char *p, size_t n)
{
    size_t i = 2;
    if (n < 3 || p[0] != '\x1b' || p[1] != '[')
        return 0;
    while (i < n && (isdigit((unsigned char)p[i]) || p[i] == ';'))
        i++;
    return i < n && p[i] == 'm' ? i + 1 : 0;
}

/* The number of bytes of the first column of a text: the escape sequences before a character, and the character. */
static size_t column_length(mr_sv text)
{
    size_t i = 0, escape;
    while ((escape = escape_length(text.p + i, text.n - i)) > 0)
        i += escape;
    i += i < text.n;
    while (i < text.n && ((unsigned char)text.p[i] & 0xC0) == 0x80)
        i++;
    while ((escape = escape_length(text.p + i, text.n - i)) > 0) /* those after it belong to it: they end a style */
        i += escape;
    return i;
}

static mr_sv skip_bytes(mr_sv v, size_t n) { return (mr_sv){v.p + n, v.n - n}; }

int mr_text_columns(mr_sv text)
{
    int n = 0;
    size_t i = 0;
    while (i < text.n) {
        size_t escape = escape_length(text.p + i, text.n - i);
        n += !escape && ((unsigned char)text.p[i] & 0xC0) != 0x80;
        i += escape ? escape : 1;
    }
    return n;
}

void mr_text_pad(mr_str *s, size_t from, int width)
{
    int n = mr_text_columns((mr_sv){mr_str_z(s) + from, s->n - from});
    if (n < width)
        mr_str_printf(s, "%*s", width - n, "");
}

/* ---- words ---- */

/* The length of the word at the beginning of the text; a number takes the word after it along: "1.2 ms", "(+3 %)". */
static size_t word_length(mr_sv text)
{
    size_t n = 0, first = 0;
    while (first < text.n && strchr("(+-", text.p[first]) && text.p[first])
        first++;
    while (n < text.n && text.p[n] != ' ')
        n++;
    if (n <= first || n + 1 >= text.n || !isdigit((unsigned char)text.p[first]) ||
        !isdigit((unsigned char)text.p[n - 1]))
        return n;
    if (!isalpha((unsigned char)text.p[n + 1]) && text.p[n + 1] != '%')
        return n;
    do
        n++;
    while (n < text.n && text.p[n] != ' ');
    return n;
}

/* Where to break a word that does not fit into `room` columns: the largest number of bytes that does and ends after
 * one of the characters, or 0. */
static size_t break_after(mr_sv word, int room, const char *characters)
{
    size_t best = 0, i = 0;
    for (int columns = 0; columns < room && i < word.n; columns++) {
        size_t n = column_length(skip_bytes(word, i));
        char last = word.p[i];
        i += n;
        if (n == 1 && i < word.n && strchr(characters, last))
            best = i;
    }
    return best;
}

static const char signs[] = "/,+>:;=|)]", small_signs[] = "_.-";

/* The same at the best place there is, for a word that must be broken; never 0. */
static size_t break_word(mr_sv word, int room)
{
    static const char *const places[] = {" ", signs, small_signs};
    size_t n = 0;
    for (int i = 0; i < MR_COUNT(places) && !n; i++)
        n = break_after(word, room, places[i]);
    if (n)
        return n;
    for (int columns = 0; columns < MR_MAX(room, 1) && n < word.n; columns++)
        n += column_length(skip_bytes(word, n));
    return n;
}

int mr_wrap_least(mr_sv text)
{
    int least = 0, columns = 0;
    bool begun = false; /* spaces before the first word are never left out */
    for (size_t i = 0; i < text.n;) {
        size_t n = column_length(skip_bytes(text, i));
        char c = text.p[i];
        begun |= c != ' ';
        columns = begun && c == ' ' ? 0 : columns + 1;
        least = MR_MAX(least, columns);
        if (n == 1 && strchr(signs, c))
            columns = 0;
        i += n;
    }
    return least;
}

/* ---- lines ---- */

typedef struct wrapping {
    mr_str *out;
    int width, hang;
    int column;  /* of the cursor */
    bool empty;  /* no word is on this line yet */
    bool broken; /* this is not the first line */
    size_t part; /* the end of the last word of this line that ends a part of a sentence; 0: none */
} wrapping;

static void break_line(wrapping *w)
{
    mr_str_printf(w->out, "\n%*s", w->hang, "");
    w->column = w->hang;
    w->empty = w->broken = true;
    w->part = 0;
}

/* Breaks the line before a word that does not fit. The last few words go along if they begin a part of a sentence:
 * ", p99" is better read together with its number. */
static void break_before_word(wrapping *w)
{
    enum { FEW = 16 }; /* columns */
    mr_str tail = {0};
    if (w->part) {
        mr_sv v = mr_sv_trim((mr_sv){w->out->p + w->part, w->out->n - w->part});
        if (mr_text_columns(v) <= MR_MIN(FEW, (w->width - w->hang) / 2)) {
            mr_str_append(&tail, v.p, v.n);
            w->out->n = w->part;
        }
    }
    break_line(w);
    mr_str_append(w->out, mr_str_z(&tail), tail.n);
    w->column += mr_text_columns(mr_str_view(&tail));
    w->empty = tail.n == 0;
    mr_str_deinit(&tail);
}

static void put_word(wrapping *w, int spaces, mr_sv word)
{
    mr_str_printf(w->out, "%*s", spaces, "");
    mr_str_append(w->out, word.p, word.n);
    w->column += spaces + mr_text_columns(word);
    w->empty = false;
    if (word.n && strchr(",;:", word.p[word.n - 1]))
        w->part = w->out->n;
}

/* Appends one line that is too wide. Each turn appends a word or a part of one, or ends the line before it. */
static void wrap_line(mr_sv line, int width, int hang, mr_str *out)
{
    wrapping w = {.out = out, .width = width, .hang = hang, .empty = true};
    while (line.n) {
        int spaces = 0;
        while ((size_t)spaces < line.n && line.p[spaces] == ' ')
            spaces++;
        mr_sv word = skip_bytes(line, (size_t)spaces);
        word.n = word_length(word);
        if (!word.n)
            return; /* only spaces are left */
        /* The first line keeps its indent as far as there is room for a word, the others hang. */
        int indent = !w.empty ? spaces : w.broken ? 0 : MR_MIN(spaces, width / 2);
        int columns = mr_text_columns(word), room = width - w.column - indent;
        if (columns <= room) {
            put_word(&w, indent, word);
            line = skip_bytes(line, (size_t)spaces + word.n);
            continue;
        }
        bool too_wide = columns > width - hang;
        size_t n = too_wide && room > 0 ? break_after(word, room, signs) : 0;
        if (!n && w.empty)
            n = break_word(word, room);
        if (n) {
            put_word(&w, indent, mr_sv_trim((mr_sv){word.p, n})); /* a number may end in the space before its unit */
            break_line(&w);
            line = skip_bytes(line, (size_t)spaces + n);
        } else {
            break_before_word(&w);
        }
    }
}

void mr_wrap(mr_str *s, size_t from, int width, int hang)
{
    MR_ASSERT(from <= s->n && hang >= 0);
    mr_str old = {0};
    mr_str_append(&old, mr_str_z(s) + from, s->n - from);
    hang = MR_MIN(hang, MR_MAX(width / 2, width - 24)); /* leaves room for words */
    s->n = from;
    for (mr_sv rest = mr_str_view(&old); rest.n;) {
        const char *end = memchr(rest.p, '\n', rest.n);
        mr_sv line = {rest.p, end ? (size_t)(end - rest.p) : rest.n};
        if (mr_text_columns(line) <= width)
            mr_str_append(s, line.p, line.n);
        else
            wrap_line(line, width, hang, s);
        if (end)
            mr_str_appendc(s, '\n');
        rest = skip_bytes(rest, line.n + (end != NULL));
    }
    mr_str_deinit(&old);
}

mr_sv mr_name_end(mr_sv name, int width)
{
    while (name.n > (size_t)MR_MAX(width, 0)) {
        const char *slash = memchr(name.p, '/', name.n);
        if (!slash)
            return (mr_sv){name.p, 0};
        name = skip_bytes(name, (size_t)(slash + 1 - name.p));
    }
    return name;
}
