/* sim/reader.c -- reads JSON objects by tables. */
#include "sim/reader.h"

#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "base/nearest.h"

enum { MAX_TEXT = 4096, MAX_FIELDS = 64 };

void mr_sim_reader_init(mr_sim_reader *r, mr_sv text, const char *name, mr_arena *arena)
{
    *r = (mr_sim_reader){.name = name, .arena = arena};
    mr_json_init(&r->j, text);
}

mr_status *mr_sim_reader_end(mr_sim_reader *r)
{
    mr_status *st = r->st ? r->st : mr_json_status(&r->j, r->name);
    mr_str_deinit(&r->path);
    mr_str_deinit(&r->text);
    return st;
}

void mr_sim_reader_fail(mr_sim_reader *r, const char *fmt, ...)
{
    if (r->st || r->j.error) /* the JSON reader reports malformed JSON itself */
        return;
    mr_str why = {0};
    va_list ap;
    va_start(ap, fmt);
    mr_str_vprintf(&why, fmt, ap);
    va_end(ap);
    r->st = mr_invalid("%s: %s%s%s", r->name, mr_str_z(&r->path), r->path.n ? ": " : "", mr_str_z(&why));
    mr_str_deinit(&why);
    r->j.error = "refused"; /* ends all loops */
    r->j.end = r->j.at;
}

/* ---- the current path ---- */

static size_t enter_key(mr_sim_reader *r, const char *key)
{
    size_t at = r->path.n;
    mr_str_printf(&r->path, "%s%.100s", at ? "." : "", key);
    return at;
}

static size_t enter_index(mr_sim_reader *r, int i)
{
    size_t at = r->path.n;
    mr_str_printf(&r->path, "[%d]", i);
    return at;
}

static void leave_path(mr_sim_reader *r, size_t at)
{
    r->path.n = at;
    if (r->path.p)
        r->path.p[at] = 0;
}

/* ---- single values ---- */

static bool expect_kind(mr_sim_reader *r, char kind, const char *what)
{
    char c = mr_json_peek(&r->j);
    if (c != kind && c != 0) /* 0: malformed JSON, which reading detects */
        mr_sim_reader_fail(r, "expected %s", what);
    return c == kind;
}

double mr_sim_read_number(mr_sim_reader *r, double low, double high)
{
    expect_kind(r, '0', "a number");
    double v = mr_json_number(&r->j);
    if (!(v >= low && v <= high)) {
        mr_sim_reader_fail(r, "%g is out of range, expected %g to %g", v, low, high);
        return low;
    }
    return v;
}

/* A number that is not an integer, or too large for int64_t, is reported with the range instead of as malformed
 * JSON. */
int64_t mr_sim_read_whole(mr_sim_reader *r, int64_t low, int64_t high)
{
    expect_kind(r, '0', "a whole number");
    mr_json before = r->j;
    int64_t v = mr_json_int(&r->j);
    if (r->j.error && !before.error) {
        double wide = mr_json_number(&before);
        if (!before.error) {
            r->j = before;
            mr_sim_reader_fail(r, "%g is not a whole number from %lld to %lld", wide, (long long)low, (long long)high);
        }
    }
    if (v < low || v > high) {
        mr_sim_reader_fail(r, "%lld is out of range, expected %lld to %lld", (long long)v, (long long)low,
                           (long long)high);
        return low;
    }
    return v;
}

const char *mr_sim_read_text(mr_sim_reader *r)
{
    expect_kind(r, '"', "a text");
    mr_str_clear(&r->text);
    mr_json_string(&r->j, &r->text);
    if (r->text.n > MAX_TEXT)
        mr_sim_reader_fail(r, "the text is too long: %zu bytes", r->text.n);
    return r->j.error ? "" : mr_arena_strdup(r->arena, mr_str_z(&r->text));
}

mr_sv mr_sim_word(const char *words, int i)
{
    mr_sv rest = mr_sv_of(words), word;
    while (mr_sv_cut(&rest, ' ', &word))
        if (i-- == 0)
            return word;
    return (mr_sv){NULL, 0};
}

int mr_sim_read_word(mr_sim_reader *r, const char *words)
{
    mr_sv text = mr_sv_of(mr_sim_read_text(r)), word;
    for (int i = 0; (word = mr_sim_word(words, i)).p; i++)
        if (mr_sv_eq(word, text))
            return i;
    mr_sim_reader_fail(r, "'%.*s' is invalid, expected one of: %s", (int)MR_MIN(text.n, 100), text.p, words);
    return 0;
}

static bool read_flag(mr_sim_reader *r)
{
    char c = mr_json_peek(&r->j);
    if (c != 't' && c != 'f')
        expect_kind(r, 't', "true or false");
    return mr_json_bool(&r->j);
}

/* ---- objects and lists ---- */

static void read_field(mr_sim_reader *r, const mr_sim_field *f, void *object)
{
    char *to = (char *)object + f->at;
    switch (f->kind) {
    case MR_SIM_NUMBER: *(double *)to = mr_sim_read_number(r, f->low, f->high) * (f->unit > 0 ? f->unit : 1); break;
    case MR_SIM_WHOLE: *(int64_t *)to = mr_sim_read_whole(r, (int64_t)f->low, (int64_t)f->high); break;
    case MR_SIM_FLAG: *(bool *)to = read_flag(r); break;
    case MR_SIM_TEXT: *(const char **)to = mr_sim_read_text(r); break;
    case MR_SIM_WORD: *(int *)to = mr_sim_read_word(r, f->words); break;
    case MR_SIM_OTHER: f->read(r, object); break;
    }
}

void mr_sim_object_init(const mr_sim_field *fields, void *object)
{
    for (const mr_sim_field *f = fields; f->key; f++) {
        char *to = (char *)object + f->at;
        switch (f->kind) {
        case MR_SIM_NUMBER: *(double *)to = f->usual * (f->unit > 0 ? f->unit : 1); break;
        case MR_SIM_WHOLE: *(int64_t *)to = isnan(f->usual) ? 0 : (int64_t)f->usual; break;
        case MR_SIM_FLAG: *(bool *)to = f->usual != 0; break;
        case MR_SIM_WORD: *(int *)to = (int)f->usual; break;
        case MR_SIM_TEXT: *(const char **)to = NULL; break;
        case MR_SIM_OTHER: break;
        }
    }
}

static int find_field(const mr_sim_field *fields, const char *key)
{
    for (int i = 0; fields[i].key; i++)
        if (strcmp(fields[i].key, key) == 0)
            return i;
    return -1;
}

void mr_sim_put_known(mr_sv written, const char *const *words, int n, mr_str *out)
{
    const char *meant = mr_nearest(written, words, n);
    if (meant)
        mr_str_printf(out, " (did you mean '%s'?)", meant);
    mr_str_appendz(out, n ? "; expected one of " : "");
    for (int i = 0; i < n; i++)
        mr_str_printf(out, "%s%s", i ? ", " : "", words[i]);
}

static void refuse_key(mr_sim_reader *r, const mr_sim_field *fields, mr_sv key)
{
    const char *words[MAX_FIELDS];
    mr_str known = {0};
    int n = 0;
    for (; fields[n].key; n++)
        words[n] = fields[n].key;
    mr_sim_put_known(key, words, n, &known);
    mr_sim_reader_fail(r, "unknown key%s", mr_str_z(&known));
    mr_str_deinit(&known);
}

/* Keys may come in any order, but each only once. The path of the reader names the key while its value is read. */
void mr_sim_read_object(mr_sim_reader *r, const mr_sim_field *fields, void *object,
                        bool (*other)(mr_sim_reader *r, void *object, mr_sv key))
{
    mr_str key = {0};
    bool seen[MAX_FIELDS] = {false};
    expect_kind(r, '{', "an object");
    mr_json_begin(&r->j, '{');
    while (mr_json_key(&r->j, &key)) {
        size_t at = enter_key(r, mr_str_z(&key));
        int i = find_field(fields, mr_str_z(&key));
        MR_ASSERT(i < MAX_FIELDS);
        if (i >= 0 && seen[i])
            mr_sim_reader_fail(r, "given twice");
        else if (i >= 0)
            read_field(r, &fields[i], object);
        else if (!other || !other(r, object, mr_str_view(&key)))
            refuse_key(r, fields, mr_str_view(&key));
        if (i >= 0)
            seen[i] = true;
        leave_path(r, at);
    }
    mr_str_deinit(&key);
}

void mr_sim_read_list(mr_sim_reader *r, int most, void *arg, void (*element)(mr_sim_reader *r, void *arg))
{
    expect_kind(r, '[', "a list");
    mr_json_begin(&r->j, '[');
    for (int i = 0; mr_json_more(&r->j); i++) {
        size_t at = enter_index(r, i);
        if (i >= most)
            mr_sim_reader_fail(r, "too many elements, at most %d are allowed", most);
        else
            element(r, arg);
        leave_path(r, at);
    }
}

/* ---- documentation ---- */

static void print_usual(const mr_sim_field *f, mr_str *out)
{
    if (f->kind == MR_SIM_TEXT || f->kind == MR_SIM_OTHER || isnan(f->usual))
        return;
    if (f->kind == MR_SIM_FLAG)
        mr_str_appendz(out, f->usual != 0 ? "true" : "false");
    else if (f->kind == MR_SIM_WORD)
        mr_str_printf(out, "%.*s", MR_SV_ARG(mr_sim_word(f->words, (int)f->usual)));
    else if (f->kind == MR_SIM_WHOLE)
        mr_str_printf(out, "%.0f", f->usual);
    else
        mr_str_printf(out, "%g", f->usual);
}

static void print_type(const mr_sim_field *f, mr_str *out)
{
    switch (f->kind) {
    case MR_SIM_NUMBER: mr_str_printf(out, "number, %g to %g", f->low, f->high); break;
    case MR_SIM_WHOLE: mr_str_printf(out, "whole, %.0f to %.0f", f->low, f->high); break;
    case MR_SIM_FLAG: mr_str_appendz(out, "true or false"); break;
    case MR_SIM_TEXT: mr_str_appendz(out, "text"); break;
    case MR_SIM_WORD: mr_str_printf(out, "%s", f->words); break;
    case MR_SIM_OTHER: mr_str_appendz(out, f->words ? f->words : "object"); break;
    }
}

void mr_sim_print_fields(const mr_sim_field *fields, const char *prefix, mr_str *out)
{
    for (const mr_sim_field *f = fields; f->key; f++) {
        mr_str_printf(out, "| `%s%s` | ", prefix, f->key);
        print_type(f, out);
        mr_str_appendz(out, " | ");
        print_usual(f, out);
        mr_str_printf(out, " | %s |\n", f->about);
    }
}
