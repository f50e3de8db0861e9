/* ops/data/shuffle.c -- elements in random order: ShuffleDataset and its variants, SamplingDataset.
 *
 * A buffer is kept full; the next element is a random one of it, and the first element of the buffer takes its
 * place. This and the sequence of random numbers are TensorFlow's, so equal seeds give equal orders. */
#include "base/memory.h"
#include "ops/data/dataset.h"
#include "ops/data/seeds.h"

#define R "r = RangeDataset output_types=[int64] output_shapes=[[]]: 0, 10, 1; "
#define TYPES "output_types=[int64] output_shapes=[[]]"

typedef struct shuffle {
    mr_dataset base;
    int64_t buffer;
    int64_t count; /* number of passes; -1: forever */
    mr_seed_source *source;
} shuffle;

/* The buffer is a ring of which [begin, begin + n) is in use. Each part of it that belongs to one epoch of the
 * input is shuffled separately, so that epochs do not mix. */
typedef struct piece {
    int64_t begin, end; /* running numbers, not positions in the ring */
} piece;

typedef struct shuffling {
    mr_iterator base;
    mr_tensor **ring; /* room for `room` elements, with the tensors of each */
    int64_t room, n;
    MR_VEC(piece) pieces;
    int first_piece;
    int64_t epoch;
    bool ended, any, begun;
    mr_words words;
} shuffling;

static mr_status *shuffle_open(mr_iterator *it)
{
    (void)it; /* the seeds of this iteration are taken when it starts */
    return NULL;
}

static int width_of(const shuffling *s) { return s->base.dataset->n; }

/* The room of the element with this running number; `room` is a power of two. */
static mr_tensor **element_at(const shuffling *s, int64_t i) { return s->ring + (i & (s->room - 1)) * width_of(s); }

static void move_element(const shuffling *s, mr_tensor **to, mr_tensor *const *from)
{
    memcpy(to, from, sizeof *to * (size_t)width_of(s));
}

static mr_status *grow_buffer(shuffling *s)
{
    int64_t room = s->room ? s->room * 2 : 16;
    piece *p = &s->pieces.p[s->first_piece];
    size_t bytes, row = sizeof *s->ring * (size_t)width_of(s);
    mr_tensor **ring = mr_size_mul((size_t)room, row, &bytes) ? mr_try_alloc(bytes) : NULL;
    if (!ring)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a buffer of %lld elements", (long long)room);
    for (int64_t i = 0; i < s->n; i++)
        move_element(s, ring + ((p->begin + i) & (room - 1)) * width_of(s), element_at(s, p->begin + i));
    mr_free(s->ring);
    s->ring = ring;
    s->room = room;
    return NULL;
}

/* Starts the next epoch where the last one ended. */
static mr_status *begin_epoch(shuffling *s)
{
    int64_t at = s->pieces.n ? mr_vec_last(&s->pieces).end : 0;
    MR_TRY(mr_iterator_open_input(&s->base, 0, &s->base.input));
    mr_vec_push(&s->pieces, (piece){at, at});
    s->any = false;
    return NULL;
}

static mr_status *fill_one(shuffling *s, const shuffle *d)
{
    bool end = false;
    piece *last = &mr_vec_last(&s->pieces);
    if (s->n == s->room)
        MR_TRY(grow_buffer(s));
    MR_TRY(mr_iterator_next(s->base.input, element_at(s, last->end), &end));
    if (!end) {
        last->end++;
        s->n++;
        s->any = true;
        return NULL;
    }
    mr_iterator_close(s->base.input);
    s->base.input = NULL;
    s->epoch++;
    s->ended = d->count < 0 ? !s->any : s->epoch >= d->count; /* an empty input ends, even if it is repeated forever */
    return NULL;
}

/* Fills the buffer across epochs, as TensorFlow does; elements are given from the oldest epoch that has any. */
static mr_status *fill_buffer(shuffling *s, const shuffle *d)
{
    while (!s->ended && s->n < d->buffer) {
        if (!s->base.input)
            MR_TRY(begin_epoch(s));
        MR_TRY(fill_one(s, d));
    }
    return NULL;
}

static void drop_old_pieces(shuffling *s)
{
    while (s->first_piece < s->pieces.n && s->pieces.p[s->first_piece].begin == s->pieces.p[s->first_piece].end &&
           s->first_piece + 1 < s->pieces.n)
        s->first_piece++;
    if (s->first_piece < 64)
        return;
    s->pieces.n -= s->first_piece;
    memmove(s->pieces.p, s->pieces.p + s->first_piece, sizeof(piece) * (size_t)s->pieces.n);
    s->first_piece = 0;
}

static mr_status *shuffle_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const shuffle *d = (shuffle *)it->dataset;
    shuffling *s = (shuffling *)it;
    if (!s->begun) {
        s->words = mr_seeds_stream(mr_seed_source_next(d->source));
        s->ended = d->count == 0;
        s->begun = true;
    }
    MR_TRY(fill_buffer(s, d));
    if ((*end = s->n == 0))
        return NULL;
    drop_old_pieces(s);
    piece *p = &s->pieces.p[s->first_piece];
    int64_t chosen = p->begin + mr_words_next(&s->words) % (p->end - p->begin);
    move_element(s, out, element_at(s, chosen));
    if (chosen != p->begin)
        move_element(s, element_at(s, chosen), element_at(s, p->begin));
    p->begin++;
    s->n--;
    return NULL;
}

static void shuffle_close(mr_iterator *it)
{
    shuffling *s = (shuffling *)it;
    for (int k = s->first_piece; k < s->pieces.n; k++)
        for (int64_t i = s->pieces.p[k].begin; i < s->pieces.p[k].end; i++)
            mr_element_drop(element_at(s, i), width_of(s));
    mr_vec_deinit(&s->pieces);
    mr_free(s->ring);
}

static int64_t shuffle_count(const mr_dataset *d)
{
    int64_t n = mr_dataset_cardinality(d->inputs[0]), times = ((const shuffle *)d)->count, all;
    if (times < 0)
        return n == 0 ? 0 : MR_CARDINALITY_INFINITE;
    if (times == 0)
        return 0;
    return n < 0 ? n : mr_i64_mul(n, times, &all) ? all : MR_CARDINALITY_INFINITE;
}

static void shuffle_free(mr_dataset *d)
{
    shuffle *s = (shuffle *)d;
    if (s->source)
        mr_object_unref(&s->source->base);
}

static const mr_dataset_kind shuffle_kind = {"Shuffle", sizeof(shuffle), sizeof(shuffling), shuffle_open, shuffle_next,
                                             shuffle_close, shuffle_count, shuffle_free, .tries = true};

/* Takes ownership of the source. */
static mr_status *make_shuffle(mr_run *r, int64_t count, mr_seed_source *source)
{
    shuffle *d = NULL;
    int64_t buffer;
    mr_status *st = mr_in_scalar_int(r, 1, "buffer_size", &buffer);
    if (!st && buffer == MR_CARDINALITY_UNKNOWN) /* all elements */
        buffer = INT64_MAX;
    if (!st && buffer <= 0)
        st = mr_invalid("buffer_size must be greater than zero or UNKNOWN_CARDINALITY");
    if (!st)
        st = mr_dataset_new(r, &shuffle_kind, 0, 1, &d);
    if (!d) {
        mr_object_unref(&source->base);
        return st;
    }
    d->buffer = buffer;
    d->count = count;
    d->source = d->base.seeds = source;
    return mr_dataset_give(r, d, st);
}

/* Seeds from inputs 2 and 3. */
static mr_status *make_seeded(mr_run *r, int64_t count)
{
    mr_seeds seeds;
    MR_TRY(mr_seeds_read(r, 2, &seeds));
    return make_shuffle(r, count, mr_seed_source_new(seeds, ((mr_dataset_state *)r->state)->flag));
}

/* Uses the generator that input i refers to, else the seeds in inputs 2 and 3. */
static mr_status *make_from(mr_run *r, int i, int64_t count)
{
    mr_seed_source *source;
    MR_TRY(mr_seed_source_in(r, i, &source));
    if (source)
        return make_shuffle(r, count, source);
    if (i != 2)
        return make_seeded(r, count);
    return mr_invalid("seed_generator is not a handle to a seed generator");
}

static mr_status *shuffle_dataset(mr_run *r) { return make_seeded(r, 1); }
static mr_status *shuffle_dataset_v2(mr_run *r) { return make_from(r, 2, 1); }
static mr_status *shuffle_dataset_v3(mr_run *r) { return make_from(r, 4, 1); }

static mr_status *read_count(mr_run *r, int64_t *out)
{
    MR_TRY(mr_in_scalar_int(r, 4, "count", out));
    return *out < -1 || *out == 0 ? mr_invalid("count must be greater than zero or equal to -1.") : NULL;
}

static mr_status *shuffle_and_repeat(mr_run *r)
{
    int64_t count;
    MR_TRY(read_count(r, &count));
    return make_seeded(r, count);
}

static mr_status *shuffle_and_repeat_v2(mr_run *r)
{
    int64_t count;
    MR_TRY(read_count(r, &count));
    return make_from(r, 5, count);
}

#define G "g = AnonymousSeedGenerator: 1, 2, true; "

MR_OP(ShuffleDataset,
    .doc     = "the elements in random order, as far as a buffer of this size allows",
    .sig     = "input_dataset: variant, buffer_size: int64, seed: int64, seed2: int64 -> handle: variant",
    .attrs   = "reshuffle_each_iteration: bool = true; " MR_DATASET_ATTRS,
    .flags   = MR_NO_GRADIENT, MR_DATASET(shuffle_dataset),
    .examples = MR_EXAMPLES(R TYPES ": r, 3, 1, 2 -> shape()",
                            R TYPES ": r, 0, 1, 2 -> !INVALID_ARGUMENT buffer_size must be greater than zero"));

MR_OP(ShuffleDatasetV2,
    .doc     = "ShuffleDataset with seeds from a generator",
    .sig     = "input_dataset: variant, buffer_size: int64, seed_generator: resource -> handle: variant",
    .attrs   = MR_DATASET_ATTRS,
    .flags   = MR_STATEFUL | MR_NO_GRADIENT, MR_DATASET(shuffle_dataset_v2),
    .examples = MR_EXAMPLES(R G TYPES ": r, 3, g -> shape()"));

MR_OP(ShuffleDatasetV3,
    .doc     = "ShuffleDataset with seeds from a generator, if there is one",
    .sig     = "input_dataset: variant, buffer_size: int64, seed: int64, seed2: int64, seed_generator: resource -> handle: variant",
    .attrs   = "reshuffle_each_iteration: bool = true; " MR_DATASET_ATTRS,
    .flags   = MR_STATEFUL | MR_NO_GRADIENT, MR_DATASET(shuffle_dataset_v3),
    .examples = MR_EXAMPLES(R G TYPES ": r, 3, 1, 2, g -> shape()"));

MR_OP(ShuffleAndRepeatDataset,
    .doc     = "ShuffleDataset, count times over",
    .sig     = "input_dataset: variant, buffer_size: int64, seed: int64, seed2: int64, count: int64 -> handle: variant",
    .attrs   = MR_DATASET_TYPES "; reshuffle_each_iteration: bool = true; metadata: string = ''",
    .flags   = MR_NO_GRADIENT, MR_DATASET(shuffle_and_repeat),
    .examples = MR_EXAMPLES(R TYPES ": r, 3, 1, 2, 2 -> shape()",
                            R TYPES ": r, 3, 1, 2, 0 -> !INVALID_ARGUMENT count must be greater than zero or equal to -1"));

MR_OP(ShuffleAndRepeatDatasetV2,
    .doc     = "ShuffleAndRepeatDataset with seeds from a generator, if there is one",
    .sig     = "input_dataset: variant, buffer_size: int64, seed: int64, seed2: int64, count: int64, seed_generator: resource"
               " -> handle: variant",
    .attrs   = "reshuffle_each_iteration: bool = true; " MR_DATASET_ATTRS,
    .flags   = MR_STATEFUL | MR_NO_GRADIENT, MR_DATASET(shuffle_and_repeat_v2),
    .examples = MR_EXAMPLES(R G TYPES ": r, 3, 1, 2, -1, g -> shape()"));

/* ---- sampling ---- */

typedef struct sampling {
    mr_dataset base;
    float rate;
    mr_seeds seeds;
} sampling;

typedef struct sampling_iterator {
    mr_iterator base;
    mr_words words;
} sampling_iterator;

static mr_status *sampling_open(mr_iterator *it)
{
    ((sampling_iterator *)it)->words = mr_seeds_stream(((sampling *)it->dataset)->seeds);
    return mr_iterator_open_input(it, 0, &it->input);
}

static mr_status *sampling_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    for (;;) {
        MR_TRY(mr_iterator_next(it->input, out, end));
        if (*end || mr_philox_float(mr_words_next(&((sampling_iterator *)it)->words)) < ((sampling *)it->dataset)->rate)
            return NULL;
        mr_element_drop(out, it->dataset->n);
    }
}

static const mr_dataset_kind sampling_kind = {"Sampling", sizeof(sampling), sizeof(sampling_iterator), sampling_open, sampling_next, .tries = true};

static mr_status *sampling_dataset(mr_run *r)
{
    sampling *d;
    mr_seeds seeds;
    const mr_tensor *rate = mr_in(r, 1);
    if (rate->rank != 0)
        return mr_invalid("rate must be a scalar");
    MR_TRY(mr_seeds_read(r, 2, &seeds));
    MR_TRY(mr_dataset_new(r, &sampling_kind, 0, 1, &d));
    d->rate = *MR_DATA(float, rate);
    d->seeds = seeds;
    return mr_dataset_give(r, d, NULL);
}

MR_OP(SamplingDataset,
    .doc     = "each element with this probability",
    .sig     = "input_dataset: variant, rate: float, seed: int64, seed2: int64 -> handle: variant",
    .attrs   = MR_DATASET_TYPES,
    .flags   = MR_NO_GRADIENT, MR_DATASET(sampling_dataset),
    .examples = MR_EXAMPLES(R TYPES ": r, 0.5, 1, 2 -> shape()"));
