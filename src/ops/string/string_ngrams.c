/* ops/string/string_ngrams.c -- StringNGrams: joins neighbouring words of each row of a ragged tensor.
 *
 * Each row is extended by pad_width padding words at each end (by width - 1 if pad_width is negative).
 * Short rows may be kept as one n-gram of all their words. */
#include "base/memory.h"
#include "graph/infer.h"
#include "ops/string/strings.h"

/* The limit of the words in all n-grams of a row.  A few words with a very large width would give n-grams that are
 * mostly padding: time and memory would grow with the square of the width. */
#define MAX_WORDS ((int64_t)1 << 30)

typedef struct grams {
    mr_str separator, left, right;
    int64_t *widths;
    int n_widths;
    int64_t pad_width;
    bool preserve_short;
} grams;

static mr_status *read_text(const mr_node *n, const char *name, mr_str *out)
{
    mr_sv v;
    MR_TRY(mr_node_get_str(n, name, &v));
    mr_str_append(out, v.p, v.n);
    return NULL;
}

static mr_status *init_grams(mr_make *m, void *p)
{
    grams *g = p;
    const mr_attr *widths = mr_node_attr(m->node, "ngram_widths");
    MR_TRY(read_text(m->node, "separator", &g->separator));
    MR_TRY(read_text(m->node, "left_pad", &g->left));
    MR_TRY(read_text(m->node, "right_pad", &g->right));
    MR_TRY(mr_node_get_int(m->node, "pad_width", &g->pad_width));
    MR_TRY(mr_node_get_bool(m->node, "preserve_short_sequences", &g->preserve_short));
    g->n_widths = widths ? widths->n : 0;
    g->widths = mr_new_array(int64_t, g->n_widths + 1);
    for (int i = 0; i < g->n_widths; i++) {
        g->widths[i] = widths->is[i];
        if (g->widths[i] <= 0)
            return mr_invalid("ngram_widths must contain positive values");
    }
    return NULL;
}

static void deinit_grams(void *p)
{
    grams *g = p;
    mr_str_deinit(&g->separator);
    mr_str_deinit(&g->left);
    mr_str_deinit(&g->right);
    mr_free(g->widths);
}

/* Padding beyond width - 1 would only give n-grams without words. */
static int64_t padding_of(const grams *g, int64_t width)
{
    return MR_MIN(g->pad_width < 0 ? width - 1 : g->pad_width, width - 1);
}

/* How many n-grams of one width a row of n words has; false if the number overflows. */
static bool count_grams(const grams *g, int64_t n, int64_t width, int64_t *out)
{
    int64_t pad, all;
    if (!mr_i64_mul(padding_of(g, width), 2, &pad) || !mr_i64_add(n, pad, &all))
        return false;
    *out = all >= width ? all - width + 1 : 0;
    return true;
}

/* Counts all n-grams of a row; *kept is the width of the n-gram that a short row becomes, or 0. */
static mr_status *count_row(const grams *g, int64_t n, int64_t *out, int64_t *kept)
{
    int64_t total = 0, here, words;
    *kept = 0;
    for (int i = 0; i < g->n_widths; i++) {
        if (!count_grams(g, n, g->widths[i], &here) || !mr_i64_add(total, here, &total))
            return mr_invalid("a row of %lld words has too many n-grams", (long long)n);
        if (!mr_i64_mul(here, g->widths[i], &words) || words > MAX_WORDS)
            return mr_error(MR_RESOURCE_EXHAUSTED, "%lld n-grams of %lld words need too much memory",
                            (long long)here, (long long)g->widths[i]);
    }
    if (g->preserve_short && total == 0 && n > 0) {
        /* All the words and all the padding, which together are fewer than the smallest width. */
        if (g->pad_width > (INT64_MAX - n) / 2)
            return mr_invalid("pad_width is too large: %lld", (long long)g->pad_width);
        *kept = n + 2 * MR_MAX(g->pad_width, 0);
        if (*kept > MAX_WORDS)
            return mr_error(MR_RESOURCE_EXHAUSTED, "an n-gram of %lld words needs too much memory", (long long)*kept);
        total = 1;
    }
    *out = total;
    return NULL;
}

typedef struct row {
    const mr_tensor *data;
    int64_t from, n;
} row;

static mr_sv word_at(const grams *g, const row *w, int64_t i)
{
    return i < 0 ? mr_str_view(&g->left)
           : i >= w->n ? mr_str_view(&g->right)
                       : mr_tensor_str_at(w->data, w->from + i);
}

/* Joins `width` words from word `i` on, some of which may be padding. */
static mr_status *join_words(const grams *g, const row *w, int64_t i, int64_t width, mr_str *s)
{
    mr_str_clear(s);
    for (int64_t k = 0; k < width; k++) {
        mr_sv part = word_at(g, w, i + k);
        if (k > 0)
            MR_TRY(mr_string_add(s, g->separator.p, g->separator.n));
        MR_TRY(mr_string_add(s, part.p, part.n));
    }
    return NULL;
}

static mr_status *fill_row(const grams *g, const row *w, int64_t kept, mr_tensor *out, int64_t *at,
                           mr_str *s)
{
    if (kept > 0) {
        MR_TRY(join_words(g, w, -MR_MAX(g->pad_width, 0), kept, s));
        return mr_tensor_set_str(out, (*at)++, mr_str_view(s));
    }
    for (int i = 0; i < g->n_widths; i++) {
        int64_t n = 0, width = g->widths[i];
        if (!count_grams(g, w->n, width, &n))
            return mr_invalid("a row of %lld words has too many n-grams", (long long)w->n);
        for (int64_t k = 0; k < n; k++) {
            MR_TRY(join_words(g, w, k - padding_of(g, width), width, s));
            MR_TRY(mr_tensor_set_str(out, (*at)++, mr_str_view(s)));
        }
    }
    return NULL;
}

static mr_status *check_splits(const mr_tensor *splits, const mr_tensor *data)
{
    int64_t last = 0;
    if (splits->n == 0)
        return NULL;
    if (mr_tensor_int_at(splits, 0) != 0)
        return mr_invalid("First split value must be 0, got %lld",
                          (long long)mr_tensor_int_at(splits, 0));
    for (int64_t i = 1; i < splits->n; i++) {
        int64_t v = mr_tensor_int_at(splits, i);
        if (v < last || v > data->n)
            return mr_invalid("Invalid split value %lld, must be in [%lld, %lld]", (long long)v,
                              (long long)last, (long long)data->n);
        last = v;
    }
    return last == data->n ? NULL
                           : mr_invalid("Last split value must be data size. Expected %lld, got %lld",
                                        (long long)data->n, (long long)last);
}

static void put_split(mr_tensor *t, int64_t i, int64_t v)
{
    if (t->dtype == MR_INT32)
        MR_DATA(int32_t, t)[i] = (int32_t)v;
    else
        MR_DATA(int64_t, t)[i] = v;
}

static mr_status *count_all(const grams *g, const mr_tensor *splits, mr_tensor *out, int64_t *total)
{
    int64_t n, kept;
    put_split(out, 0, 0);
    for (int64_t i = 1; i < splits->n; i++) {
        MR_TRY(count_row(g, mr_tensor_int_at(splits, i) - mr_tensor_int_at(splits, i - 1), &n,
                         &kept));
        if (!mr_i64_add(*total, n, total) || (out->dtype == MR_INT32 && *total > INT32_MAX))
            return mr_invalid("the number of n-grams does not fit the type of the splits");
        put_split(out, i, *total);
    }
    return NULL;
}

static mr_status *run_ngrams(mr_run *r)
{
    const grams *g = r->state;
    const mr_tensor *data = mr_in(r, 0), *splits = mr_in(r, 1);
    mr_tensor *out, *out_splits;
    int64_t total = 0, at = 0, n, kept;
    mr_str s = {0};
    mr_status *st = NULL;
    if (data->rank != 1 || splits->rank != 1)
        return mr_invalid("data and data_splits must be vectors, got shapes %s and %s",
                          MR_TENSOR_SHAPE(data), MR_TENSOR_SHAPE(splits));
    MR_TRY(check_splits(splits, data));
    MR_TRY(mr_run_output(r, 1, 1, splits->dims, &out_splits));
    if (splits->n > 0)
        MR_TRY(count_all(g, splits, out_splits, &total));
    MR_TRY(mr_run_output(r, 0, 1, &total, &out));
    for (int64_t i = 1; i < splits->n; i++) {
        row w = {data, mr_tensor_int_at(splits, i - 1), 0};
        w.n = mr_tensor_int_at(splits, i) - w.from;
        MR_GO(count_row(g, w.n, &n, &kept));
        MR_GO(fill_row(g, &w, kept, out, &at, &s));
    }
out:
    mr_str_deinit(&s);
    return st;
}

static mr_status *ngrams_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    mr_infer_out_vector(c, 0, -1);
    MR_TRY(mr_infer_rank(c, c->in[0], 1, &ignored));
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &c->out[1]));
    return NULL;
}

#define PLAIN "separator=\" \" left_pad=\"L\" right_pad=\"R\" preserve_short_sequences=false "
MR_OP(StringNGrams,
    .doc      = "joins the words of each row with their neighbours, for every width",
    .sig      = "data: string, data_splits: Tsplits -> ngrams: string, ngrams_splits: Tsplits",
    .attrs    = "separator: string; ngram_widths: list(int) >= 0; left_pad: string; "
                "right_pad: string; pad_width: int; preserve_short_sequences: bool; "
                "Tsplits: {int32, int64} = DT_INT64",
    .flags    = MR_NO_GRADIENT,
    .shape    = ngrams_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_ngrams, MR_INDEXES)),
    .state_bytes = sizeof(grams), .init = init_grams, .deinit = deinit_grams,
    .examples = MR_EXAMPLES(
        PLAIN "ngram_widths=[2] pad_width=0: [\"a\", \"b\", \"c\", \"d\"], [0, 3, 4] -> "
              "[\"a b\", \"b c\"], [0, 2, 2]",
        PLAIN "ngram_widths=[3] pad_width=-1: [\"a\", \"b\"], [0, 2] -> "
              "[\"L L a\", \"L a b\", \"a b R\", \"b R R\"], [0, 4]",
        PLAIN "ngram_widths=[1, 2] pad_width=1: [\"a\", \"b\"], [0, 2] -> "
              "[\"a\", \"b\", \"L a\", \"a b\", \"b R\"], [0, 5]",
        "separator=\"-\" left_pad=\"\" right_pad=\"\" preserve_short_sequences=true ngram_widths=[3] "
        "pad_width=0: [\"a\", \"b\", \"c\"], [0, 1, 3, 3] -> [\"a\", \"b-c\"], [0, 1, 2, 2]",
        PLAIN "ngram_widths=[] pad_width=0: [\"a\"], [0, 1] -> shape(0), [0, 0]",
        PLAIN "ngram_widths=[2] pad_width=0: shape(0), shape(0) -> shape(0), shape(0)",
        PLAIN "ngram_widths=[2] pad_width=0: [\"a\"], [0, 2] -> !INVALID_ARGUMENT Invalid split value",
        PLAIN "ngram_widths=[2] pad_width=0: [\"a\"], [1, 1] -> !INVALID_ARGUMENT First split value",
        PLAIN "ngram_widths=[2] pad_width=0: [\"a\"], [0, 0] -> !INVALID_ARGUMENT Last split value",
        PLAIN "ngram_widths=[0] pad_width=0: [\"a\"], [0, 1] -> !INVALID_ARGUMENT must contain "
              "positive values"));
