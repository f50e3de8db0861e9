/* tests/fuzz/subjects.c -- every registered op, and what to run it with.
 *
 * The op's own examples; examples that create files, which are listed here; scenes for ops that cannot run alone; and
 * if there are none of these, a guess. So no op is left out. */
#include "tests/fuzz/subjects.h"

#include "base/memory.h"
#include "ops/absent.h"
#include "ops/example_fixture.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/scenes.h"

enum { MAX_SCENES = 8 };

static mr_arena examples_arena;

/* Examples that create files, so they are not among the op's own. A child runs in a separate folder. */
static const struct {
    const char *op, *text;
} more_examples[] = {
#define SAVE "SaveV2 dtypes=[float]: \"c\", [\"a\"], [\"\"], (float[1, 2])"
    {"SaveV2", "dtypes=[float, string]: \"c\", [\"a\", \"b\"], [\"\", \"\"], (float[1, 2], "
               "string[\"x\"]) -> ?"},
    {"SaveV2", "dtypes=[float]: \"c\", [\"a\"], [\"4 0,2\"], (float[1, 2]) -> ?"},
    {"RestoreV2", SAVE "; dtypes=[float]: \"c\", [\"a\"], [\"\"] -> [1, 2]"},
    {"RestoreV2", SAVE "; dtypes=[float]: \"c\", [\"a\"], [\"2 1,1\"] -> [2]"},
    {"MergeV2Checkpoints", SAVE "; [\"c\"], \"d\" -> ?"},
/* Two records of a TFRecord file. */
#define RECORDS \
    "WriteFile: \"r\", \"" \
    "\\x02\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x78\\x27\\x0b\\x34\\x61\\x62\\x1c\\xb0\\xf0\\xf4\\x01\\x00" \
    "\\x00\\x00\\x00\\x00\\x00\\x00\\x01\\x75\\xde\\x41\\x63\\xae\\x2c\\x11\\x0a" \
    "\"; "
#define QUEUE \
    "q = FIFOQueueV2 component_types=[string] shapes=[[]] shared_name=\"q\"; " \
    "QueueEnqueueManyV2 Tcomponents=[string]: q, ([\"r\", \"r\"]); QueueCloseV2: q; "
#define LOG "w = SummaryWriter shared_name=\"w\"; CreateSummaryFileWriter: w, \"log\", 10, 1000, \".v2\"; "
#define SAVE_V1 "SaveSlices T=[float, int32]: \"v1\", [\"a\", \"b\"], [\"4 0,2\", \"\"], (float[1, 2], int32[[3]]); "
    {"WriteFile", "\"f\", \"text\" ->"},
    {"WriteFile", "\"d/f\", \"text\" ->"},
    {"ReadFile", "WriteFile: \"f\", \"text\"; : \"f\" -> \"text\""},
    {"Save", "T=[float, string]: \"v1\", [\"a\", \"b\"], (float[1, 2], string[\"x\"]) ->"},
    {"SaveSlices", "T=[float]: \"v1\", [\"a\"], [\"4 0,2\"], (float[1, 2]) ->"},
    {"Restore", SAVE_V1 "dt=int32: \"v1\", \"b\" -> [[3]]"},
    {"RestoreSlice", SAVE_V1 "dt=float: \"v1\", \"a\", \"4 1,1\" -> [2]"},
    {"RestoreV2", SAVE_V1 "dtypes=[float, int32]: \"v1\", [\"a\", \"b\"], [\"4 0,1\", \"\"] -> float[1], int32[[3]]"},
    {"LoadAndRemapMatrix", "SaveV2 dtypes=[float]: \"c\", [\"m\"], [\"\"], (float[[0, 1], [2, 3]]); num_rows=3 num_cols=2: "
                           "\"c\", \"m\", [1, -1, 0], [1, 0], [8, 9] -> [[3, 2], [8, 9], [1, 0]]"},
    {"GenerateVocabRemapping", "WriteFile: \"n\", \"a\\nb\\n\"; WriteFile: \"o\", \"b\\n\"; new_vocab_offset=0 num_new_vocab=2: "
                               "\"n\", \"o\" -> [-1, 0], 1"},
    {"RecordInput", RECORDS "file_pattern=\"r\" batch_size=3: -> shape(3)"},
    {"ReaderReadV2", RECORDS QUEUE "r = TFRecordReaderV2 shared_name=\"r\"; : r, q -> ?, ?"},
    {"ReaderReadUpToV2", RECORDS QUEUE "r = TFRecordReaderV2 shared_name=\"r\"; : r, q, 5 -> shape(2), shape(2)"},
    {"ReaderReadUpToV2", RECORDS QUEUE "r = TextLineReaderV2 shared_name=\"r\"; : r, q, 5 -> shape(1), shape(1)"},
    {"ReaderReadUpToV2", RECORDS QUEUE "r = FixedLengthRecordReaderV2 record_bytes=4 header_bytes=2 footer_bytes=1 hop_bytes=3 "
                                       "shared_name=\"r\"; : r, q, 5 -> shape(5), shape(5)"},
    {"ReaderReadV2", RECORDS QUEUE "r = WholeFileReaderV2 shared_name=\"r\"; : r, q -> ?, ?"},
    {"CreateSummaryFileWriter", "w = SummaryWriter shared_name=\"w\"; : w, \"log\", 10, 1000, \".v2\" ->"},
    {"FlushSummaryWriter", LOG ": w ->"},
    {"CloseSummaryWriter", LOG ": w ->"},
    {"WriteSummary", LOG ": w, 1, iota(2), \"a\", \"\" ->"},
    {"WriteScalarSummary", LOG ": w, 1, \"a\", 2 ->"},
    {"WriteHistogramSummary", LOG ": w, 1, \"a\", [1, 0] ->"},
    {"WriteRawProtoSummary", LOG ": w, 1, [\"\\n\\x03\\n\\x01a\"] ->"},
    {"WriteGraphSummary", LOG ": w, 1, \"\" ->"},
    {"ImportEvent", LOG ": w, \"\\x10\\x05\" ->"},
    {"WriteImageSummary", LOG ": w, 1, \"a\", [[[[1], [2]]]], [255, 0, 0, 255] ->"},
    {"WriteAudioSummary", LOG ": w, 1, \"a\", [[0.5, 1]], 10 ->"},
#undef SAVE_V1
#undef LOG
#undef QUEUE
#undef RECORDS
#undef SAVE
};

/* The type an example is only about, by setting the key attr; MR_INVALID: none. */
static mr_dtype fixed_type(const mr_op_def *d, const mr_example *e)
{
    const mr_example_step *s = &e->steps[e->n_steps - 1];
    for (int i = 0; i < s->n_attrs; i++)
        if (d->key && mr_sv_is(s->attrs[i].name, d->key->name))
            return mr_dtype_from_name(s->attrs[i].text);
    return MR_INVALID;
}

static void add_script(fuzz_subject *s, const mr_op_def *last, const char *text, bool whole)
{
    mr_example *e;
    fuzz_must(mr_example_parse(&examples_arena, text, &e), text);
    s->scripts = mr_realloc(s->scripts, (size_t)(s->n_scripts + 1) * sizeof(*s->scripts));
    fuzz_script *made = &s->scripts[s->n_scripts++];
    *made = (fuzz_script){.example = e, .last = last, .whole = whole};
    made->types[0] = fixed_type(last, e);
    made->n_types = made->types[0] ? 1 : mr_trial_types(last, made->types, FUZZ_MAX_TYPES);
    made->n_types = MR_MAX(made->n_types, 1);
}

static void add_scenes(fuzz_subject *s)
{
    const fuzz_scene *scenes[MAX_SCENES];
    int n = fuzz_scenes_of(s->def->name, scenes, MAX_SCENES);
    for (int i = 0; i < n; i++) {
        const mr_op_def *last = scenes[i]->last ? mr_op_find(mr_sv_of(scenes[i]->last)) : s->def;
        if (last)
            add_script(s, last, scenes[i]->text, true);
    }
}

static void add_guess(fuzz_subject *s)
{
    mr_str text = {0};
    fuzz_scene_guess(s->def, &text);
    add_script(s, s->def, mr_arena_strndup(&examples_arena, mr_str_z(&text), text.n), true);
    mr_str_deinit(&text);
}

static void subject_init(fuzz_subject *s, const mr_op_def *d)
{
    *s = (fuzz_subject){.def = d};
    for (int i = 0; d->op->examples && d->op->examples[i]; i++)
        add_script(s, d, d->op->examples[i], false);
    for (int i = 0; i < MR_COUNT(more_examples); i++)
        if (strcmp(more_examples[i].op, d->name) == 0)
            add_script(s, d, more_examples[i].text, false);
    add_scenes(s);
    if (s->n_scripts == 0)
        add_guess(s);
}

fuzz_subject *fuzz_subjects(int *n)
{
    const mr_op_def **all = mr_op_all(n);
    fuzz_subject *out = mr_new_array(fuzz_subject, *n);
    mr_arena_init(&examples_arena, 0);
    int n_there = 0; /* there is nothing to find in ops without a kernel */
    for (int i = 0; i < *n; i++)
        if (!mr_op_absent(all[i]))
            subject_init(&out[n_there++], all[i]);
    mr_free(all);
    *n = n_there;
    return out;
}
