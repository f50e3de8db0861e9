/* ops/random/philox.c -- the random stream of a kernel. */
#include "ops/random/philox.h"

#include "base/clock.h"
#include "base/deterministic.h"

/* A seed for deterministic mode: fixed, but different for each node name (FNV-1a). */
static int64_t seed_of(const char *name)
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * UINT64_C(1099511628211);
    return (int64_t)h;
}

mr_status *mr_random_init(mr_make *m, void *state)
{
    mr_random_state *s = state;
    int64_t seed, seed2;
    mr_mutex_init(&s->mu);
    MR_TRY(mr_node_get_int(m->node, "seed", &seed));
    MR_TRY(mr_node_get_int(m->node, "seed2", &seed2));
    if (seed == 0 && seed2 == 0 && mr_deterministic()) {
        seed = seed_of(m->node->name);
        seed2 = 1;
    } else if (seed == 0 && seed2 == 0) {
        seed = (int64_t)mr_random64();
        seed2 = (int64_t)mr_random64();
    }
    s->next = (mr_philox){{0, 0, (uint32_t)seed2, (uint32_t)((uint64_t)seed2 >> 32)},
                          {(uint32_t)seed, (uint32_t)((uint64_t)seed >> 32)}};
    return NULL;
}

void mr_random_deinit(void *state) { mr_mutex_deinit(&((mr_random_state *)state)->mu); }

mr_philox mr_random_reserve(mr_random_state *s, uint64_t blocks)
{
    mr_lock(&s->mu);
    mr_philox p = s->next;
    mr_philox_skip(&s->next, blocks);
    mr_unlock(&s->mu);
    return p;
}
