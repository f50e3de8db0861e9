/* ops/ragged/ragged.c -- checks row splits, and sets outputs to them. */
#include "ops/ragged/ragged.h"

static mr_status *check_splits(const mr_tensor *t, int64_t total)
{
    if (t->rank != 1 || t->n < 1)
        return mr_invalid("Ragged splits may not be empty and must be a vector, got shape %s",
                          MR_TENSOR_SHAPE(t));
    if (mr_tensor_int_at(t, 0) != 0)
        return mr_invalid("Ragged splits must start at 0, got %lld",
                          (long long)mr_tensor_int_at(t, 0));
    for (int64_t i = 1; i < t->n; i++)
        if (mr_tensor_int_at(t, i) < mr_tensor_int_at(t, i - 1))
            return mr_invalid("Ragged splits must be sorted: entry %lld is smaller than the one before it",
                              (long long)i);
    return mr_tensor_int_at(t, t->n - 1) == total
               ? NULL
               : mr_invalid("Final value of ragged splits must match the length of the "
                            "corresponding ragged values: %lld and %lld",
                            (long long)mr_tensor_int_at(t, t->n - 1), (long long)total);
}

mr_status *mr_ragged_check(mr_tensor *const *splits, int n, const mr_tensor *values)
{
    if (n > 0 && values->rank < 1)
        return mr_invalid("ragged values must be at least a vector, got shape %s",
                          MR_TENSOR_SHAPE(values));
    for (int i = 0; i < n; i++) {
        bool last = i == n - 1;
        if (!last && (splits[i + 1]->rank != 1 || splits[i + 1]->n < 1))
            return mr_invalid("Ragged splits may not be empty and must be vectors, got shape %s",
                              MR_TENSOR_SHAPE(splits[i + 1]));
        MR_TRY(check_splits(splits[i], last ? values->dims[0] : splits[i + 1]->n - 1));
    }
    return NULL;
}

mr_status *mr_give_splits(mr_run *r, int i, int64_t n, const int64_t *v)
{
    mr_tensor *out;
    MR_TRY(mr_run_output(r, i, 1, &n, &out));
    for (int64_t k = 0; k < n; k++) {
        if (out->dtype == MR_INT64)
            MR_DATA(int64_t, out)[k] = v[k];
        else if (v[k] > INT32_MAX)
            return mr_invalid("row split %lld does not fit int32", (long long)v[k]);
        else
            MR_DATA(int32_t, out)[k] = (int32_t)v[k];
    }
    return NULL;
}
