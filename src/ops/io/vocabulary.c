/* ops/io/vocabulary.c -- GenerateVocabRemapping: the position of each word of one vocabulary in another. */
#include "base/map.h"
#include "graph/infer.h"
#include "ops/io/name_input.h"
#include "store/stream.h"

typedef struct state {
    int64_t offset, n_new, old_size;
} state;

static mr_status *get_count(const mr_make *m, const char *attr, int64_t min, int64_t *out)
{
    MR_TRY(mr_node_get_int(m->node, attr, out));
    return *out >= min && *out <= INT64_MAX / 4
               ? NULL
               : mr_invalid("%s is out of range: %lld", attr, (long long)*out);
}

static mr_status *init_vocabulary(mr_make *m, void *p)
{
    state *s = p;
    MR_TRY(get_count(m, "new_vocab_offset", 0, &s->offset));
    MR_TRY(get_count(m, "num_new_vocab", 0, &s->n_new));
    return get_count(m, "old_vocab_size", -1, &s->old_size);
}

/* Calls fn for lines 0.. of a file; at most `limit` of them (-1: all). *n is the number of lines. */
static mr_status *each_line(const char *path, int64_t limit, int64_t *n,
                            mr_status *(*fn)(void *ctx, int64_t i, mr_sv line), void *ctx)
{
    mr_stream *in;
    mr_str line = {0};
    mr_status *st = NULL;
    MR_TRY(mr_stream_open(path, MR_UNCOMPRESSED, 0, &in));
    for (*n = 0; *n != limit && !(st = mr_stream_line(in, &line)); ++*n)
        MR_GO(fn(ctx, *n, mr_str_view(&line)));
    if (mr_status_code(st) == MR_OUT_OF_RANGE) { /* the end */
        mr_status_free(st);
        st = NULL;
    }
out:
    mr_stream_close(in);
    mr_str_deinit(&line);
    return st;
}

static mr_status *keep_old(void *ctx, int64_t i, mr_sv line)
{
    mr_map *old = ctx;
    void *before = mr_map_put(old, line, (void *)(intptr_t)(i + 1));
    if (before)
        return mr_error(MR_FAILED_PRECONDITION,
                        "HashTable has different value for same key. Key %.*s has %lld and trying to "
                        "add value %lld",
                        MR_SV_ARG(line), (long long)(intptr_t)before - 1, (long long)i);
    return NULL;
}

typedef struct remapping {
    const state *s;
    const mr_map *old;
    int64_t *out;
    int32_t n_present;
} remapping;

static mr_status *map_new(void *ctx, int64_t i, mr_sv line)
{
    remapping *m = ctx;
    if (i < m->s->offset || i - m->s->offset >= m->s->n_new)
        return NULL;
    int64_t at = (int64_t)(intptr_t)mr_map_get(m->old, line) - 1;
    m->out[i - m->s->offset] = at;
    m->n_present += at >= 0;
    return NULL;
}

static mr_status *count_line(void *ctx, int64_t i, mr_sv line)
{
    (void)ctx, (void)i, (void)line;
    return NULL;
}

/* The new vocabulary's file must have enough lines before memory is allocated for them. */
static mr_status *remap_vocabulary(mr_run *r, const char *new_path, const mr_map *old)
{
    const state *s = r->state;
    mr_tensor *out, *present;
    int64_t n, want = s->offset + s->n_new;
    MR_TRY(each_line(new_path, want, &n, count_line, NULL));
    if (n < want)
        return mr_invalid("lookup table size must be larger than the last new vocab entry's line: %lld "
                          "lines, %lld wanted",
                          (long long)n, (long long)want);
    MR_TRY(mr_run_output(r, 0, 1, &s->n_new, &out));
    MR_TRY(mr_run_output(r, 1, 0, NULL, &present));
    for (int64_t i = 0; i < s->n_new; i++)
        MR_DATA(int64_t, out)[i] = -1;
    remapping m = {s, old, MR_DATA(int64_t, out), 0};
    MR_TRY(each_line(new_path, want, &n, map_new, &m));
    *MR_DATA(int32_t, present) = m.n_present;
    return NULL;
}

static mr_status *generate_remapping(mr_run *r)
{
    const state *s = r->state;
    char *new_path = NULL, *old_path = NULL;
    mr_map old = {0};
    int64_t n;
    mr_status *st = NULL;
    MR_GO(mr_in_path(r, 0, "new_vocab_file", &new_path));
    MR_GO(mr_in_path(r, 1, "old_vocab_file", &old_path));
    if (!*new_path || !*old_path)
        MR_GO(mr_invalid("%s vocab filename cannot be empty.", *new_path ? "old" : "new"));
    MR_GO(each_line(old_path, s->old_size, &n, keep_old, &old));
    if (n < s->old_size)
        MR_GO(mr_invalid("Invalid vocab_size in %s: expected %lld but got %lld", old_path,
                         (long long)s->old_size, (long long)n));
    MR_GO(remap_vocabulary(r, new_path, &old));
out:
    mr_map_deinit(&old);
    mr_free(new_path);
    mr_free(old_path);
    return st;
}

static mr_status *remapping_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    int64_t n;
    MR_TRY(mr_infer_rank(c, c->in[0], 0, &ignored));
    MR_TRY(mr_infer_rank(c, c->in[1], 0, &ignored));
    MR_TRY(mr_node_get_int(c->node, "num_new_vocab", &n));
    mr_infer_out_vector(c, 0, n);
    mr_infer_out_scalar(c, 1);
    return NULL;
}

MR_OP(GenerateVocabRemapping,
    .doc      = "for each word of a vocabulary its line in another one, or -1; and how many are there",
    .sig      = "new_vocab_file: string, old_vocab_file: string -> remapping: int64, "
                "num_present: int32",
    .attrs    = "new_vocab_offset: int >= 0; num_new_vocab: int >= 0; old_vocab_size: int >= -1 = -1",
    .flags    = MR_BLOCKS | MR_NO_GRADIENT | MR_NO_FOLD,
    .shape    = remapping_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(generate_remapping)),
    .state_bytes = sizeof(state), .init = init_vocabulary,
    .examples = MR_EXAMPLES(
        "new_vocab_offset=0 num_new_vocab=0: \"/dev/null\", \"/dev/null\" -> shape(0), 0",
        "new_vocab_offset=0 num_new_vocab=1: \"/dev/null\", \"/dev/null\" -> !INVALID_ARGUMENT lookup "
        "table size must be larger than the last new vocab entry's line",
        "new_vocab_offset=0 num_new_vocab=0 old_vocab_size=1: \"/dev/null\", \"/dev/null\" -> "
        "!INVALID_ARGUMENT Invalid vocab_size in /dev/null: expected 1 but got 0",
        "new_vocab_offset=0 num_new_vocab=0: \"\", \"/dev/null\" -> !INVALID_ARGUMENT new vocab filename "
        "cannot be empty.",
        "new_vocab_offset=0 num_new_vocab=0: \"/nowhere/at/all\", \"/dev/null\" -> !NOT_FOUND /nowhere"));
