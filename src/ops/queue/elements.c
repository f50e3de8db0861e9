/* ops/queue/elements.c -- see elements.h. */
#include "ops/queue/elements.h"

#include "base/memory.h"

static mr_tensor **tuple_at(const mr_elements *e, int64_t i)
{
    MR_ASSERT(i >= 0 && i < e->room);
    return e->ring + (e->head + i) % e->room * e->n;
}

static void copy_tuple(const mr_elements *e, mr_tensor **to, mr_tensor *const *from)
{
    memcpy(to, from, sizeof *to * (size_t)e->n);
}

void mr_elements_init(mr_elements *e, int n_tensors)
{
    MR_ASSERT(n_tensors > 0);
    *e = (mr_elements){.n = n_tensors};
}

void mr_elements_deinit(mr_elements *e)
{
    for (int64_t i = 0; i < e->count; i++)
        for (int c = 0; c < e->n; c++)
            mr_tensor_unref(tuple_at(e, i)[c]);
    mr_free(e->ring);
}

/* ---- room ---- */

static mr_status *grow_ring(mr_elements *e, int64_t room)
{
    size_t slots, bytes;
    mr_tensor **ring = NULL;
    if (mr_size_mul((size_t)room, (size_t)e->n, &slots) &&
        mr_size_mul(slots, sizeof *ring, &bytes))
        ring = mr_try_alloc(bytes);
    if (!ring)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld elements in a queue",
                        (long long)room);
    for (int64_t i = 0; i < e->count; i++)
        copy_tuple(e, ring + i * e->n, tuple_at(e, i));
    mr_free(e->ring);
    e->ring = ring;
    e->room = room;
    e->head = 0;
    return NULL;
}

mr_status *mr_elements_reserve(mr_elements *e, int64_t count)
{
    if (count <= e->room)
        return NULL;
    return grow_ring(e, MR_MAX(count, MR_MAX(16, 2 * e->room)));
}

/* ---- putting ---- */

mr_tensor **mr_elements_next(mr_elements *e) { return tuple_at(e, e->count); }

void mr_elements_put(mr_elements *e)
{
    MR_ASSERT(e->count < e->room);
    e->count++;
}

void mr_elements_return_first(mr_elements *e, mr_tensor *const *tuple)
{
    MR_ASSERT(e->count < e->room);
    e->head = (e->head + e->room - 1) % e->room;
    e->count++;
    copy_tuple(e, tuple_at(e, 0), tuple);
}

void mr_elements_return_last(mr_elements *e, mr_tensor *const *tuple)
{
    copy_tuple(e, mr_elements_next(e), tuple);
    mr_elements_put(e);
}

/* ---- in order, at random ---- */

void mr_elements_take_first(mr_elements *e, mr_tensor **out)
{
    MR_ASSERT(e->count > 0);
    copy_tuple(e, out, tuple_at(e, 0));
    e->head = (e->head + 1) % e->room;
    e->count--;
}

/* Removes element i; the last element takes its place. */
static void take_at(mr_elements *e, int64_t i, mr_tensor **out)
{
    copy_tuple(e, out, tuple_at(e, i));
    e->count--;
    if (i != e->count)
        copy_tuple(e, tuple_at(e, i), tuple_at(e, e->count));
}

static uint32_t next_word(mr_elements *e)
{
    if (e->n_words == 0) {
        mr_philox_next(&e->random, e->words);
        e->n_words = 4;
    }
    return e->words[4 - e->n_words--];
}

void mr_elements_take_random(mr_elements *e, mr_tensor **out)
{
    MR_ASSERT(e->count > 0);
    take_at(e, (int64_t)next_word(e) % e->count, out);
}

/* ---- by priority: a heap, the children of i being 2i+1 and 2i+2 ---- */

static int64_t priority_of(const mr_elements *e, int64_t i)
{
    return *MR_DATA(int64_t, tuple_at(e, i)[0]);
}

static void swap_tuples(mr_elements *e, int64_t i, int64_t k)
{
    mr_tensor **a = tuple_at(e, i), **b = tuple_at(e, k);
    for (int c = 0; c < e->n; c++) {
        mr_tensor *t = a[c];
        a[c] = b[c];
        b[c] = t;
    }
}

void mr_elements_put_by_priority(mr_elements *e)
{
    mr_elements_put(e);
    for (int64_t i = e->count - 1; i > 0 && priority_of(e, i) < priority_of(e, (i - 1) / 2);
         i = (i - 1) / 2)
        swap_tuples(e, i, (i - 1) / 2);
}

void mr_elements_return_by_priority(mr_elements *e, mr_tensor *const *tuple)
{
    copy_tuple(e, mr_elements_next(e), tuple);
    mr_elements_put_by_priority(e);
}

void mr_elements_take_smallest(mr_elements *e, mr_tensor **out)
{
    MR_ASSERT(e->count > 0);
    take_at(e, 0, out);
    for (int64_t i = 0, child; (child = 2 * i + 1) < e->count; i = child) {
        if (child + 1 < e->count && priority_of(e, child + 1) < priority_of(e, child))
            child++;
        if (priority_of(e, i) <= priority_of(e, child))
            break;
        swap_tuples(e, i, child);
    }
}
