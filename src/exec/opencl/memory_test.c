/* exec/opencl/memory_test.c -- the allocator, over buffers of a driver that only counts them. */
#include <string.h>

#include "base/memory.h"
#include "exec/opencl/opencl.h"
#include "tests/harness/test.h"

enum { BLOCKS = 200, ROUNDS = 20000 };

static int n_buffers, n_allowed;

static mr_status *buffer_new(mr_cl_device *d, size_t bytes, void **out)
{
    (void)d, (void)bytes;
    if (n_buffers == n_allowed)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no more");
    *out = mr_alloc(1);
    n_buffers++;
    return NULL;
}

static void buffer_free(void *buffer)
{
    mr_free(buffer);
    n_buffers--;
}

static const mr_cl_driver counting = {.buffer_new = buffer_new, .buffer_free = buffer_free};

static mr_allocator *begin(mr_opencl_memory **m, uint64_t limit, uint64_t max_buffer)
{
    n_allowed = 1000;
    *m = mr_opencl_memory_new(&counting, NULL, "test", limit, max_buffer);
    return mr_opencl_allocator(*m);
}

typedef struct piece {
    char *p;
    size_t bytes;
} piece;

static bool overlap(const piece *a, const piece *b)
{
    return a->p && b->p && a->p < b->p + b->bytes && b->p < a->p + a->bytes;
}

MR_TEST(opencl_memory_hands_out_blocks_that_never_overlap)
{
    mr_opencl_memory *m;
    mr_allocator *a = begin(&m, UINT64_C(1) << 30, UINT64_C(1) << 28);
    piece all[BLOCKS] = {{0}};
    mr_allocator_stats s;
    for (int i = 0; i < ROUNDS; i++) {
        piece *x = &all[mr_test_random() % BLOCKS];
        if (x->p) {
            a->free(a, x->p, x->bytes);
            *x = (piece){0};
            continue;
        }
        size_t bytes = (size_t)(mr_test_random() % (UINT64_C(1) << mr_test_random() % 21));
        *x = (piece){a->alloc(a, bytes), bytes};
        MR_CHECK(x->p && (uintptr_t)x->p % 64 == 0);
        for (int k = 0; k < BLOCKS; k++)
            MR_CHECK(&all[k] == x || !overlap(&all[k], x));
        void *buffer;
        size_t at;
        MR_CHECK_OK(mr_opencl_find(m, x->p, x->bytes, &buffer, &at));
    }
    for (int k = 0; k < BLOCKS; k++)
        if (all[k].p)
            a->free(a, all[k].p, all[k].bytes);
    mr_allocator_get_stats(a, &s);
    MR_CHECK_INT(s.in_use, 0);
    mr_allocator_trim(a);
    MR_CHECK_INT(n_buffers, 0); /* all pieces were joined again */
    mr_opencl_memory_free(m);
}

MR_TEST(opencl_memory_has_a_limit)
{
    mr_opencl_memory *m;
    mr_allocator *a = begin(&m, 1 << 20, 1 << 19);
    MR_CHECK(!a->alloc(a, (1 << 20) + 1));
    MR_CHECK(!a->alloc(a, (1 << 19) + 1)); /* no buffer can be so large */
    MR_CHECK(!a->alloc(a, SIZE_MAX));
    void *x = a->alloc(a, 1 << 19), *y = a->alloc(a, 1 << 19);
    MR_CHECK(x && y && !a->alloc(a, 1));
    a->free(a, x, 1 << 19);
    MR_CHECK(a->alloc(a, 1));
    mr_opencl_memory_free(m);
}

/* What is kept in chunks of the wrong size is given back when it is needed in another. */
MR_TEST(opencl_memory_that_is_kept_does_not_stand_in_the_way)
{
    mr_opencl_memory *m;
    mr_allocator *a = begin(&m, UINT64_C(64) << 20, UINT64_C(64) << 20);
    void *small = a->alloc(a, 100);
    a->free(a, small, 100);
    MR_CHECK_INT(n_buffers, 1);
    MR_CHECK(a->alloc(a, (size_t)48 << 20));
    MR_CHECK_INT(n_buffers, 1);
    mr_opencl_memory_free(m);
}

MR_TEST(opencl_memory_refused_by_the_driver_is_refused)
{
    mr_opencl_memory *m;
    mr_allocator *a = begin(&m, 1 << 20, 1 << 20);
    n_allowed = 0;
    MR_CHECK(!a->alloc(a, 100));
    mr_opencl_memory_free(m);
}

MR_TEST(opencl_memory_does_not_know_other_addresses)
{
    mr_opencl_memory *m;
    void *buffer;
    size_t at;
    int other;
    mr_allocator *a = begin(&m, 1 << 20, 1 << 20);
    char *p = a->alloc(a, 512);
    MR_CHECK_OK(mr_opencl_find(m, p + 100, 12, &buffer, &at));
    MR_CHECK_ERR(mr_opencl_find(m, &other, sizeof other, &buffer, &at), MR_INTERNAL, "not in the memory of test");
    MR_CHECK_ERR(mr_opencl_find(m, p, 2 << 20, &buffer, &at), MR_INTERNAL, "not in the memory of test");
    mr_opencl_memory_free(m);
}
