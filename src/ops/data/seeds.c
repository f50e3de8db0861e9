/* ops/data/seeds.c -- seeds, and the resources that generate them. */
#include "ops/data/seeds.h"

#include <sys/random.h>

#include "base/clock.h"
#include "base/memory.h"
#include "ops/data/iterator_resource.h"

static uint64_t draw_seed(void)
{
    uint64_t v = 0;
    if (getrandom(&v, sizeof v, GRND_NONBLOCK) != (ssize_t)sizeof v)
        v = (uint64_t)mr_now_ns() * 0x9e3779b97f4a7c15u;
    return v;
}

mr_status *mr_seeds_read(mr_run *r, int i, mr_seeds *out)
{
    MR_TRY(mr_in_scalar_int(r, i, "seed", &out->seed));
    MR_TRY(mr_in_scalar_int(r, i + 1, "seed2", &out->seed2));
    if (out->seed == 0 && out->seed2 == 0)
        *out = (mr_seeds){(int64_t)draw_seed(), (int64_t)draw_seed()};
    return NULL;
}

/* The key is the first seed, the upper half of the counter the second. */
mr_words mr_seeds_stream(mr_seeds s)
{
    uint64_t a = (uint64_t)s.seed, b = (uint64_t)s.seed2;
    mr_philox p = {{0, 0, (uint32_t)b, (uint32_t)(b >> 32)}, {(uint32_t)a, (uint32_t)(a >> 32)}};
    return mr_words_at(p, 0);
}

static void source_free(mr_object *o)
{
    mr_seed_source *s = (mr_seed_source *)o;
    mr_mutex_deinit(&s->mu);
    mr_free(s);
}

const mr_object_type mr_seed_source_type = {.name = "tensorflow::data::SeedGeneratorManager", .free = source_free};

mr_seed_source *mr_seed_source_new(mr_seeds seeds, bool reshuffle)
{
    mr_seed_source *s = mr_new(mr_seed_source);
    mr_object_init(&s->base, &mr_seed_source_type);
    mr_mutex_init(&s->mu);
    s->seeds = seeds;
    s->reshuffle = reshuffle;
    s->words = mr_seeds_stream(seeds);
    return s;
}

mr_seeds mr_seed_source_next(mr_seed_source *s)
{
    mr_lock(&s->mu);
    mr_seeds next = s->seeds;
    if (s->reshuffle) {
        next.seed = (int64_t)mr_words_next(&s->words);
        next.seed2 = (int64_t)mr_words_next(&s->words);
        s->given++;
    }
    mr_unlock(&s->mu);
    return next;
}

mr_seed_place mr_seed_source_place(mr_seed_source *s)
{
    mr_lock(&s->mu);
    mr_seed_place p = {s->seeds, s->given};
    mr_unlock(&s->mu);
    return p;
}

void mr_seed_source_return(mr_seed_source *s, const mr_seed_place *p)
{
    mr_lock(&s->mu);
    s->seeds = p->seeds;
    s->given = p->given;
    s->words = mr_words_at(mr_seeds_stream(p->seeds).p, 2 * (uint64_t)p->given);
    mr_unlock(&s->mu);
}

mr_status *mr_seed_source_in(mr_run *r, int i, mr_seed_source **out)
{
    const mr_tensor *t = mr_in(r, i);
    const mr_handle *h = t->n == 1 ? *MR_DATA(mr_handle *, t) : NULL;
    *out = NULL;
    if (!h || strcmp(h->type_name, mr_seed_source_type.name) != 0)
        return NULL;
    return mr_run_resource(r, i, &mr_seed_source_type, (mr_object **)out);
}

/* ---- the resources ---- */

static mr_status *make_seed_source(mr_run *r, bool reshuffle)
{
    mr_seeds seeds;
    mr_tensor *handle = NULL, *deleter = NULL;
    MR_TRY(mr_seeds_read(r, 0, &seeds));
    mr_seed_source *s = mr_seed_source_new(seeds, reshuffle);
    mr_status *st = mr_nameless_handle(r, &s->base, &handle);
    mr_object_unref(&s->base);
    MR_TRY(st);
    if ((st = mr_deleter_tensor(r, handle, &deleter))) {
        mr_tensor_unref(handle);
        return st;
    }
    mr_run_set(r, 0, handle);
    mr_run_set(r, 1, deleter);
    return NULL;
}

static mr_status *seed_generator(mr_run *r)
{
    bool reshuffle;
    MR_TRY(mr_in_scalar_bool(r, 2, "reshuffle", &reshuffle));
    return make_seed_source(r, reshuffle);
}

static mr_status *random_seed_generator(mr_run *r) { return make_seed_source(r, true); }

MR_OP(AnonymousSeedGenerator,
    .doc     = "hands out seeds: new ones for each iteration, or the same again",
    .sig     = "seed: int64, seed2: int64, reshuffle: bool -> handle: resource, deleter: variant",
    .flags   = MR_STATEFUL | MR_NO_GRADIENT,
    .shape   = mr_shape_scalar,
    .kernels = MR_KERNELS(MR_CPU_ANY(seed_generator)),
    .examples = MR_EXAMPLES("1, 2, true -> shape(), shape()", "0, 0, false -> shape(), shape()"));

MR_OP(AnonymousRandomSeedGenerator,
    .doc     = "hands out new seeds for each iteration",
    .sig     = "seed: int64, seed2: int64 -> handle: resource, deleter: variant",
    .flags   = MR_STATEFUL | MR_NO_GRADIENT,
    .shape   = mr_shape_scalar,
    .kernels = MR_KERNELS(MR_CPU_ANY(random_seed_generator)),
    .examples = MR_EXAMPLES("1, 2 -> shape(), shape()"));

#define DELETE(make_it)                                                                                      \
    .sig = "handle: resource, deleter: variant ->", .flags = MR_STATEFUL | MR_NO_GRADIENT, .shape = mr_shape_none, \
    .kernels = MR_KERNELS(MR_CPU_ANY(mr_delete_handle)), .examples = MR_EXAMPLES("g = " make_it "; : g, g:1 ->")

MR_OP(DeleteSeedGenerator, .doc = "deletes a generator of seeds", DELETE("AnonymousSeedGenerator: 1, 2, true"));
MR_OP(DeleteRandomSeedGenerator, .doc = "deletes a generator of seeds", DELETE("AnonymousRandomSeedGenerator: 1, 2"));
