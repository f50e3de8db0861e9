/* tests/fuzz/example.c -- mutated Examples and SequenceExamples parsed to columns, and Examples as JSON.
 *
 * Results have the shapes of their form; indices and splits are in range. Accepted JSON becomes a message that protobuf
 * accepts. */
#include "base/memory.h"
#include "proto/event.pb-c.h"
#include "store/example.h"
#include "store/example_json.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/pb_tree.h"
#include "wire/message.h"

enum { PLAIN, SEQUENCES, JSON, N_COUNTS, MOST_EXAMPLES = 4, MOST_FEATURES = 5 };

static const char *const example_seeds[] = {
    ("features { feature { key: 'f' value { float_list { value: 1 value: 2 } } } feature { key: 'i' value { "
    "int64_list { value: 3 value: -4 } } } feature { key: 's' value { bytes_list { value: 'x' value: 'yz' } } } }"),
    "features { feature { key: 'f' value { float_list { value: 5 } } } feature { key: 'g' value { } } }",
    "features { feature { key: 'i' value { int64_list { value: 300 } } } }",
    "",
};
static const char *const sequence_seeds[] = {
    ("context { feature { key: 'f' value { float_list { value: 1 value: 2 } } } feature { key: 'i' value { "
    "int64_list { value: 3 } } } } feature_lists { feature_list { key: 'f' value { feature { float_list { "
    "value: 1 value: 2 } } feature { float_list { value: 3 value: 4 } } } } feature_list { key: 'i' value { "
    "feature { int64_list { value: 1 } } feature { } } } feature_list { key: 's' value { feature { bytes_list { "
    "value: 'a' } } } } }"),
    ("context { feature { key: 's' value { bytes_list { value: 'w' } } } } feature_lists { feature_list { key: "
    "'f' value { } } }"),
    "",
};
static const char *const json_seeds[] = {
    ("{\"features\":{\"feature\":{\"a\":{\"floatList\":{\"value\":[1,2.5,\"NaN\",\"-Infinity\",\"Infinity\",\"3\"]}},"
    "\"b\":{\"int64_list\":{\"value\":[1,\"-2\"]}},\"c\":{\"bytesList\":{\"value\":[\"YWJj\",\"eA==\",\"-_+/\"]}}}}}"),
    "{\"features\":{\"feature\":{\"a\":{\"bytes_list\":null},\"b\":{\"float_list\":{\"value\":null}}}}}",
    "{\"features\":null}",
    "{}",
};
static mr_str examples[MR_COUNT(example_seeds)], sequences[MR_COUNT(sequence_seeds)];

static void prepare(void)
{
    for (int i = 0; i < MR_COUNT(examples); i++)
        if (!examples[i].p)
            fuzz_pack_text(&tensorflow__example__descriptor, example_seeds[i], &examples[i]);
    for (int i = 0; i < MR_COUNT(sequences); i++)
        if (!sequences[i].p)
            fuzz_pack_text(&tensorflow__sequence_example__descriptor, sequence_seeds[i], &sequences[i]);
}

/* ---- what is wanted ---- */

typedef struct wish {
    mr_arena arena;
    mr_feature features[MOST_FEATURES];
    mr_tensor *defaults[MOST_FEATURES];
    int n;
} wish;

static const mr_pshape *any_shape(fuzz_rng *r, mr_arena *a)
{
    static const int64_t dims[][2] = {{1, 1}, {2, 1}, {-1, 1}, {-1, 2}, {0, 1}, {2, 2}, {-1, 0}};
    return mr_pshape_of(a, (int)fuzz_below(r, 3), fuzz_pick(r, dims));
}

static void wish_default(fuzz_rng *r, wish *w, mr_feature *f, int i)
{
    int64_t n = 1;
    bool open = f->shape->rank > 0 && f->shape->dims[0] < 0;
    for (int k = 0; k < f->shape->rank && !open; k++)
        n *= f->shape->dims[k];
    if (fuzz_once_in(r, 3))
        n = (int64_t)fuzz_below(r, 3);
    fuzz_must(mr_tensor_zeros(NULL, f->dtype, 1, &n, &w->defaults[i]), "a default");
    f->fallback = w->defaults[i];
}

static void wish_init(fuzz_rng *r, wish *w)
{
    static const char *const keys[] = {"f", "i", "s", "g", "none"};
    static const mr_dtype natural[] = {MR_FLOAT, MR_INT64, MR_STRING, MR_FLOAT, MR_INT64};
    *w = (wish){.n = (int)fuzz_below(r, MOST_FEATURES + 1)};
    mr_arena_init(&w->arena, 0);
    for (int i = 0; i < w->n; i++) {
        int k = fuzz_once_in(r, 30) ? 0 : i;
        mr_feature *f = &w->features[i];
        f->key = mr_sv_of(keys[k]);
        f->form = (mr_feature_form)fuzz_below(r, 3);
        f->dtype = fuzz_once_in(r, 20) ? fuzz_pick(r, natural) : natural[k];
        f->splits = fuzz_once_in(r, 2) ? MR_INT32 : MR_INT64;
        if (f->form != MR_FEATURE_DENSE)
            continue;
        f->shape = any_shape(r, &w->arena);
        f->missing_is_empty = fuzz_once_in(r, 2);
        if (!fuzz_once_in(r, 5))
            wish_default(r, w, f, i);
    }
}

static void wish_deinit(wish *w)
{
    for (int i = 0; i < w->n; i++)
        mr_tensor_unref(w->defaults[i]);
    mr_arena_deinit(&w->arena);
}

/* ---- what comes out ---- */

static void check_sparse(const mr_feature_result *o, int rank)
{
    const int64_t *shape = MR_DATA(int64_t, o->shape), *index = MR_DATA(int64_t, o->indices);
    if (o->shape->n != rank || o->indices->dims[0] != o->values->n || o->indices->dims[1] != rank)
        fuzz_fail("a sparse result has inconsistent shapes");
    for (int64_t i = 0; i < o->indices->n; i++)
        if (index[i] < 0 || index[i] >= shape[i % rank])
            fuzz_fail("index %lld is out of range", (long long)index[i]);
}

static int64_t split_at(const mr_tensor *t, int64_t i) { return mr_tensor_int_at(t, i); }

static void check_splits(const mr_tensor *t, int64_t n)
{
    for (int64_t i = 1; i < t->n; i++)
        if (split_at(t, i) < split_at(t, i - 1))
            fuzz_fail("splits are not ascending");
    if (t->rank == 1 && t->n > 0 && (split_at(t, 0) != 0 || split_at(t, t->n - 1) != n))
        fuzz_fail("splits do not cover the values");
}

static void check_results(const wish *w, const mr_feature_result *o, bool batch, bool lists)
{
    for (int i = 0; i < w->n; i++) {
        if (!o[i].values || (mr_dtype)o[i].values->dtype != w->features[i].dtype)
            fuzz_fail("feature %d has no values, or values of another type", i);
        if (w->features[i].form == MR_FEATURE_SPARSE)
            check_sparse(&o[i], 1 + batch + lists);
        if (w->features[i].form == MR_FEATURE_RAGGED)
            check_splits(o[i].splits, o[i].values->n);
        if (o[i].outer_splits)
            check_splits(o[i].outer_splits, o[i].splits->n - 1);
    }
}

/* ---- runs ---- */

static mr_tensor *as_tensor(mr_sv *all, int n, bool batch)
{
    mr_tensor *t;
    fuzz_must(mr_tensor_new(NULL, MR_STRING, batch, &(int64_t){n}, &t), "strings");
    for (int64_t i = 0; i < t->n; i++)
        fuzz_must(mr_tensor_set_str(t, i, all[i]), "a string");
    return t;
}

static void try_examples(fuzz_run *r, mr_sv *all, int n, bool of_sequences)
{
    bool batch = n != 1 || fuzz_once_in(&r->rng, 2);
    wish a, b;
    mr_feature_result out_a[MOST_FEATURES] = {0}, out_b[MOST_FEATURES] = {0};
    mr_tensor *t = as_tensor(all, n, batch);
    mr_examples x = {.serialized = t, .names = fuzz_once_in(&r->rng, 2) ? t : NULL};
    wish_init(&r->rng, &a);
    wish_init(&r->rng, &b);
    mr_status *st = of_sequences
                        ? mr_sequences_parse(&x, a.features, a.n, b.features, b.n, out_a, out_b)
                        : mr_examples_parse(&x, a.features, a.n, out_a);
    fuzz_say(r, "%d examples: %s", n, mr_status_message(st));
    if (!st)
        check_results(&a, out_a, batch, false);
    if (!st && of_sequences)
        check_results(&b, out_b, batch, true);
    r->counts[of_sequences ? SEQUENCES : PLAIN] += !st;
    mr_feature_results_free(out_a, MOST_FEATURES);
    mr_feature_results_free(out_b, MOST_FEATURES);
    wish_deinit(&a);
    wish_deinit(&b);
    mr_status_free(st);
    mr_tensor_unref(t);
}

static void mutate(fuzz_rng *r, bool of_sequences, mr_str *out)
{
    const ProtobufCMessageDescriptor *d = of_sequences ? &tensorflow__sequence_example__descriptor
                                                       : &tensorflow__example__descriptor;
    const mr_str *from = of_sequences ? &fuzz_pick(r, sequences) : &fuzz_pick(r, examples);
    fuzz_tree t;
    fuzz_tree_parse(&t, d, mr_str_view(from));
    for (uint64_t k = fuzz_once_in(r, 2) ? 0 : fuzz_below(r, 4); k > 0; k--)
        fuzz_tree_change(r, &t, NULL, NULL);
    fuzz_tree_write(&t, out);
    fuzz_tree_deinit(&t);
    if (fuzz_once_in(r, 20))
        fuzz_damage(r, out);
}

static void run_messages(fuzz_run *r, bool of_sequences)
{
    mr_str bytes[MOST_EXAMPLES] = {0};
    mr_sv all[MOST_EXAMPLES];
    int n = (int)fuzz_below(&r->rng, MOST_EXAMPLES + 1);
    for (int i = 0; i < n; i++) {
        mutate(&r->rng, of_sequences, &bytes[i]);
        all[i] = mr_str_view(&bytes[i]);
    }
    fuzz_note(r, n ? all[0] : MR_SV(""));
    try_examples(r, all, n, of_sequences);
    for (int i = 0; i < n; i++)
        mr_str_deinit(&bytes[i]);
}

static void try_json(fuzz_run *r, mr_sv text)
{
    mr_str out = {0};
    ProtobufCMessage *m = NULL;
    mr_sv exact = fuzz_exact(text);
    mr_status *st = mr_example_from_json(exact, &out);
    fuzz_say(r, "%.*s: %s", MR_SV_ARG(text), mr_status_message(st));
    if (!st)
        fuzz_must(mr_message_unpack(&tensorflow__example__descriptor, mr_str_view(&out), "Example", &m),
                  "what JSON became");
    mr_message_free(m);
    r->counts[JSON] += !st;
    mr_status_free(st);
    mr_str_deinit(&out);
    mr_free((void *)(uintptr_t)exact.p);
}

static void run_json(fuzz_run *r)
{
    mr_str text = {0};
    mr_str_appendz(&text, fuzz_pick(&r->rng, json_seeds));
    for (uint64_t k = fuzz_below(&r->rng, 3); k > 0; k--)
        fuzz_damage(&r->rng, &text);
    fuzz_note(r, mr_str_view(&text));
    try_json(r, mr_str_view(&text));
    mr_str_deinit(&text);
}

static void run(fuzz_run *r)
{
    if (r->number % 3 == 2)
        run_json(r);
    else
        run_messages(r, r->number % 3 == 1);
}

static void replay(fuzz_run *r, mr_sv input)
{
    try_json(r, input);
    for (int i = 0; i < 50; i++)
        try_examples(r, &input, 1, i % 2);
}

static int64_t n_runs(void) { return 1000000; }
static int n_counts(void) { return N_COUNTS; }

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    static const char *const names[] = {"examples", "sequences", "json"};
    return fuzz_shares("example", names, counts, N_COUNTS, runs, N_COUNTS, out, err);
}

const fuzz_target fuzz_example = {.name = "example",
                                  .about = "Examples and SequenceExamples, parsed; Examples as JSON",
                                  .prepare = prepare,
                                  .n_runs = n_runs,
                                  .n_counts = n_counts,
                                  .run = run,
                                  .replay = replay,
                                  .summary = summary};
