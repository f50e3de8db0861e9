/* ops/data/cache.c -- keeps the elements of the first pass: CacheDataset, CacheDatasetV2, in memory or in files.
 *
 * An iterator that finds no cache builds one and publishes it for all others when it reaches the end; an iterator
 * that is closed before leaves nothing. In memory a cache is an object that the dataset holds, or a resource. In
 * files it is a bundle (store/bundle.h) whose names are the number of the element and that of the component, as
 * TensorFlow writes it; it appears completely or not at all. */
#include <stdio.h>

#include "base/memory.h"
#include "ops/data/dataset.h"
#include "ops/data/iterator_resource.h"
#include "ops/data/stack.h"
#include "store/bundle.h"

#define R "r = RangeDataset output_types=[int64] output_shapes=[[]]: 0, 10, 1; "
#define TYPES "output_types=[int64] output_shapes=[[]]"

/* ---- in memory ---- */

typedef struct memory {
    mr_object base;
    mr_mutex mu;
    bool whole MR_GUARDED_BY(mu);
    mr_gathered all; /* written once, before `whole` is set */
} memory;

static void memory_free(mr_object *o)
{
    memory *m = (memory *)o;
    mr_gathered_deinit(&m->all);
    mr_mutex_deinit(&m->mu);
    mr_free(m);
}

static const mr_object_type memory_type = {.name = "tensorflow::data::MemoryCacheManager", .free = memory_free};

static memory *new_memory(void)
{
    memory *m = mr_new(memory);
    mr_object_init(&m->base, &memory_type);
    mr_mutex_init(&m->mu);
    return m;
}

static bool is_whole(memory *m)
{
    mr_lock(&m->mu);
    bool whole = m->whole;
    mr_unlock(&m->mu);
    return whole;
}

/* The first iterator that reaches the end publishes its elements. */
static void give_memory(memory *m, mr_gathered *all)
{
    mr_lock(&m->mu);
    if (!m->whole) {
        m->all = *all;
        *all = (mr_gathered){.width = all->width};
        m->whole = true;
    }
    mr_unlock(&m->mu);
}

typedef struct cache {
    mr_dataset base;
    memory *memory; /* NULL: in files of this prefix */
    const char *prefix;
} cache;

typedef struct caching {
    mr_iterator base;
    bool begun, reads, ended;
    int64_t at;
    mr_gathered mine;         /* elements so far, in memory */
    mr_bundle *in;
    mr_bundle_writer *out;
} caching;

static mr_status *read_memory(caching *c, const cache *d, mr_tensor **out, bool *end)
{
    const mr_gathered *all = &d->memory->all;
    if ((*end = c->at >= all->n))
        return NULL;
    if (all->width != d->base.n)
        return mr_invalid("The cache holds elements of %d components, expected %d", all->width, d->base.n);
    for (int i = 0; i < d->base.n; i++)
        out[i] = mr_tensor_ref(mr_gathered_at(all, c->at)[i]);
    c->at++;
    return NULL;
}

static mr_status *keep_in_memory(caching *c, const cache *d, mr_tensor **out, bool end)
{
    if (end) {
        c->mine.width = d->base.n;
        give_memory(d->memory, &c->mine);
        return NULL;
    }
    c->mine.width = d->base.n;
    for (int i = 0; i < d->base.n; i++)
        mr_tensor_ref(out[i]);
    return mr_gathered_push(&c->mine, out);
}

/* ---- in files ---- */

static int count_digits(int n)
{
    int k = 1;
    for (; n >= 10; n /= 10)
        k++;
    return k;
}

static mr_sv key_of(char *buf, size_t size, int64_t element, int i, int n)
{
    int len = snprintf(buf, size, "%10lld_%*d", (long long)element, count_digits(n), i);
    return (mr_sv){buf, (size_t)len};
}

static mr_status *read_files(caching *c, const cache *d, mr_tensor **out, bool *end)
{
    char buf[64];
    mr_bundle_entry e;
    mr_status *st = mr_bundle_lookup(c->in, key_of(buf, sizeof buf, c->at, 0, d->base.n), &e);
    if ((*end = mr_status_code(st) == MR_NOT_FOUND)) {
        mr_status_free(st);
        return NULL;
    }
    MR_TRY(st);
    for (int i = 0; i < d->base.n; i++)
        MR_TRY(mr_bundle_read(c->in, key_of(buf, sizeof buf, c->at, i, d->base.n), NULL, &out[i]));
    c->at++;
    return NULL;
}

static mr_status *keep_in_files(caching *c, const cache *d, mr_tensor **out, bool end)
{
    char buf[64];
    mr_status *st = NULL;
    if (end) {
        if (c->out)
            st = mr_bundle_finish(c->out);
        mr_bundle_writer_free(c->out);
        c->out = NULL;
        return st;
    }
    for (int i = 0; c->out && i < d->base.n; i++)
        MR_TRY(mr_bundle_add(c->out, key_of(buf, sizeof buf, c->at, i, d->base.n), out[i]));
    c->at++;
    return NULL;
}

static mr_status *begin_pass(caching *c, const cache *d)
{
    c->reads = d->memory ? is_whole(d->memory) : mr_bundle_exists(d->prefix);
    c->begun = true;
    if (!c->reads)
        MR_TRY(mr_iterator_open_input(&c->base, 0, &c->base.input));
    if (d->memory)
        return NULL;
    return c->reads ? mr_bundle_open(d->prefix, &c->in) : mr_bundle_writer_new(d->prefix, &c->out);
}

/* ---- both ---- */

static mr_status *cache_open(mr_iterator *it) { return (void)it, NULL; }

/* An error is passed on but not cached, as in TensorFlow: the second pass does not have it. */
static mr_status *cache_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const cache *d = (cache *)it->dataset;
    caching *c = (caching *)it;
    if (!d->memory)
        MR_TRY(mr_give_up(it)); /* files may be slow */
    if (!c->begun)
        MR_TRY(begin_pass(c, d));
    if (c->reads)
        return d->memory ? read_memory(c, d, out, end) : read_files(c, d, out, end);
    MR_TRY(mr_iterator_next(it->input, out, end));
    if (c->ended)
        return NULL;
    c->ended = *end;
    return d->memory ? keep_in_memory(c, d, out, *end) : keep_in_files(c, d, out, *end);
}

static void cache_close(mr_iterator *it)
{
    caching *c = (caching *)it;
    mr_gathered_deinit(&c->mine);
    mr_bundle_writer_free(c->out);
    if (c->in)
        mr_bundle_close(c->in);
}

static void cache_free(mr_dataset *d)
{
    if (((cache *)d)->memory)
        mr_object_unref(&((cache *)d)->memory->base);
}

static const mr_dataset_kind cache_kind = {"Cache", sizeof(cache), sizeof(caching), cache_open, cache_next, cache_close,
                                           mr_dataset_cardinality_of_input, cache_free, .tries = true};

/* Takes ownership of memory; NULL: creates a new one. */
static mr_status *make_cache(mr_run *r, memory *m)
{
    cache *d = NULL;
    const mr_tensor *name = mr_in(r, 1);
    mr_status *st = name->rank == 0 ? mr_dataset_new(r, &cache_kind, 0, 1, &d) : mr_invalid("filename must be a scalar");
    mr_sv path = st ? MR_SV("") : mr_tensor_str_at(name, 0);
    if (st || path.n > 0) {
        if (m)
            mr_object_unref(&m->base);
        m = NULL;
    } else if (!m) {
        m = new_memory();
    }
    if (st)
        return st;
    if (memchr(path.p, '\0', path.n))
        st = mr_invalid("filename contains a NUL byte");
    d->memory = m;
    d->prefix = mr_arena_strndup(&d->base.arena, path.p, path.n);
    return mr_dataset_give(r, d, st);
}

static mr_status *cache_dataset(mr_run *r) { return make_cache(r, NULL); }

static mr_status *cache_dataset_v2(mr_run *r)
{
    const mr_tensor *t = mr_in(r, 2);
    const mr_handle *h = t->n == 1 ? *MR_DATA(mr_handle *, t) : NULL;
    memory *m = NULL;
    if (h && strcmp(h->type_name, memory_type.name) == 0)
        MR_TRY(mr_run_resource(r, 2, &memory_type, (mr_object **)&m));
    return make_cache(r, m);
}

MR_OP(CacheDataset,
    .doc     = "the same elements, kept in memory or in files from the first time over",
    .sig     = "input_dataset: variant, filename: string -> handle: variant",
    .attrs   = MR_DATASET_ATTRS,
    .flags   = MR_NO_GRADIENT, MR_DATASET(cache_dataset),
    .examples = MR_EXAMPLES(R TYPES ": r, \"\" -> shape()"));

MR_OP(CacheDatasetV2,
    .doc     = "the same elements, kept in a cache or in files from the first time over",
    .sig     = "input_dataset: variant, filename: string, cache: resource -> handle: variant",
    .attrs   = MR_DATASET_ATTRS,
    .flags   = MR_STATEFUL | MR_NO_GRADIENT, MR_DATASET(cache_dataset_v2),
    .examples = MR_EXAMPLES(R "c = AnonymousMemoryCache; " TYPES ": r, \"\", c -> shape()"));

static mr_status *memory_cache(mr_run *r)
{
    memory *m = new_memory();
    mr_tensor *handle = NULL, *deleter = NULL;
    mr_status *st = mr_nameless_handle(r, &m->base, &handle);
    mr_object_unref(&m->base);
    MR_TRY(st);
    if ((st = mr_deleter_tensor(r, handle, &deleter))) {
        mr_tensor_unref(handle);
        return st;
    }
    mr_run_set(r, 0, handle);
    mr_run_set(r, 1, deleter);
    return NULL;
}

MR_OP(AnonymousMemoryCache,
    .doc     = "a cache of elements",
    .sig     = "-> handle: resource, deleter: variant",
    .flags   = MR_STATEFUL | MR_NO_GRADIENT,
    .shape   = mr_shape_scalar,
    .kernels = MR_KERNELS(MR_CPU_ANY(memory_cache)),
    .examples = MR_EXAMPLES("-> shape(), shape()"));

MR_OP(DeleteMemoryCache,
    .doc     = "deletes a cache of elements",
    .sig     = "handle: resource, deleter: variant ->",
    .flags   = MR_STATEFUL | MR_NO_GRADIENT,
    .shape   = mr_shape_none,
    .kernels = MR_KERNELS(MR_CPU_ANY(mr_delete_handle)),
    .examples = MR_EXAMPLES("c = AnonymousMemoryCache; : c, c:1 ->"));
