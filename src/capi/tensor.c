/* capi/tensor.c -- TF_Tensor: a handle that holds one of our tensors. */
#include "capi/internal.h"

enum { ALIGNMENT = 64 };

TF_Tensor *mr_capi_tensor_new(mr_tensor *t)
{
    if (!t)
        return NULL;
    TF_Tensor *h = mr_small_alloc(sizeof *h); /* from a cache: a warm step allocates nothing */
    h->t = t;
    return h;
}

/* The handle, or NULL after an error: these functions have no status to put it in. */
static TF_Tensor *handle_or_null(mr_status *st, mr_tensor *t)
{
    mr_status_free(st);
    return st ? NULL : mr_capi_tensor_new(t);
}

static bool is_aligned(const void *p) { return (uintptr_t)p % ALIGNMENT == 0; }

TF_Tensor *TF_NewTensor(TF_DataType dtype, const int64_t *dims, int num_dims, void *data, size_t len,
                        void (*deallocator)(void *data, size_t len, void *arg), void *deallocator_arg)
{
    mr_tensor *foreign = NULL, *t = NULL;
    mr_status *st = mr_tensor_adopt((mr_dtype)dtype, num_dims, dims, data, len, deallocator, deallocator_arg, &foreign);
    if (st || is_aligned(data) || !mr_dtype_is_plain((mr_dtype)dtype))
        return handle_or_null(st, foreign);
    st = mr_tensor_copy(NULL, foreign, &t); /* as TensorFlow: not aligned, copied at once and given back */
    mr_tensor_unref(foreign);
    return handle_or_null(st, t);
}

static void free_extra(void *data, size_t len, void *arg)
{
    (void)arg;
    mr_allocator *a = mr_cpu_allocator();
    a->free(a, data, len);
}

/* More room than the shape needs, as some clients ask for. */
static mr_status *allocate_extra(TF_DataType dtype, const int64_t *dims, int num_dims, size_t len, mr_tensor **out)
{
    mr_allocator *a = mr_cpu_allocator();
    void *data = a->alloc(a, len);
    if (!data)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a tensor of %zu bytes", len);
    memset(data, 0, len); /* strings and handles must be valid from the start */
    return mr_tensor_adopt((mr_dtype)dtype, num_dims, dims, data, len, free_extra, NULL, out);
}

TF_Tensor *TF_AllocateTensor(TF_DataType dtype, const int64_t *dims, int num_dims, size_t len)
{
    mr_tensor *t = NULL;
    mr_status *st = mr_tensor_new(NULL, (mr_dtype)dtype, num_dims, dims, &t);
    if (!st && len > mr_tensor_bytes(t) && mr_dtype_is_plain((mr_dtype)dtype)) {
        mr_tensor_unref(t);
        t = NULL;
        st = allocate_extra(dtype, dims, num_dims, len, &t);
    }
    return handle_or_null(st, t);
}

TF_Tensor *TF_TensorMaybeMove(TF_Tensor *tensor) { return tensor && mr_tensor_sole(tensor->t) ? tensor : NULL; }

void TF_DeleteTensor(TF_Tensor *tensor)
{
    if (!tensor)
        return;
    mr_tensor_unref(tensor->t);
    mr_small_free(tensor, sizeof *tensor);
}

TF_DataType TF_TensorType(const TF_Tensor *tensor) { return (TF_DataType)tensor->t->dtype; }
int TF_NumDims(const TF_Tensor *tensor) { return tensor->t->rank; }

int64_t TF_Dim(const TF_Tensor *tensor, int i)
{
    return i >= 0 && i < tensor->t->rank ? tensor->t->dims[i] : -1;
}

size_t TF_TensorByteSize(const TF_Tensor *tensor) { return mr_tensor_buffer_bytes(tensor->t); }
void *TF_TensorData(const TF_Tensor *tensor) { return tensor->t->data; }
int64_t TF_TensorElementCount(const TF_Tensor *tensor) { return tensor->t->n; }
bool TF_TensorIsAligned(const TF_Tensor *tensor) { return is_aligned(tensor->t->data); }
size_t TF_TensorDefaultAlignment(void) { return ALIGNMENT; }

/* The handle now stands for t. */
static void become(TF_Tensor *to, mr_tensor *t)
{
    mr_tensor_unref(to->t);
    to->t = t;
}

void TF_TensorBitcastFrom(const TF_Tensor *from, TF_DataType type, TF_Tensor *to, const int64_t *new_dims,
                          int num_new_dims, TF_Status *status)
{
    mr_tensor *t = NULL;
    mr_status *st = mr_tensor_view(from->t, (mr_dtype)type, num_new_dims, new_dims, &t);
    if (!st)
        become(to, t);
    mr_capi_set_status(status, st);
}

void TF_SetShape(TF_Tensor *tensor, const int64_t *dims, int num_dims)
{
    mr_tensor *t = NULL;
    mr_status *st = mr_tensor_view(tensor->t, (mr_dtype)tensor->t->dtype, num_dims, dims, &t);
    if (!st)
        become(tensor, t);
    mr_status_free(st);
}

void TF_TensorFromProto(const TF_Buffer *from, TF_Tensor *to, TF_Status *status)
{
    mr_tensor *t = NULL;
    mr_status *st = mr_tensor_decode(NULL, mr_capi_buffer_view(from), &t);
    if (!st)
        become(to, t);
    mr_capi_set_status(status, st);
}

size_t TF_DataTypeSize(TF_DataType dt) { return mr_dtype_is_plain((mr_dtype)dt) ? mr_dtype_size((mr_dtype)dt) : 0; }
