#include "millrace/sketch.h"

#include "base/memory.h"
#include "capi/graph_fixture.h"
#include "tests/harness/test.h"

MR_TEST(ps_sketch_of_two_workers_adds_up)
{
    TF_Status *st = TF_NewStatus();
    mr_sketch *a = mr_sketch_new(1000, 3, 7, st), *b = mr_sketch_new(1024, 3, 7, st);
    MR_CHECK_INT(TF_GetCode(st), TF_OK);
    MR_CHECK(mr_sketch_size(a) == 3 * 1024 && mr_sketch_size(b) == 3 * 1024);
    mr_sketch_insert(a, (const uint64_t[]){1, 1, 2}, 3);
    mr_sketch_insert(b, (const uint64_t[]){1, 3}, 2);
    float *x = mr_new_array(float, 3 * 1024), *y = mr_new_array(float, 3 * 1024);
    mr_sketch_get(a, x);
    mr_sketch_get(b, y);
    for (int i = 0; i < 3 * 1024; i++)
        x[i] += y[i];
    mr_sketch_set(a, x);
    uint32_t counts[4];
    mr_sketch_counts(a, (const uint64_t[]){1, 2, 3, 4}, 4, counts);
    MR_CHECK(counts[0] == 3 && counts[1] == 1 && counts[2] == 1 && counts[3] == 0);
    mr_free(x), mr_free(y);
    mr_sketch_free(a), mr_sketch_free(b);
    mr_sketch_free(NULL);
    TF_DeleteStatus(st);
}

MR_TEST(ps_sketch_takes_any_counters)
{
    TF_Status *st = TF_NewStatus();
    mr_sketch *s = mr_sketch_new(1, 1, 7, st);
    const float odd[] = {NAN, INFINITY, -1, 1e30f, 5.5f};
    const uint32_t want[] = {0, UINT32_MAX, 0, UINT32_MAX, 5};
    for (int i = 0; i < 5; i++) {
        uint32_t count;
        mr_sketch_set(s, odd + i);
        mr_sketch_counts(s, &(uint64_t){9}, 1, &count);
        MR_CHECK_INT(count, want[i]);
    }
    mr_sketch_free(s);
    MR_CHECK(!mr_sketch_new(0, 1, 7, st));
    MR_CHECK_INT(TF_GetCode(st), TF_INVALID_ARGUMENT);
    TF_DeleteStatus(st);
}
