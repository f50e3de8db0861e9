/* tensor/tensor_of.c -- small tensors from values, for graphs and tests.
 *
 * They have no way to fail, so what cannot be made ends the process, as mr_alloc would. */
#include "tensor/tensor.h"

#include "base/memory.h"

/* The message names the tensor. A bad type or shape here is a bug of ours. */
static void check_success(mr_status *st)
{
    if (MR_UNLIKELY(st != NULL))
        mr_assert_failed(__FILE__, __LINE__, mr_status_message(st));
}

/* Tests refuse one allocation at a time; only memory that is really out ends the process. */
static bool was_refused(mr_status *st)
{
    bool refused = mr_status_code(st) == MR_RESOURCE_EXHAUSTED;
    if (refused)
        mr_status_free(st);
    else
        check_success(st);
    return refused;
}

static mr_tensor *make_tensor(mr_dtype dtype, int rank, const int64_t *dims)
{
    mr_tensor *t = NULL;
    if (was_refused(mr_tensor_new(NULL, dtype, rank, dims, &t)))
        check_success(mr_tensor_new(NULL, dtype, rank, dims, &t));
    return t;
}

static void set_element(mr_tensor *t, int64_t i, mr_sv v)
{
    if (was_refused(mr_tensor_set_str(t, i, v)))
        check_success(mr_tensor_set_str(t, i, v));
}

mr_tensor *mr_tensor_of(mr_dtype dtype, int rank, const int64_t *dims, const void *values)
{
    mr_tensor *t = make_tensor(dtype, rank, dims);
    if (dtype == MR_STRING)
        for (int64_t i = 0; i < t->n; i++)
            set_element(t, i, mr_sv_of(((const char *const *)values)[i]));
    else if (dtype == MR_RESOURCE || dtype == MR_VARIANT)
        for (int64_t i = 0; i < t->n; i++)
            MR_DATA(mr_object *, t)[i] = mr_object_ref(((mr_object *const *)values)[i]);
    else if (t->n)
        memcpy(t->data, values, mr_tensor_bytes(t));
    return t;
}

mr_tensor *mr_tensor_scalar_f32(float v) { return mr_tensor_of(MR_FLOAT, 0, NULL, &v); }
mr_tensor *mr_tensor_scalar_i32(int32_t v) { return mr_tensor_of(MR_INT32, 0, NULL, &v); }
mr_tensor *mr_tensor_scalar_i64(int64_t v) { return mr_tensor_of(MR_INT64, 0, NULL, &v); }
mr_tensor *mr_tensor_scalar_bool(bool v) { return mr_tensor_of(MR_BOOL, 0, NULL, &v); }

mr_tensor *mr_tensor_scalar_str(mr_sv v)
{
    mr_tensor *t = mr_tensor_of(MR_STRING, 0, NULL, &(const char *){""});
    set_element(t, 0, v);
    return t;
}

mr_tensor *mr_tensor_vector_i32(int n, const int32_t *v)
{
    return mr_tensor_of(MR_INT32, 1, (int64_t[]){n}, v);
}
mr_tensor *mr_tensor_vector_i64(int n, const int64_t *v)
{
    return mr_tensor_of(MR_INT64, 1, (int64_t[]){n}, v);
}

mr_tensor *mr_tensor_vector_str(int n, const char *const *v)
{
    return mr_tensor_of(MR_STRING, 1, (int64_t[]){n}, v);
}
