/* ops/data/parallel.c -- datasets whose elements are computed ahead or in parallel: PrefetchDataset,
 * ParallelMapDataset, ParallelFilterDataset, MapAndBatchDataset, ParallelBatchDataset, ParallelInterleaveDataset.
 *
 * They give the same elements as their sequential counterparts. The order is kept unless the node, or the options
 * of the dataset, allow any order. */
#include "base/memory.h"
#include "ops/data/channel.h"
#include "ops/data/dataset.h"
#include "ops/data/parallel_map.h"
#include "ops/data/stack.h"

#define R "r = RangeDataset output_types=[int64] output_shapes=[[]]: 0, 10, 1; "
#define TYPES "output_types=[int64] output_shapes=[[]]"

enum {
    AHEAD = 4,           /* number of elements if none is given */
    MOST_AT_ONCE = 1024, /* elements that a batch asks for at a time */
};

/* ---- prefetch ---- */

typedef struct prefetch {
    mr_dataset base;
    int64_t ahead; /* 0: none */
} prefetch;

typedef struct prefetching {
    mr_iterator base;
    mr_channel *c;
} prefetching;

static mr_status *prefetch_open(mr_iterator *it)
{
    prefetching *p = (prefetching *)it;
    mr_iterator *input = NULL;
    int64_t ahead = ((prefetch *)it->dataset)->ahead;
    if (ahead == 0)
        return mr_iterator_open_input(it, 0, &it->input);
    p->c = mr_channel_new(it->env, ahead, NULL);
    mr_status *st = mr_iterator_open(it->dataset->inputs[0], mr_channel_env(p->c), it, &input);
    mr_channel_over(p->c, input);
    return st;
}

static mr_status *prefetch_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    prefetching *p = (prefetching *)it;
    if (!p->c)
        return mr_iterator_next(it->input, out, end);
    if (mr_iterator_attempt(it) && !mr_channel_ready(p->c))
        return mr_give_up(it);
    return mr_channel_next(p->c, out, end);
}

static mr_status *prefetch_next_block(mr_iterator *it, int64_t most, mr_tensor **out, int64_t *n, bool *end)
{
    prefetching *p = (prefetching *)it;
    return p->c ? mr_channel_next_block(p->c, most, out, n, end) : mr_iterator_next_block(it->input, most, out, n, end);
}

static void prefetch_close(mr_iterator *it) { mr_channel_close(((prefetching *)it)->c); }

static const mr_dataset_kind prefetch_kind = {"Prefetch", sizeof(prefetch), sizeof(prefetching), prefetch_open, prefetch_next,
                                              prefetch_close, mr_dataset_cardinality_of_input,
                                              .next_block = prefetch_next_block, .tries = true};

static mr_status *prefetch_dataset(mr_run *r)
{
    prefetch *d;
    int64_t n;
    MR_TRY(mr_in_scalar_int(r, 1, "buffer_size", &n));
    if (n < -1)
        return mr_invalid("buffer_size must be >= 0 or set buffer_size to be -1 for auto-tuning");
    MR_TRY(mr_dataset_new(r, &prefetch_kind, 0, 1, &d));
    d->ahead = n == -1 ? AHEAD : n;
    return mr_dataset_give(r, d, NULL);
}

MR_OP(PrefetchDataset,
    .doc     = "the same elements, up to buffer_size of them made ahead",
    .sig     = "input_dataset: variant, buffer_size: int64 -> handle: variant",
    .attrs   = MR_DATASET_TYPES "; slack_period: int = 0; legacy_autotune: bool = true; buffer_size_min: int = 0; metadata: string = ''",
    .flags   = MR_NO_GRADIENT, MR_DATASET(prefetch_dataset),
    .examples = MR_EXAMPLES(R TYPES ": r, 3 -> shape()", R TYPES ": r, -1 -> shape()",
                            R TYPES ": r, -2 -> !INVALID_ARGUMENT buffer_size must be >= 0"));

/* ---- map, filter, map and batch ---- */

typedef struct many_calls {
    mr_dataset base;
    mr_data_fn fn;
    int64_t most;
    int order; /* see mr_dataset_state */
    bool keeps_count;
    int64_t batch; /* of MapAndBatchDataset */
    bool drop_remainder;
} many_calls;

typedef struct calling {
    mr_iterator base;
    mr_parallel_map *m;
    bool ended;
} calling;

/* n_rets 0: a predicate, whose result follows the element. */
static mr_status *open_calls(mr_iterator *it, int n_rets)
{
    const many_calls *d = (many_calls *)it->dataset;
    mr_parallel_map_spec s = {it->dataset, &d->fn, 0, n_rets ? n_rets : 1, d->most,
                              mr_iterator_in_order(it, d->order), n_rets == 0, d->keeps_count};
    return mr_parallel_map_new(it, &s, &((calling *)it)->m);
}

static mr_status *map_open(mr_iterator *it) { return open_calls(it, it->dataset->n); }
static mr_status *filter_open(mr_iterator *it) { return open_calls(it, 0); }
static void calling_close(mr_iterator *it) { mr_parallel_map_close(((calling *)it)->m); }

static mr_status *map_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    return mr_parallel_map_next(((calling *)it)->m, mr_iterator_attempt(it), out, end);
}

static mr_status *map_next_block(mr_iterator *it, int64_t most, mr_tensor **out, int64_t *n, bool *end)
{
    return mr_parallel_map_next_block(((calling *)it)->m, most, out, n, end);
}

static int64_t map_count(const mr_dataset *d)
{
    return ((const many_calls *)d)->keeps_count ? mr_dataset_cardinality_of_input(d) : MR_CARDINALITY_UNKNOWN;
}

static mr_status *filter_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    int n = it->dataset->n;
    mr_tensor **all = mr_element_new(n + 1);
    mr_status *st = NULL;
    for (bool yes = false; !st && !*end && !yes;) {
        st = mr_parallel_map_next(((calling *)it)->m, NULL, all, end);
        if (st || *end)
            break;
        if (all[n]->dtype != MR_BOOL || all[n]->n != 1)
            st = mr_invalid("Function `%s` must return a scalar bool", ((many_calls *)it->dataset)->fn.f->name);
        else
            yes = *MR_DATA(bool, all[n]);
        for (int i = 0; yes && i < n; i++) {
            out[i] = all[i];
            all[i] = NULL;
        }
        mr_element_drop(all, n + 1);
        if (!yes && !st && mr_cancel_started(it->env->cancel))
            st = mr_error(MR_CANCELLED, "Iterator was cancelled");
    }
    mr_free(all);
    return st;
}

/* The elements of one batch.  An error counts as an element: the rest of its batch is read and dropped, so that it does
 * not change the batches after it. */
static mr_status *gather_batch(calling *c, const many_calls *d, mr_gathered *some)
{
    mr_status *first = NULL;
    for (int64_t left = d->batch; left > 0 && !c->ended;) {
        int64_t n = 0, wanted = MR_MIN(left, MOST_AT_ONCE);
        mr_status *st = mr_gathered_reserve(some, wanted);
        if (!st)
            st = mr_parallel_map_next_block(c->m, wanted, mr_gathered_at(some, some->n), &n, &c->ended);
        some->n += n;
        left -= n + (st != NULL);
        mr_status_update(&first, st);
        if (first)
            mr_gathered_drop(some, some->n);
        if (first && mr_cancel_started(c->base.env->cancel))
            break;
    }
    return first;
}

static mr_status *map_and_batch_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const many_calls *d = (many_calls *)it->dataset;
    calling *c = (calling *)it;
    mr_gathered some = {.width = d->base.n};
    mr_status *st = gather_batch(c, d, &some);
    *end = !st && (some.n == 0 || (d->drop_remainder && some.n < d->batch));
    for (int i = 0; !st && !*end && i < d->base.n; i++)
        st = mr_gathered_stack_last(&some, i, &out[i]);
    mr_gathered_deinit(&some);
    return st;
}

static int64_t map_and_batch_count(const mr_dataset *p)
{
    const many_calls *d = (const many_calls *)p;
    int64_t n = map_count(p);
    return n < 0 ? n : n / d->batch + (!d->drop_remainder && n % d->batch > 0);
}

static const mr_dataset_kind map_kind = {"ParallelMap", sizeof(many_calls), sizeof(calling), map_open, map_next, calling_close, map_count,
                                         .next_block = map_next_block, .tries = true};
static const mr_dataset_kind filter_kind = {"ParallelFilter", sizeof(many_calls), sizeof(calling), filter_open, filter_next,
                                            calling_close};
static const mr_dataset_kind map_and_batch_kind = {"MapAndBatch", sizeof(many_calls), sizeof(calling), map_open, map_and_batch_next,
                                                   calling_close, map_and_batch_count};

/* calls: the input that holds the number of parallel calls. */
static mr_status *new_many(mr_run *r, const mr_dataset_kind *k, int calls, bool own_types, many_calls **out)
{
    const mr_dataset_state *s = r->state;
    int first, n;
    int64_t most;
    MR_TRY(mr_node_in_range(r->node, "other_arguments", &first, &n));
    MR_TRY(mr_in_scalar_int(r, calls, "num_parallel_calls", &most));
    MR_TRY(mr_parallel_calls(most, &most));
    if (s->n_funcs < 1)
        return mr_invalid("%s '%s' has no function", r->node->def->name, r->node->name);
    MR_TRY(mr_dataset_new(r, k, 0, 1, out));
    many_calls *d = *out;
    mr_data_fn_init(&d->fn, &d->base, r, 0, first, n);
    d->most = most;
    d->order = s->order;
    d->keeps_count = s->keeps_count;
    if (own_types)
        mr_dataset_say_types(&d->base, s);
    return NULL;
}

static mr_status *parallel_map(mr_run *r)
{
    many_calls *d;
    MR_TRY(new_many(r, &map_kind, r->n_in - 1, true, &d));
    return mr_dataset_give(r, d, NULL);
}

static mr_status *parallel_filter(mr_run *r)
{
    many_calls *d;
    MR_TRY(new_many(r, &filter_kind, r->n_in - 1, false, &d));
    return mr_dataset_give(r, d, NULL);
}

static mr_status *map_and_batch(mr_run *r)
{
    many_calls *d;
    int64_t batch;
    bool drop;
    MR_TRY(mr_in_scalar_int(r, r->n_in - 3, "batch_size", &batch));
    MR_TRY(mr_in_scalar_bool(r, r->n_in - 1, "drop_remainder", &drop));
    if (batch <= 0)
        return mr_invalid("batch_size must be greater than zero.");
    MR_TRY(new_many(r, &map_and_batch_kind, r->n_in - 2, true, &d));
    d->order = 1; /* the op has no attr for another order */
    d->batch = batch;
    d->drop_remainder = drop;
    return mr_dataset_give(r, d, NULL);
}

MR_OP(ParallelMapDataset,
    .doc     = "f of each element, of up to num_parallel_calls at once",
    .sig     = "input_dataset: variant, other_arguments: Targuments, num_parallel_calls: int32 -> handle: variant",
    .attrs   = "f: func; Targuments: list(type) >= 0; " MR_DATASET_TYPES "; use_inter_op_parallelism: bool = true; sloppy: bool = false; "
               "preserve_cardinality: bool = false; metadata: string = ''",
    .flags   = MR_NO_GRADIENT, MR_DATASET(parallel_map));

MR_OP(ParallelMapDatasetV2,
    .doc     = "f of each element, of up to num_parallel_calls at once",
    .sig     = "input_dataset: variant, other_arguments: Targuments, num_parallel_calls: int64 -> handle: variant",
    .attrs   = "f: func; Targuments: list(type) >= 0; " MR_DATASET_TYPES "; use_inter_op_parallelism: bool = true; "
               "deterministic: string = 'default'; preserve_cardinality: bool = false; metadata: string = ''",
    .flags   = MR_NO_GRADIENT, MR_DATASET(parallel_map));

MR_OP(ParallelFilterDataset,
    .doc     = "the elements for which a predicate holds, asked of up to num_parallel_calls at once",
    .sig     = "input_dataset: variant, other_arguments: Targuments, num_parallel_calls: int64 -> handle: variant",
    .attrs   = "predicate: func; deterministic: string = 'default'; Targuments: list(type) >= 0; " MR_DATASET_ATTRS,
    .flags   = MR_NO_GRADIENT, MR_DATASET(parallel_filter));

MR_OP(MapAndBatchDataset,
    .doc     = "batches of f of each element",
    .sig     = "input_dataset: variant, other_arguments: Targuments, batch_size: int64, num_parallel_calls: int64, drop_remainder: bool"
               " -> handle: variant",
    .attrs   = "f: func; Targuments: list(type) >= 0; " MR_DATASET_TYPES "; preserve_cardinality: bool = false; metadata: string = ''",
    .flags   = MR_NO_GRADIENT, MR_DATASET(map_and_batch));

/* ---- interleave ----
 *
 * Up to cycle_length datasets are open at a time, each in a slot.  The slots are visited in turn, for block_length
 * elements at a visit.  The thread that asks for elements reads the input and calls the function, in the order of the
 * input.  A dataset that cannot be opened counts as one whose only element is the error, as in TensorFlow.
 *
 * If the order does not matter, a slot without a ready element is skipped; if no slot has one, the consumer waits
 * for the first that has. In this case each slot has a thread, and at most num_parallel_calls of them work at a
 * time. */

enum { MOST_THREADS = 64 }; /* per interleaving iterator; further datasets are iterated without a thread */

typedef struct interleave {
    mr_dataset base;
    mr_data_fn fn;
    int64_t cycle, block, ahead;
    int64_t most; /* datasets iterated at once */
    int order;    /* see mr_dataset_state */
} interleave;

typedef struct slot {
    mr_channel *c; /* elements computed ahead; otherwise: */
    mr_iterator *it;
    bool failed;   /* or it could not be opened: */
    mr_status *st; /* the reason, until it was returned */
} slot;

typedef struct interleaving {
    mr_iterator base;
    MR_VEC(slot) slots; /* slots of the cycle that were ever open */
    int64_t at, given;
    int n_open, n_threads;
    bool ended;
    mr_channel_set *any; /* the channels of all slots, if the order does not matter; else NULL */
} interleaving;

static mr_status *interleave_open(mr_iterator *it)
{
    const interleave *d = (interleave *)it->dataset;
    if (!mr_iterator_in_order(it, d->order))
        ((interleaving *)it)->any = mr_channel_set_new(d->most);
    return mr_iterator_open_input(it, 0, &it->input);
}

static void advance_cycle(interleaving *p, int64_t cycle)
{
    p->given = 0;
    p->at++;
    if (p->at >= cycle || (p->ended && p->at >= p->slots.n)) /* the rest of the cycle stays empty */
        p->at = 0;
}

static void close_slot(interleaving *p, slot *s)
{
    p->n_threads -= s->c != NULL;
    p->n_open--;
    mr_channel_close(s->c);
    mr_iterator_close(s->it);
    mr_status_free(s->st);
    *s = (slot){0};
}

static bool is_open(const slot *s) { return s->c || s->it || s->failed; }

/* Opens the dataset that f returns for an element, in a channel unless there are too many. The channel's thread
 * starts at once. */
static mr_status *open_dataset(interleaving *p, const interleave *d, mr_tensor **in, slot *out)
{
    mr_tensor *t = NULL;
    mr_dataset *inner;
    mr_iterator *it = NULL;
    slot s = {0};
    mr_status *st = NULL;
    MR_GO(mr_data_call(&d->fn, &p->base, in, d->base.inputs[0]->n, &t, 1));
    MR_GO(mr_dataset_of(t, &inner));
    MR_GO(mr_dataset_check_types(d->base.n, d->base.types, inner));
    if (p->n_threads < (p->any ? MOST_THREADS : d->most))
        s.c = mr_channel_new(p->base.env, d->ahead, p->any);
    MR_GO(mr_iterator_open(inner, s.c ? mr_channel_env(s.c) : p->base.env, &p->base, &it));
    if (s.c) {
        mr_channel_over(s.c, it);
        MR_GO(mr_channel_begin(s.c));
        p->n_threads++;
    } else {
        s.it = it;
    }
    *out = s;
    s = (slot){0};
out:
    mr_tensor_unref(t);
    mr_channel_close(s.c);
    return st;
}

/* Opens the next dataset in the slot at p->at, or stores there why that failed; or finds that there are no more. */
static void open_slot(interleaving *p, const interleave *d)
{
    int n = d->base.inputs[0]->n;
    slot made = {0};
    mr_tensor **in = mr_element_new(n);
    mr_status *st = mr_iterator_next(p->base.input, in, &p->ended);
    if (!st && !p->ended)
        st = open_dataset(p, d, in, &made);
    mr_element_drop(in, n);
    mr_free(in);
    if (p->ended) {
        if (p->at >= p->slots.n)
            p->at = 0;
        return;
    }
    if (st)
        made = (slot){.failed = true, .st = st};
    if (p->at >= p->slots.n)
        mr_vec_push(&p->slots, (slot){0});
    p->slots.p[p->at] = made;
    p->n_open++;
}

/* Opens all slots of the cycle before waiting for the first. */
static void open_cycle(interleaving *p, const interleave *d)
{
    int64_t was = p->at;
    while (!p->ended && p->slots.n < MR_MIN(d->cycle, p->any ? MOST_THREADS : d->most)) {
        p->at = p->slots.n;
        open_slot(p, d);
    }
    p->at = was;
}

static mr_status *slot_next(slot *s, mr_tensor **out, bool *end)
{
    mr_status *st = s->st;
    if (!s->failed)
        return s->c ? mr_channel_next(s->c, out, end) : mr_iterator_next(s->it, out, end);
    s->st = NULL;
    *end = !st;
    return st;
}

/* The open slot to take from, to which p->at is moved; NULL at the end of all. If the order matters, it is the next
 * open one in turn, and taking from it may wait; else it is one with an element ready, or at its end. */
static slot *next_slot(interleaving *p, const interleave *d)
{
    uint64_t seen = 0;
    int n_passed = 0; /* slots skipped since `seen` was read */
    open_cycle(p, d);
    while (!p->ended || p->n_open > 0) {
        slot *s = p->at < p->slots.n ? &p->slots.p[p->at] : NULL;
        if (!s || !is_open(s)) {
            if (p->ended)
                advance_cycle(p, d->cycle);
            else
                open_slot(p, d);
            n_passed = 0;
            continue;
        }
        if (p->any && n_passed == 0)
            seen = mr_channel_set_news(p->any);
        if (!p->any || !s->c || mr_channel_ready(s->c))
            return s;
        advance_cycle(p, d->cycle);
        if (++n_passed == p->n_open && (p->ended || p->n_open == d->cycle)) {
            mr_channel_set_wait(p->any, seen);
            n_passed = 0;
        }
    }
    return NULL;
}

static mr_status *interleave_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const interleave *d = (interleave *)it->dataset;
    interleaving *p = (interleaving *)it;
    for (slot *s; (s = next_slot(p, d));) {
        bool slot_end = false;
        mr_status *st = slot_next(s, out, &slot_end);
        if (!slot_end) { /* an error counts as an element of the block too */
            if (++p->given == d->block)
                advance_cycle(p, d->cycle);
            return st;
        }
        MR_ASSERT(!st);
        close_slot(p, s);
        advance_cycle(p, d->cycle);
    }
    *end = true;
    return NULL;
}

static void interleave_close(mr_iterator *it)
{
    interleaving *p = (interleaving *)it;
    for (int i = 0; i < p->slots.n; i++)
        if (is_open(&p->slots.p[i]))
            close_slot(p, &p->slots.p[i]);
    mr_vec_deinit(&p->slots);
    mr_channel_set_unref(p->any);
}

static const mr_dataset_kind interleave_kind = {"ParallelInterleave", sizeof(interleave), sizeof(interleaving),
                                                interleave_open, interleave_next, interleave_close};

/* Reads a scalar input by name; `otherwise` if the op does not have it. */
static mr_status *read_number(mr_run *r, const char *name, int64_t otherwise, int64_t *out)
{
    int i, n;
    *out = otherwise;
    if (mr_op_def_input(r->node->def, name) < 0)
        return NULL;
    MR_TRY(mr_node_in_range(r->node, name, &i, &n));
    return mr_in_scalar_int(r, i, name, out);
}

/* The first op has an input `sloppy`, which the options of the dataset do not override; the later ones have attrs. */
static mr_status *read_order(mr_run *r, const mr_dataset_state *s, int *out)
{
    int i, n;
    bool sloppy;
    *out = s->order;
    if (mr_op_def_input(r->node->def, "sloppy") < 0)
        return NULL;
    MR_TRY(mr_node_in_range(r->node, "sloppy", &i, &n));
    MR_TRY(mr_in_scalar_bool(r, i, "sloppy", &sloppy));
    *out = !sloppy;
    return NULL;
}

static mr_status *parallel_interleave(mr_run *r)
{
    interleave *d;
    const mr_dataset_state *s = r->state;
    int first, n, order;
    int64_t cycle, block, most, ahead, input_ahead;
    MR_TRY(mr_node_in_range(r->node, "other_arguments", &first, &n));
    MR_TRY(read_number(r, "cycle_length", 1, &cycle));
    MR_TRY(read_number(r, "block_length", 1, &block));
    MR_TRY(read_number(r, "num_parallel_calls", INT32_MAX, &most));
    MR_TRY(read_number(r, "buffer_output_elements", -1, &ahead));
    MR_TRY(read_number(r, "prefetch_input_elements", -1, &input_ahead));
    MR_TRY(read_order(r, s, &order));
    if (cycle == -1)
        cycle = MR_MIN(mr_cpu_count(), 16);
    if (cycle <= 0)
        return mr_invalid("`cycle_length` must be > 0");
    if (block <= 0)
        return mr_invalid("`block_length` must be > 0");
    if (ahead < -1 || ahead == 0)
        return mr_invalid("`buffer_output_elements` must be -1 or > 0 but is %lld", (long long)ahead);
    if (input_ahead < -1)
        return mr_invalid("`prefetch_input_elements` must be >= 0 but is %lld", (long long)input_ahead);
    MR_TRY(mr_parallel_calls(most, &most));
    if (s->n_funcs < 1)
        return mr_invalid("%s '%s' has no function", r->node->def->name, r->node->name);
    MR_TRY(mr_dataset_new(r, &interleave_kind, 0, 1, &d));
    mr_data_fn_init(&d->fn, &d->base, r, 0, first, n);
    d->cycle = MR_MIN(cycle, INT32_MAX);
    d->block = block;
    d->most = MR_MIN(most, MOST_THREADS);
    d->order = order;
    d->ahead = ahead == -1 ? MR_MAX(AHEAD, MR_MIN(block, 64)) : ahead;
    mr_dataset_say_types(&d->base, s);
    return mr_dataset_give(r, d, NULL);
}

MR_OP(ParallelInterleaveDataset,
    .doc     = "elements of the datasets that f makes of each element, of cycle_length in turn and made ahead",
    .sig     = "input_dataset: variant, other_arguments: Targuments, cycle_length: int64, block_length: int64, sloppy: bool, "
               "buffer_output_elements: int64, prefetch_input_elements: int64 -> handle: variant",
    .attrs   = "f: func; Targuments: list(type) >= 0; " MR_DATASET_ATTRS,
    .flags   = MR_NO_GRADIENT, MR_DATASET(parallel_interleave));

MR_OP(ParallelInterleaveDatasetV2,
    .doc     = "elements of the datasets that f makes of each element, of cycle_length in turn and made ahead",
    .sig     = "input_dataset: variant, other_arguments: Targuments, cycle_length: int64, block_length: int64, num_parallel_calls: int64"
               " -> handle: variant",
    .attrs   = "f: func; Targuments: list(type) >= 0; " MR_DATASET_TYPES "; sloppy: bool = false; metadata: string = ''",
    .flags   = MR_NO_GRADIENT, MR_DATASET(parallel_interleave));

MR_OP(ParallelInterleaveDatasetV3,
    .doc     = "elements of the datasets that f makes of each element, of cycle_length in turn and made ahead",
    .sig     = "input_dataset: variant, other_arguments: Targuments, cycle_length: int64, block_length: int64, num_parallel_calls: int64"
               " -> handle: variant",
    .attrs   = "f: func; deterministic: string = 'default'; Targuments: list(type) >= 0; " MR_DATASET_ATTRS,
    .flags   = MR_NO_GRADIENT, MR_DATASET(parallel_interleave));

MR_OP(ParallelInterleaveDatasetV4,
    .doc     = "elements of the datasets that f makes of each element, of cycle_length in turn and made ahead",
    .sig     = "input_dataset: variant, other_arguments: Targuments, cycle_length: int64, block_length: int64, buffer_output_elements: int64, "
               "prefetch_input_elements: int64, num_parallel_calls: int64 -> handle: variant",
    .attrs   = "f: func; deterministic: string = 'default'; Targuments: list(type) >= 0; " MR_DATASET_ATTRS,
    .flags   = MR_NO_GRADIENT, MR_DATASET(parallel_interleave));
