/* ops/random/skipgram.c -- Skipgram: pairs of a word and a neighbour from a text file, for
 * word2vec.
 *
 * Words are numbered by decreasing frequency; rare words are number 0.  The text is read again and
 * again in sentences of a thousand words.  Frequent words are skipped at random (subsampling, equation 5
 * of arXiv:1310.4546), and each word is paired with all neighbours within a random distance. */
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/map.h"
#include "base/memory.h"
#include "graph/infer.h"
#include "ops/random/philox.h"

enum { SENTENCE = 1000, MAX_TRIES = 100000000 };

typedef struct state {
    int64_t batch, window, min_count;
    float subsample;
    mr_tensor *words, *counts; /* by the number of the word */
    int32_t *corpus;
    int64_t corpus_n;
    mr_mutex mu;
    mr_words rng MR_GUARDED_BY(mu);
    int32_t sentence[SENTENCE] MR_GUARDED_BY(mu);
    int64_t at, word, label, label_end MR_GUARDED_BY(mu); /* in the corpus; in the sentence */
    int64_t epoch, processed MR_GUARDED_BY(mu);
} state;

/* ---- the text ---- */

typedef struct vocabulary {
    mr_map ids; /* word -> its index in `entries`, plus 1 */
    struct entry {
        mr_sv word; /* points into the text */
        int64_t count, order;
    } *entries;
    int64_t n, cap;
} vocabulary;

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static bool next_word(mr_sv *text, mr_sv *out)
{
    while (text->n > 0 && is_space(text->p[0]))
        text->p++, text->n--;
    *out = (mr_sv){text->p, 0};
    while (out->n < text->n && !is_space(text->p[out->n]))
        out->n++;
    text->p += out->n;
    text->n -= out->n;
    return out->n > 0;
}

static mr_status *count_words(vocabulary *v, mr_sv text, int64_t *total)
{
    mr_sv word;
    while (next_word(&text, &word)) {
        uintptr_t at = (uintptr_t)mr_map_get(&v->ids, word);
        if (at == 0) {
            if (v->n == v->cap) {
                int64_t cap = v->cap ? 2 * v->cap : 1024;
                struct entry *more = mr_try_realloc(v->entries, sizeof *more * (size_t)cap);
                if (!more)
                    return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld words",
                                    (long long)cap);
                v->entries = more;
                v->cap = cap;
            }
            v->entries[v->n] = (struct entry){word, 0, v->n};
            at = (uintptr_t)++v->n;
            mr_map_put(&v->ids, word, (void *)at);
        }
        v->entries[at - 1].count++;
        ++*total;
    }
    return NULL;
}

/* Frequent words first; equally frequent ones in the order of the text. */
static int by_count(const void *a_, const void *b_)
{
    const struct entry *a = a_, *b = b_;
    return a->count != b->count ? (a->count > b->count ? -1 : 1)
                                : (a->order > b->order) - (a->order < b->order);
}

/* Stores words and counts as tensors: number 0 is "UNK", which stands for all rare words. */
static mr_status *number_words(state *s, vocabulary *v)
{
    int64_t n = 0, counted = 0;
    qsort(v->entries, (size_t)v->n, sizeof *v->entries, by_count);
    while (n < v->n && v->entries[n].count >= s->min_count)
        n++;
    int64_t size = n + 1;
    MR_TRY(mr_tensor_new(NULL, MR_STRING, 1, &size, &s->words));
    MR_TRY(mr_tensor_new(NULL, MR_INT32, 1, &size, &s->counts));
    MR_TRY(mr_tensor_set_str(s->words, 0, mr_sv_of("UNK")));
    for (int64_t i = 0; i < v->n; i++) {
        struct entry *e = &v->entries[i];
        mr_map_put(&v->ids, e->word, (void *)(uintptr_t)(i < n ? i + 1 : 0));
        if (i >= n)
            continue;
        MR_TRY(mr_tensor_set_str(s->words, i + 1, e->word));
        MR_DATA(int32_t, s->counts)[i + 1] = (int32_t)MR_MIN(e->count, INT32_MAX);
        counted += e->count;
    }
    MR_DATA(int32_t, s->counts)[0] = (int32_t)MR_MIN(s->corpus_n - counted, INT32_MAX);
    return NULL;
}

static mr_status *read_corpus(state *s, mr_sv text, const char *name)
{
    mr_status *st = NULL;
    vocabulary v = {.ids = {.borrow_keys = true}};
    MR_GO(count_words(&v, text, &s->corpus_n));
    if (s->corpus_n < s->window * 10)
        MR_GO(mr_invalid("The text file %s contains too little data: %lld words", name,
                         (long long)s->corpus_n));
    MR_GO(number_words(s, &v));
    s->corpus = mr_try_alloc(sizeof(int32_t) * (size_t)s->corpus_n);
    if (!s->corpus)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld words", (long long)s->corpus_n));
    mr_sv word;
    for (int64_t i = 0; next_word(&text, &word); i++)
        s->corpus[i] = (int32_t)(uintptr_t)mr_map_get(&v.ids, word);
out:
    mr_map_deinit(&v.ids);
    mr_free(v.entries);
    return st;
}

static mr_status *read_attrs(const mr_node *n, state *s)
{
    MR_TRY(mr_node_get_int(n, "batch_size", &s->batch));
    MR_TRY(mr_node_get_int(n, "window_size", &s->window));
    MR_TRY(mr_node_get_int(n, "min_count", &s->min_count));
    MR_TRY(mr_node_get_float(n, "subsample", &s->subsample));
    if (s->batch < 0 || s->batch > INT32_MAX || s->window < 1 || s->window > INT32_MAX)
        return mr_invalid("batch_size must not be negative and window_size must be positive, got "
                          "%lld and %lld", (long long)s->batch, (long long)s->window);
    return NULL;
}

static mr_status *init_skipgram(mr_make *m, void *state_)
{
    state *s = state_;
    mr_sv path;
    mr_str text = {0};
    mr_mutex_init(&s->mu);
    MR_TRY(read_attrs(m->node, s));
    MR_TRY(mr_node_get_str(m->node, "filename", &path));
    char *name = mr_strndup(path.p, path.n);
    mr_status *st = mr_file_read_all(name, &text);
    if (!st)
        st = read_corpus(s, (mr_sv){text.p, text.n}, name);
    mr_str_deinit(&text);
    mr_free(name);
    mr_philox p = {{0, 0, (uint32_t)mr_random64(), 0}, {(uint32_t)mr_random64(), 0}};
    s->rng = mr_words_at(p, 0);
    s->at = s->corpus_n;
    s->word = SENTENCE;
    s->epoch = -1;
    return st;
}

static void deinit_skipgram(void *state_)
{
    state *s = state_;
    mr_tensor_unref(s->words);
    mr_tensor_unref(s->counts);
    mr_free(s->corpus);
    mr_mutex_deinit(&s->mu);
}

/* ---- pairs ---- */

static bool keeps_word(state *s, int32_t word) MR_REQUIRES(s->mu)
{
    if (!(s->subsample > 0))
        return true;
    float count = (float)MR_DATA(int32_t, s->counts)[word];
    float share = s->subsample * (float)s->corpus_n;
    float keep = (sqrtf(count / share) + 1) * share / count;
    return mr_philox_float(mr_words_next(&s->rng)) <= keep;
}

static mr_status *next_sentence(state *s) MR_REQUIRES(s->mu)
{
    int64_t tries = 0;
    for (int64_t i = 0; i < SENTENCE; s->at++) {
        if (s->at >= s->corpus_n) {
            s->epoch++;
            s->at = 0;
        }
        if (keeps_word(s, s->corpus[s->at]))
            s->sentence[i++] = s->corpus[s->at];
        if (++tries > MAX_TRIES)
            return mr_invalid("subsample %g keeps almost no word of the corpus", s->subsample);
    }
    return NULL;
}

static mr_status *next_pair(state *s, int32_t *example, int32_t *label) MR_REQUIRES(s->mu)
{
    for (;; s->label++) {
        if (s->label >= s->label_end) {
            s->processed++;
            if (++s->word >= SENTENCE) {
                s->word = 0;
                MR_TRY(next_sentence(s));
            }
            int64_t reach = 1 + mr_words_next(&s->rng) % s->window;
            s->label = MR_MAX(0, s->word - reach);
            s->label_end = MR_MIN(SENTENCE, s->word + reach + 1);
        }
        if (s->word != s->label)
            break;
    }
    *example = s->sentence[s->word];
    *label = s->sentence[s->label++];
    return NULL;
}

static mr_status *fill_batch(mr_run *r, mr_tensor **out)
{
    state *s = r->state;
    mr_status *st = NULL;
    mr_lock(&s->mu);
    for (int64_t i = 0; i < s->batch && !st; i++)
        st = next_pair(s, MR_DATA(int32_t, out[5]) + i, MR_DATA(int32_t, out[6]) + i);
    MR_DATA(int64_t, out[2])[0] = s->corpus_n;
    MR_DATA(int32_t, out[3])[0] = (int32_t)s->epoch;
    MR_DATA(int64_t, out[4])[0] = s->processed;
    mr_unlock(&s->mu);
    return st;
}

static mr_status *run_skipgram(mr_run *r)
{
    const state *s = r->state;
    mr_tensor *out[7];
    for (int i = 2; i < 7; i++)
        MR_TRY(mr_run_output(r, i, i < 5 ? 0 : 1, &s->batch, &out[i]));
    mr_run_set(r, 0, mr_tensor_ref(s->words));
    mr_run_set(r, 1, mr_tensor_ref(s->counts));
    return fill_batch(r, out);
}

static mr_status *infer_skipgram(mr_infer *c)
{
    int64_t batch;
    MR_TRY(mr_node_get_int(c->node, "batch_size", &batch));
    mr_infer_out_vector(c, 0, -1);
    mr_infer_out_vector(c, 1, -1);
    for (int i = 2; i < 5; i++)
        mr_infer_out_scalar(c, i);
    for (int i = 5; i < 7; i++)
        mr_infer_out_vector(c, i, batch < 0 ? -1 : batch);
    return NULL;
}

MR_OP(Skipgram,
    .doc         = "pairs of words that are near each other in a text file",
    .sig         = "-> vocab_word: string, vocab_freq: int32, words_per_epoch: int64, "
                   "current_epoch: int32, total_words_processed: int64, examples: int32, "
                   "labels: int32",
    .attrs       = "filename: string; batch_size: int; window_size: int = 5; min_count: int = 5; "
                   "subsample: float = 0.001",
    .flags       = MR_STATEFUL | MR_NO_GRADIENT,
    .deprecated  = 19,
    .deprecation = "Moving word2vec into tensorflow_models/tutorials and deprecating its ops here "
                   "as a result",
    .shape       = infer_skipgram,
    .kernels     = MR_KERNELS(MR_CPU_ANY(run_skipgram)),
    .state_bytes = sizeof(state),
    .init        = init_skipgram,
    .deinit      = deinit_skipgram,
    .examples    = MR_EXAMPLES(
        "filename=\"no/such\" batch_size=2: -> !NOT_FOUND no/such",
        "filename=\"no/such\" batch_size=2 window_size=0: -> !INVALID_ARGUMENT",
        "filename=\"no/such\" batch_size=-1: -> !INVALID_ARGUMENT"));
