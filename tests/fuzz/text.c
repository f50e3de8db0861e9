/* tests/fuzz/text.c -- mutated texts for every text parser: messages in text format, graphs, and the small languages of
 * names, slices, ops and examples.
 *
 * A text is changed by its words (numbers for numbers, strings for strings, whole blocks in
 * braces), so that much of it still parses, and sometimes by its bytes.  A message that parses must
 * print and parse again to the same message. */
#include <ctype.h>

#include "base/memory.h"
#include "base/vec.h"
#include "graph/graph_def.h"
#include "ops/example.h"
#include "ops/table.h"
#include "proto/config.pb-c.h"
#include "proto/graph.pb-c.h"
#include "run/device.h"
#include "store/slice.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/graphs.h"
#include "tests/fuzz/values.h"
#include "wire/message.h"
#include "wire/number.h"
#include "wire/text_format.h"

enum { MOST_BYTES = 16 << 10 };

/* ---- words ---- */

typedef MR_VEC(mr_sv) word_vec;

/* Splits a text into words: strings, names, numbers, single marks; blanks belong to the word before. */
static void cut(mr_sv text, word_vec *out)
{
    size_t at = 0;
    while (at < text.n) {
        size_t begin = at;
        char c = text.p[at++];
        if (c == '"' || c == '\'') {
            while (at < text.n && text.p[at] != c)
                at += text.p[at] == '\\' ? 2 : 1;
            at = MR_MIN(at + 1, text.n);
        } else if (isalnum((unsigned char)c) || c == '_' || c == '-') {
            while (at < text.n &&
                   (isalnum((unsigned char)text.p[at]) || text.p[at] == '_' || text.p[at] == '.'))
                at++;
        }
        while (at < text.n && isspace((unsigned char)text.p[at]))
            at++;
        mr_vec_push(out, (mr_sv){text.p + begin, at - begin});
    }
}

/* Words of the same kind may replace each other. */
static int kind_of(mr_sv w)
{
    unsigned char c = (unsigned char)w.p[0];
    return c == '"' || c == '\'' ? 1 : isdigit(c) || c == '-' ? 2 : isalpha(c) || c == '_' ? 3 : 4;
}

static mr_sv like(fuzz_rng *r, const word_vec *w, mr_sv word)
{
    for (int tries = 0; tries < 30; tries++) {
        mr_sv other = w->p[fuzz_below(r, (uint64_t)w->n)];
        if (kind_of(other) == kind_of(word))
            return other;
    }
    return word;
}

static mr_sv odd_word(fuzz_rng *r)
{
    static const char *const words[] = {"{ ",
                                        "} ",
                                        "[ ",
                                        "] ",
                                        "< ",
                                        "> ",
                                        ": ",
                                        "; ",
                                        ", ",
                                        "- ",
                                        "inf ",
                                        "nan ",
                                        "-inf ",
                                        "0x1F ",
                                        "017 ",
                                        "1e400 ",
                                        "1f ",
                                        ".5 ",
                                        "-9223372036854775808 ",
                                        "18446744073709551616 ",
                                        "true ",
                                        "\"\\x41\\777\\n\" ",
                                        "'\\' ",
                                        "\" ",
                                        "# comment\n",
                                        "#",
                                        "\"\\u00e9\\U0010ffff\" ",
                                        "[ 1, 2, 3 ] ",
                                        "node { name: 'z' op: 'NoOp' } ",
                                        "? ",
                                        "$T ",
                                        "shape(2,0) ",
                                        "iota(3) ",
                                        "fill(1, 2) ",
                                        "DT_FLOAT ",
                                        "^",
                                        "/",
                                        "/cpu:0",
                                        "0,2:-",
                                        "\xff",
                                        "-> ",
                                        "!",
                                        ""};
    return mr_sv_of(fuzz_pick(r, words));
}

static void put(word_vec *w, int at, mr_sv word)
{
    mr_vec_push(w, word);
    for (int i = w->n - 1; i > at; i--)
        w->p[i] = w->p[i - 1];
    w->p[at] = word;
}

static void drop(word_vec *w, int at, int n)
{
    for (int i = at; i + n < w->n; i++)
        w->p[i] = w->p[i + n];
    w->n -= n;
}

/* Words from `at` up to its closing brace. */
static int block_length(const word_vec *w, int at)
{
    int depth = 0;
    for (int i = at; i < w->n; i++) {
        char c = w->p[i].p[0];
        depth += (c == '{') - (c == '}');
        if (c == '}' && depth <= 0)
            return i - at + 1;
    }
    return w->n - at;
}

static void repeat_block(fuzz_rng *r, word_vec *w, int at)
{
    int n = block_length(w, at), to = (int)fuzz_below(r, (uint64_t)w->n + 1);
    if (n > 2000 || w->n > 20000)
        return;
    mr_sv *copy = mr_new_array(mr_sv, n + 1);
    memcpy(copy, &w->p[at], (size_t)n * sizeof(mr_sv));
    for (int i = 0; i < n; i++)
        put(w, to + i, copy[i]);
    mr_free(copy);
}

/* Repeats an opening word as often as only a hostile text would. */
static void open_often(fuzz_rng *r, word_vec *w)
{
    static const char *const openings[] = {
        "{ ", "[ ", "( ", "attr { ", "func { attr { value { ", "node { ", "-"};
    mr_sv word = mr_sv_of(fuzz_pick(r, openings));
    for (uint64_t k = (uint64_t)1 << fuzz_below(r, 13); k > 0; k--)
        mr_vec_push(w, word);
}

static void change(fuzz_rng *r, word_vec *w)
{
    if (w->n == 0)
        put(w, 0, odd_word(r));
    int at = (int)fuzz_below(r, (uint64_t)w->n);
    switch (fuzz_below(r, 12)) {
    case 0: put(w, at, odd_word(r)); break;
    case 1: put(w, at, w->p[fuzz_below(r, (uint64_t)w->n)]); break;
    case 2: drop(w, at, 1); break;
    case 3: drop(w, at, block_length(w, at)); break;
    case 4: repeat_block(r, w, at); break;
    case 5:
        if (fuzz_once_in(r, 20))
            open_often(r, w);
        break;
    case 6: w->p[at] = odd_word(r); break;
    default: w->p[at] = like(r, w, w->p[at]);
    }
}

static void mutate(fuzz_rng *r, mr_sv text, mr_str *out)
{
    word_vec w = {0};
    cut(text, &w);
    for (uint64_t k = 1 + fuzz_below(r, 4); k > 0; k--)
        change(r, &w);
    for (int i = 0; i < w.n; i++)
        mr_str_append(out, w.p[i].p, w.p[i].n);
    for (uint64_t k = fuzz_once_in(r, 8) ? 1 + fuzz_below(r, 3) : 0; k > 0; k--)
        fuzz_damage(r, out);
    mr_vec_deinit(&w);
}

/* ---- parsers: true when the text was accepted ---- */

static bool fine(mr_status *st)
{
    mr_status_free(st);
    return !st;
}

/* Printing twice gives the same text; the messages may differ: a map entry without a value gets one. */
static bool parse_message(const ProtobufCMessageDescriptor *d, mr_sv text)
{
    ProtobufCMessage *m, *again;
    mr_str once = {0}, twice = {0};
    if (!fine(mr_text_parse(d, text, &m)))
        return false;
    fuzz_must(mr_text_print(m, &once), "print");
    fuzz_must(mr_text_parse(d, mr_str_view(&once), &again), "a text that was just printed");
    fuzz_must(mr_text_print(again, &twice), "print");
    if (!mr_sv_eq(mr_str_view(&once), mr_str_view(&twice)))
        fuzz_fail("%s: differs after it was printed and parsed", d->short_name);
    mr_message_free(m);
    mr_message_free(again);
    mr_str_deinit(&once);
    mr_str_deinit(&twice);
    return true;
}

static bool parse_graph(mr_sv text)
{
    mr_graph *g = mr_graph_new();
    mr_str out = {0};
    bool ok = fine(mr_graph_import_text(g, text, NULL));
    if (ok)
        fuzz_must(mr_graph_export_text(g, &out), "export");
    parse_message(&tensorflow__graph_def__descriptor, text);
    mr_str_deinit(&out);
    mr_graph_unref(g);
    return ok;
}

static bool parse_config(mr_sv text)
{
    return parse_message(&tensorflow__config_proto__descriptor, text);
}

static bool parse_op(mr_sv text)
{
    mr_arena a;
    mr_op_def d;
    mr_str print = {0};
    mr_arena_init(&a, 0);
    char *attrs = mr_arena_strndup(&a, text.p, text.n), *sig = strchr(attrs, '|');
    if (sig)
        *sig++ = '\0';
    bool ok = fine(
        mr_op_def_parse(&a, &(mr_op){.name = "Op", .sig = sig ? sig : "", .attrs = attrs}, &d));
    if (ok)
        mr_op_def_print(&print, &d);
    mr_str_deinit(&print);
    mr_arena_deinit(&a);
    return ok;
}

static bool parse_example(mr_sv text)
{
    mr_arena a;
    mr_example *e;
    mr_arena_init(&a, 0);
    bool ok = fine(mr_example_parse(&a, mr_arena_strndup(&a, text.p, text.n), &e));
    mr_arena_deinit(&a);
    return ok;
}

static bool parse_device(mr_sv text)
{
    mr_device_name n, again;
    mr_str out = {0};
    if (!mr_device_name_parse(text, &n))
        return false;
    mr_device_name_print(&n, &out);
    if (!mr_device_name_parse(mr_str_view(&out), &again))
        fuzz_fail("device name: '%s' was just printed", mr_str_z(&out));
    mr_str_deinit(&out);
    return true;
}

static bool parse_slice(mr_sv text)
{
    mr_slice s, again;
    mr_shape shape, part;
    mr_str out = {0};
    if (!fine(mr_shape_and_slice_parse(text, &shape, &s, &part)) && !fine(mr_slice_parse(text, &s)))
        return false;
    mr_slice_print(&s, &out);
    if (s.rank > 0)
        fuzz_must(mr_slice_parse(mr_str_view(&out), &again), "a slice that was just printed");
    mr_str_deinit(&out);
    return true;
}

static bool parse_names(mr_sv text)
{
    mr_tensor_name n;
    int64_t v;
    (void)mr_sv_to_i64(text, &v);
    (void)mr_name_valid_node(text);
    (void)mr_name_valid_internal(text);
    (void)mr_dtype_from_name(text);
    return mr_tensor_name_parse(text, &n);
}

/* ---- what there is to parse ---- */

typedef struct parser {
    const char *name;
    bool (*parse)(mr_sv text);
    const char *seeds[8];
    int weight;
} parser;

static const parser parsers[] = {
    {"GraphDef", parse_graph, {NULL}, 6}, /* its seeds are the corpus of graphs */
    {"ConfigProto",
     parse_config,
     {"device_count { key: \"CPU\" value: 2 } intra_op_parallelism_threads: 3 gpu_options < "
      "allow_growth: true "
      "per_process_gpu_memory_fraction: 0.5 > graph_options { optimizer_options { opt_level: L0 } "
      "} "
      "device_filters: [ '/job:a', \"/job:\" 'b' ] operation_timeout_in_ms: 0x10"},
     2},
    {"op",
     parse_op,
     {"T: {float, int32} = DT_FLOAT; s: {'a', \"b\"} = 'a'; n: int >= 1 = 2; x: list(float) = "
      "[1e-4, inf]; "
      "sh: shape = { dim { size: 2 } }; t: tensor = uint8[2]{1,2}; f: func = { name: 'g' }; l: "
      "list(shape) = "
      "[[], ?, [2,?]]; L: list(type) >= 0|x: T, y: n * Ref(float), z: L -> o: Ref(n * T)"},
     1},
    {"example",
     parse_example,
     {"keep_dims=true: [[1, 2], [3, 4]], 1 -> [[3], [7]]",
      "h = VarHandleOp dtype=$T shape=[2]; AssignVariableOp: h, [1, 2]; : h -> [1, 2]",
      "T=float: ([0.5, nan], shape(2,0)), iota(2,3) -> fill(0.5, 2,3), dead, ?",
      "[1, 2], [1, 2, 3] -> !INVALID_ARGUMENT Incompatible shapes", "\"a\\n\", [1+2i, -inf] -> ?"},
     1},
    {"device",
     parse_device,
     {"/job:localhost/replica:0/task:0/device:CPU:0", "/cpu:0", "CPU:1", "/job:ps/task:3/gpu:*",
      "/device:GPU:7"},
     1},
    {"slice", parse_slice, {"10 20 0,5:-", "-:2,3", "4 0,2", "3 4 5 -:1,1:0,5", "", "-"}, 1},
    {"names",
     parse_names,
     {"a/b:1", "^a", "while/x_1", "-9223372036854775808", "DT_INT32_REF", "float32"},
     1},
};

/* Which parser a run is for: by their weights. */
static int by_turn[32], n_turns;

/* Graphs as text, as far as they are short. */
static MR_VEC(mr_str) graph_texts;

static void add_graph_text(mr_sv bytes)
{
    ProtobufCMessage *m;
    mr_str text = {0};
    mr_status *st = mr_message_unpack(&tensorflow__graph_def__descriptor, bytes, "corpus", &m);
    if (st) { /* a seed that is not a message is for the graph target */
        mr_status_free(st);
        return;
    }
    fuzz_must(mr_text_print(m, &text), "corpus");
    mr_message_free(m);
    if (text.n < MOST_BYTES)
        mr_vec_push(&graph_texts, text);
    else
        mr_str_deinit(&text);
}

static void prepare(void)
{
    const fuzz_files *graphs = fuzz_graphs();
    if (n_turns)
        return;
    for (int i = 0; i < graphs->n; i++)
        add_graph_text(mr_str_view(&graphs->bytes[i]));
    for (int i = 0; i < MR_COUNT(parsers); i++)
        for (int k = 0; k < parsers[i].weight; k++)
            by_turn[n_turns++] = i;
}

static int64_t n_runs(void) { return 1000000; }
static int n_counts(void) { return MR_COUNT(parsers); }

/* ---- a run ---- */

static void try_text(fuzz_run *r, int which, mr_sv text)
{
    mr_sv exact = fuzz_exact(text);
    bool accepted = parsers[which].parse(exact);
    r->counts[which] += accepted;
    fuzz_say(r, "%s of %zu bytes: %s", parsers[which].name, text.n,
             accepted ? "accepted" : "refused");
    mr_free((void *)(uintptr_t)exact.p);
}

static mr_sv pick_seed(fuzz_rng *r, int which)
{
    const parser *p = &parsers[which];
    int n = 0;
    if (!p->seeds[0])
        return mr_str_view(&graph_texts.p[fuzz_below(r, (uint64_t)graph_texts.n)]);
    while (n < MR_COUNT(p->seeds) && p->seeds[n])
        n++;
    return mr_sv_of(p->seeds[fuzz_below(r, (uint64_t)n)]);
}

static void run(fuzz_run *r)
{
    int which = by_turn[r->number % n_turns];
    mr_str text = {0}, note = {0};
    mutate(&r->rng, pick_seed(&r->rng, which), &text);
    mr_str_printf(&note, "%s\n", parsers[which].name);
    mr_str_append(&note, text.p, text.n);
    fuzz_note(r, mr_str_view(&note));
    try_text(r, which, mr_str_view(&text));
    mr_str_deinit(&text);
    mr_str_deinit(&note);
}

/* The first line says which parser. */
static void replay(fuzz_run *r, mr_sv input)
{
    mr_sv name;
    if (!mr_sv_cut(&input, '\n', &name))
        return;
    for (int i = 0; i < MR_COUNT(parsers); i++)
        if (mr_sv_is(name, parsers[i].name))
            try_text(r, i, input.p ? input : MR_SV(""));
}

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    int64_t n = 0;
    for (int i = 0; i < MR_COUNT(parsers); i++) {
        n += counts[i];
        if (err && counts[i] == 0 && runs > 1000 * MR_COUNT(parsers))
            fprintf(err, "fuzz text: no %s was accepted\n", parsers[i].name);
    }
    fprintf(out, "parsers %d accepted_percent %.1f graphs_accepted %lld", MR_COUNT(parsers),
            100.0 * (double)n / (double)runs, (long long)counts[0]);
    return true;
}

const fuzz_target fuzz_text = {.name = "text",
                               .about = "mutated texts through every parser",
                               .prepare = prepare,
                               .n_runs = n_runs,
                               .n_counts = n_counts,
                               .run = run,
                               .replay = replay,
                               .summary = summary};
