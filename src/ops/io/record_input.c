/* ops/io/record_input.c -- RecordInput: endless batches of records from many files, shuffled.
 *
 * An epoch is all records of all files once. Seed and epoch determine the order of the files; their records go
 * through a buffer from which batches are drawn at random; the rest of an epoch is delivered before the next
 * begins. TensorFlow reads with many threads, so its order varies; ours depends only on the seed. */
#include "base/memory.h"
#include "base/vec.h"
#include "graph/infer.h"
#include "run/run.h"
#include "store/matching.h"
#include "store/record.h"

typedef struct state {
    mr_mutex mu;
    mr_sv pattern;
    mr_compression compression;
    int64_t seed, buffer_size, batch_size;
    float shift;
    /* guarded by mu */
    mr_file_names files; /* sorted; then in the order of this epoch */
    uint64_t random;
    int64_t epoch, n_in_epoch;
    int next_file; /* v.n: all files have been read */
    mr_record_reader *reader;
    MR_VEC(mr_str) buffer;
} state;

/* ---- creation ---- */

static mr_status *get_positive(const mr_make *m, const char *attr, int64_t *out)
{
    MR_TRY(mr_node_get_int(m->node, attr, out));
    return *out > 0 ? NULL : mr_invalid("%s must be positive, not %lld", attr, (long long)*out);
}

static mr_status *init_record_input(mr_make *m, void *p)
{
    state *s = p;
    mr_sv compression;
    int64_t parallelism;
    mr_mutex_init(&s->mu);
    MR_TRY(mr_node_get_str(m->node, "file_pattern", &s->pattern));
    MR_TRY(mr_node_get_int(m->node, "file_random_seed", &s->seed));
    MR_TRY(mr_node_get_float(m->node, "file_shuffle_shift_ratio", &s->shift));
    MR_TRY(get_positive(m, "file_buffer_size", &s->buffer_size));
    MR_TRY(get_positive(m, "file_parallelism", &parallelism));
    MR_TRY(get_positive(m, "batch_size", &s->batch_size));
    MR_TRY(mr_node_get_str(m->node, "compression_type", &compression));
    if (!mr_compression_parse(compression, &s->compression))
        return mr_invalid("Unsupported compression_type:%.*s", MR_SV_ARG(compression));
    if (!(s->shift >= 0 && s->shift <= 1))
        return mr_invalid("file_shuffle_shift_ratio must be in [0, 1], not %g", (double)s->shift);
    return NULL;
}

static void deinit_record_input(void *p)
{
    state *s = p;
    for (int i = 0; i < s->buffer.n; i++)
        mr_str_deinit(&s->buffer.p[i]);
    mr_vec_deinit(&s->buffer);
    mr_record_reader_close(s->reader);
    mr_file_names_deinit(&s->files);
    mr_mutex_deinit(&s->mu);
}

/* ---- epochs ---- */

/* A random number below `below`, by splitmix64. */
static uint64_t draw_below(state *s, uint64_t below)
{
    uint64_t z = s->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % below;
}

static void swap_names(char **v, int a, int b)
{
    char *held = v[a];
    v[a] = v[b];
    v[b] = held;
}

/* Shuffles the files, then rotates the list by the shift: tasks with the same seed and different shifts read
 * different files at a time. */
static void shuffle_files(state *s)
{
    char **v = s->files.v.p;
    int n = s->files.v.n, shift = (int)((double)s->shift * n);
    mr_file_names_sort(&s->files);
    s->random = (uint64_t)s->seed + (uint64_t)s->epoch;
    for (int i = n - 1; i > 0; i--)
        swap_names(v, i, (int)draw_below(s, (uint64_t)i + 1));
    for (int k = 0; k < shift; k++) { /* the first becomes the last */
        char *first = v[0];
        memmove(v, v + 1, sizeof(*v) * (size_t)(n - 1));
        v[n - 1] = first;
    }
}

static mr_status *begin_epoch(state *s)
{
    if (s->files.v.n == 0)
        MR_TRY(mr_files_match(s->pattern, &s->files));
    if (s->files.v.n == 0)
        return mr_error(MR_NOT_FOUND, "Found no files at %.*s", MR_SV_ARG(s->pattern));
    if (s->epoch > 0 && s->n_in_epoch == 0)
        return mr_error(MR_NOT_FOUND, "The files at %.*s have no records", MR_SV_ARG(s->pattern));
    s->epoch++;
    s->n_in_epoch = 0;
    s->next_file = 0;
    shuffle_files(s);
    return NULL;
}

/* Reads the next record of the epoch into the buffer; *got is false when there is none. */
static mr_status *read_one(state *s, bool *got)
{
    mr_str record = {0};
    for (*got = false; !*got;) {
        if (!s->reader && s->next_file == s->files.v.n)
            return NULL;
        if (!s->reader)
            MR_TRY(mr_record_reader_open(s->files.v.p[s->next_file++], s->compression, 0, &s->reader));
        mr_status *st = mr_record_read(s->reader, &record);
        *got = !st;
        if (*got)
            break;
        mr_record_reader_close(s->reader);
        s->reader = NULL;
        if (mr_status_code(st) != MR_OUT_OF_RANGE) {
            mr_str_deinit(&record);
            return st;
        }
        mr_status_free(st);
    }
    mr_vec_push(&s->buffer, record);
    s->n_in_epoch++;
    return NULL;
}

/* Fills the buffer, at the end of an epoch with the remaining records; the buffer is not empty afterwards. */
static mr_status *fill_buffer(state *s)
{
    bool got = true;
    while (got && s->buffer.n < s->buffer_size && s->buffer.n < INT32_MAX)
        MR_TRY(read_one(s, &got));
    while (s->buffer.n == 0) {
        MR_TRY(begin_epoch(s));
        for (got = true; got && s->buffer.n < s->buffer_size && s->buffer.n < INT32_MAX;)
            MR_TRY(read_one(s, &got));
    }
    return NULL;
}

static mr_status *draw_batch(mr_run *r, state *s, mr_tensor *out)
{
    const mr_cancel *c = r->step->cancel;
    for (int64_t i = 0; i < out->n; i++) {
        if (c && i % 1024 == 1023 && mr_cancel_started(c))
            return mr_error(MR_CANCELLED, "RecordInput was cancelled");
        MR_TRY(fill_buffer(s));
        int at = (int)draw_below(s, (uint64_t)s->buffer.n);
        mr_str record = s->buffer.p[at];
        mr_vec_remove_swap(&s->buffer, at);
        mr_status *st = mr_tensor_set_str(out, i, mr_str_view(&record));
        mr_str_deinit(&record);
        MR_TRY(st);
    }
    return NULL;
}

static mr_status *record_input(mr_run *r)
{
    state *s = r->state;
    mr_tensor *out;
    MR_TRY(mr_run_output(r, 0, 1, &s->batch_size, &out));
    mr_lock(&s->mu);
    mr_status *st = draw_batch(r, s, out);
    mr_unlock(&s->mu);
    return st;
}

static mr_status *input_shape(mr_infer *c)
{
    int64_t n;
    MR_TRY(mr_node_get_int(c->node, "batch_size", &n));
    mr_infer_out_vector(c, 0, n < 0 ? -1 : n);
    return NULL;
}

MR_OP(RecordInput,
    .doc      = "batches of records of many TFRecord files, mixed, without end",
    .sig      = "-> records: string",
    .attrs    = "file_pattern: string; file_random_seed: int = 301; file_shuffle_shift_ratio: float = 0; "
                "file_buffer_size: int = 10000; file_parallelism: int = 16; batch_size: int = 32; "
                "compression_type: string = \"\"",
    .flags    = MR_BLOCKS | MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = input_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(record_input)),
    .state_bytes = sizeof(state), .init = init_record_input, .deinit = deinit_record_input,
    .examples = MR_EXAMPLES(
        "file_pattern=\"/nowhere/*\": -> !NOT_FOUND Found no files at /nowhere/*",
        "file_pattern=\"/dev/null\": -> !NOT_FOUND The files at /dev/null have no records",
        "file_pattern=\"/dev/null\" batch_size=0: -> !INVALID_ARGUMENT batch_size must be positive, not 0",
        "file_pattern=\"/dev/null\" compression_type=\"RAR\": -> !INVALID_ARGUMENT Unsupported "
        "compression_type:RAR"));
