/* ops/string/string_split.c -- StringSplit and StringSplitV2: split strings into words, as a sparse matrix
 * with a row per string.
 *
 * The older form splits at each byte of a set, or after every byte if the set is empty.  The newer one
 * splits at a whole string, or at runs of white space if that is empty, as Python's split does. */
#include "graph/infer.h"
#include "ops/string/strings.h"
#include "base/vec.h"

typedef struct words { /* the words of all strings, concatenated */
    mr_sv *p;
    int64_t *row;
    size_t n, cap;
    int64_t at; /* the string that is being split */
} words;

static mr_status *add_word(words *w, const char *p, size_t n)
{
    if (w->n == w->cap) {
        size_t cap = w->cap ? w->cap * 2 : 64;
        mr_sv *views = mr_try_realloc(w->p, cap * sizeof *views);
        w->p = views ? views : w->p;
        int64_t *rows = views ? mr_try_realloc(w->row, cap * sizeof *rows) : NULL;
        w->row = rows ? rows : w->row;
        MR_TRY(mr_string_room(rows != NULL));
        w->cap = cap;
    }
    w->p[w->n] = (mr_sv){p, n};
    w->row[w->n++] = w->at;
    return NULL;
}

static void free_words(words *w)
{
    mr_free(w->p);
    mr_free(w->row);
}

/* ---- the three outputs ---- */

static mr_status *give_words(mr_run *r, const words *w, int64_t rows)
{
    mr_tensor *indices, *values, *shape;
    int64_t column = 0, widest = 0;
    MR_TRY(mr_run_output(r, 0, 2, (int64_t[]){(int64_t)w->n, 2}, &indices));
    MR_TRY(mr_run_output(r, 1, 1, (int64_t[]){(int64_t)w->n}, &values));
    MR_TRY(mr_run_output(r, 2, 1, (int64_t[]){2}, &shape));
    for (size_t i = 0; i < w->n; i++) {
        column = i > 0 && w->row[i] == w->row[i - 1] ? column + 1 : 0;
        widest = MR_MAX(widest, column + 1);
        MR_DATA(int64_t, indices)[2 * i] = w->row[i];
        MR_DATA(int64_t, indices)[2 * i + 1] = column;
        MR_TRY(mr_tensor_set_str(values, (int64_t)i, w->p[i]));
    }
    MR_DATA(int64_t, shape)[0] = rows;
    MR_DATA(int64_t, shape)[1] = widest;
    return NULL;
}

typedef mr_status *(*cut_fn)(words *w, mr_sv s, mr_sv sep, const void *state);

static mr_status *split_strings(mr_run *r, const char *sep_name, cut_fn cut)
{
    const mr_tensor *in = mr_in(r, 0), *sep = mr_in(r, 1);
    words w = {0};
    mr_status *st = NULL;
    if (in->rank != 1)
        return mr_invalid("input must be a vector, got shape: %s", MR_TENSOR_SHAPE(in));
    if (sep->rank != 0)
        return mr_invalid("%s must be a scalar, got shape: %s", sep_name, MR_TENSOR_SHAPE(sep));
    for (w.at = 0; w.at < in->n; w.at++)
        MR_GO(cut(&w, mr_tensor_str_at(in, w.at), mr_tensor_str_at(sep, 0), r->state));
    MR_GO(give_words(r, &w, in->n));
out:
    free_words(&w);
    return st;
}

static mr_status *split_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    MR_TRY(mr_infer_rank(c, c->in[0], 1, &ignored));
    MR_TRY(mr_infer_rank(c, c->in[1], 0, &ignored));
    c->out[0] = mr_pshape_matrix(c->arena, -1, 2);
    mr_infer_out_vector(c, 1, -1);
    mr_infer_out_vector(c, 2, 2);
    return NULL;
}

/* ---- at bytes of a set ---- */

static mr_status *cut_at_bytes(words *w, mr_sv s, mr_sv set, const void *state)
{
    bool skip_empty = *(const bool *)state;
    size_t start = 0;
    if (set.n == 0) {
        for (size_t i = 0; i < s.n; i++)
            MR_TRY(add_word(w, s.p + i, 1));
        return NULL;
    }
    for (size_t i = 0; i <= s.n && s.n > 0; i++) {
        if (i < s.n && !memchr(set.p, s.p[i], set.n))
            continue;
        if (i > start || !skip_empty)
            MR_TRY(add_word(w, s.p + start, i - start));
        start = i + 1;
    }
    return s.n == 0 && !skip_empty ? add_word(w, "", 0) : NULL;
}

static mr_status *init_split(mr_make *m, void *p)
{
    return mr_node_get_bool(m->node, "skip_empty", p);
}

static mr_status *run_split(mr_run *r) { return split_strings(r, "delimiter", cut_at_bytes); }

MR_OP(StringSplit,
    .doc      = "the parts of each string between delimiters, of one byte each",
    .sig      = "input: string, delimiter: string -> indices: int64, values: string, shape: int64",
    .attrs    = "skip_empty: bool = true",
    .flags    = MR_NO_GRADIENT,
    .shape    = split_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_split)),
    .state_bytes = sizeof(bool), .init = init_split,
    .examples = MR_EXAMPLES(
        "[\"hello world\", \"a b c\"], \" \" -> [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2]], "
        "[\"hello\", \"world\", \"a\", \"b\", \"c\"], [2, 3]",
        "[\"a,b;c,,\"], \",;\" -> [[0, 0], [0, 1], [0, 2]], [\"a\", \"b\", \"c\"], [1, 3]",
        "skip_empty=false: [\"a,,b\", \"\"], \",\" -> [[0, 0], [0, 1], [0, 2], [1, 0]], "
        "[\"a\", \"\", \"b\", \"\"], [2, 3]",
        "[\"abc\", \"\"], \"\" -> [[0, 0], [0, 1], [0, 2]], [\"a\", \"b\", \"c\"], [2, 3]",
        "shape(0), \" \" -> shape(0,2), shape(0), [0, 0]",
        "[\"a\"], [\" \"] -> !INVALID_ARGUMENT must be rank 0",
        "[[\"a\"]], \" \" -> !INVALID_ARGUMENT must be rank 1"));

/* ---- at a string ---- */

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static mr_status *cut_at_spaces(words *w, mr_sv s, int64_t cuts)
{
    for (size_t i = 0;;) {
        while (i < s.n && is_space(s.p[i]))
            i++;
        if (i == s.n)
            return NULL;
        if (cuts == 0) /* the rest is one word, including trailing space */
            return add_word(w, s.p + i, s.n - i);
        size_t start = i;
        while (i < s.n && !is_space(s.p[i]))
            i++;
        MR_TRY(add_word(w, s.p + start, i - start));
        cuts -= cuts > 0;
    }
}

static mr_status *cut_at_string(words *w, mr_sv s, mr_sv sep, const void *state)
{
    int64_t cuts = *(const int64_t *)state;
    if (sep.n == 0)
        return cut_at_spaces(w, s, cuts);
    for (; cuts != 0; cuts -= cuts > 0) { /* a negative number of cuts means no limit */
        const char *at = memmem(s.p, s.n, sep.p, sep.n);
        if (!at)
            break;
        size_t n = (size_t)(at - s.p);
        MR_TRY(add_word(w, s.p, n));
        s = (mr_sv){at + sep.n, s.n - n - sep.n};
    }
    return add_word(w, s.p, s.n);
}

static mr_status *init_split_v2(mr_make *m, void *p)
{
    return mr_node_get_int(m->node, "maxsplit", p);
}

static mr_status *run_split_v2(mr_run *r) { return split_strings(r, "sep", cut_at_string); }

MR_OP(StringSplitV2,
    .doc      = "the parts of each string between separators, as Python's split returns them",
    .sig      = "input: string, sep: string -> indices: int64, values: string, shape: int64",
    .attrs    = "maxsplit: int = -1",
    .flags    = MR_NO_GRADIENT,
    .shape    = split_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_split_v2)),
    .state_bytes = sizeof(int64_t), .init = init_split_v2,
    .examples = MR_EXAMPLES(
        "[\"1<>2<><>3\", \"\"], \"<>\" -> [[0, 0], [0, 1], [0, 2], [0, 3], [1, 0]], "
        "[\"1\", \"2\", \"\", \"3\", \"\"], [2, 4]",
        "[\"  a \\t b\\n\", \" \"], \"\" -> [[0, 0], [0, 1]], [\"a\", \"b\"], [2, 2]",
        "maxsplit=1: [\" a b c \"], \"\" -> [[0, 0], [0, 1]], [\"a\", \"b c \"], [1, 2]",
        "maxsplit=1: [\"a,b,c\"], \",\" -> [[0, 0], [0, 1]], [\"a\", \"b,c\"], [1, 2]",
        "maxsplit=0: [\"a,b\"], \",\" -> [[0, 0]], [\"a,b\"], [1, 1]",
        "shape(0), \",\" -> shape(0,2), shape(0), [0, 0]",
        "\"a\", \",\" -> !INVALID_ARGUMENT must be rank 1"));
