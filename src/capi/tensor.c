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

mr_status *mr_capi_tensor_own(mr_tensor *t, TF_Tensor **out)
{
    mr_tensor *copy = NULL;
    *out = NULL;
    if (!mr_tensor_sole(t)) {
        mr_status *st = mr_tensor_copy(NULL, t, &copy);
        mr_tensor_unref(t);
        MR_TRY(st);
        t = copy;
    }
    *out = mr_capi_tensor_new(t);
    return NULL;
}

/* The handle, or NULL after an error: these functions have no status to put it in. */
static TF_Tensor *handle_or_null(mr_status *st, mr_tensor *t)
{
    mr_status_free(st);
    return st ? NULL : mr_capi_tensor_new(t);
}

static bool is_aligned(const void *p) { return (uintptr_t)p % ALIGNMENT == 0; }

/* A shape that can be, and for plain types enough bytes for it.  Clients have odd ideas of how many
 * bytes strings and handles take, so those get what they need. */
static bool makes_sense(mr_dtype dtype, const int64_t *dims, int rank, size_t len)
{
    int64_t n;
    size_t bytes = 0;
    if (rank < 0 || (rank && !dims) || !mr_dtype_valid((int)dtype))
        return false;
    mr_status *st = mr_shape_elements(rank, dims, &n);
    mr_status_free(st);
    if (st || !mr_dtype_is_plain(dtype))
        return !st;
    return mr_size_mul((size_t)n, mr_dtype_size(dtype), &bytes) && bytes <= len;
}

/* Our own memory with these bytes, all of them, also those that the shape does not need. */
static mr_status *copy_in(mr_dtype dtype, const int64_t *dims, int rank, const void *data,
                          size_t len, mr_tensor **out)
{
    MR_TRY(mr_tensor_new_bytes(NULL, dtype, rank, dims, len, out));
    if (len)
        memcpy((*out)->data, data, len);
    return NULL;
}

TF_Tensor *TF_NewTensor(TF_DataType dtype, const int64_t *dims, int num_dims, void *data,
                        size_t len, void (*deallocator)(void *data, size_t len, void *arg),
                        void *deallocator_arg)
{
    mr_dtype type = (mr_dtype)dtype;
    mr_tensor *t = NULL;
    mr_status *st = NULL;
    bool sense = makes_sense(type, dims, num_dims, len);
    /* As TensorFlow: what is not aligned is copied at once and given back. */
    bool copy = data && !is_aligned(data) && mr_dtype_is_plain(type);
    if (sense && !copy) {
        st = mr_tensor_adopt(type, num_dims, dims, data, len, deallocator, deallocator_arg, &t);
        return handle_or_null(st, t);
    }
    if (sense)
        st = copy_in(type, dims, num_dims, data, len, &t);
    if (deallocator)
        deallocator(data, len, deallocator_arg);
    return handle_or_null(st, t);
}

TF_Tensor *TF_AllocateTensor(TF_DataType dtype, const int64_t *dims, int num_dims, size_t len)
{
    mr_tensor *t = NULL;
    if (!makes_sense((mr_dtype)dtype, dims, num_dims, len))
        return NULL;
    mr_status *st = mr_tensor_new_bytes(NULL, (mr_dtype)dtype, num_dims, dims, len, &t);
    return handle_or_null(st, t);
}

TF_Tensor *TF_TensorMaybeMove(TF_Tensor *tensor)
{
    return tensor && mr_tensor_sole(tensor->t) ? tensor : NULL;
}

void TF_DeleteTensor(TF_Tensor *tensor)
{
    if (!tensor)
        return;
    mr_tensor_unref(tensor->t);
    mr_small_free(tensor, sizeof *tensor);
}

TF_DataType TF_TensorType(const TF_Tensor *tensor)
{
    return tensor ? (TF_DataType)tensor->t->dtype : (TF_DataType)0;
}

int TF_NumDims(const TF_Tensor *tensor) { return tensor ? tensor->t->rank : -1; }

int64_t TF_Dim(const TF_Tensor *tensor, int dim_index)
{
    if (!tensor || dim_index < 0 || dim_index >= tensor->t->rank)
        return -1;
    return tensor->t->dims[dim_index];
}

size_t TF_TensorByteSize(const TF_Tensor *tensor)
{
    return tensor ? mr_tensor_buffer_bytes(tensor->t) : 0;
}

void *TF_TensorData(const TF_Tensor *tensor) { return tensor ? tensor->t->data : NULL; }
int64_t TF_TensorElementCount(const TF_Tensor *tensor) { return tensor ? tensor->t->n : 0; }
bool TF_TensorIsAligned(const TF_Tensor *tensor) { return tensor && is_aligned(tensor->t->data); }
size_t TF_TensorDefaultAlignment(void) { return ALIGNMENT; }

/* The handle now stands for t. */
static void become(TF_Tensor *to, mr_tensor *t)
{
    mr_tensor_unref(to->t);
    to->t = t;
}

void TF_TensorBitcastFrom(const TF_Tensor *from, TF_DataType type, TF_Tensor *to,
                          const int64_t *new_dims, int num_new_dims, TF_Status *status)
{
    mr_tensor *t = NULL;
    mr_status *st = from && to ? mr_tensor_view(from->t, (mr_dtype)type, num_new_dims, new_dims, &t)
                               : mr_invalid("There is no tensor");
    if (!st)
        become(to, t);
    mr_capi_set_status(status, st);
}

void TF_SetShape(TF_Tensor *tensor, const int64_t *dims, int num_dims)
{
    mr_tensor *t = NULL;
    if (!tensor)
        return;
    mr_status *st = mr_tensor_view(tensor->t, (mr_dtype)tensor->t->dtype, num_dims, dims, &t);
    if (!st)
        become(tensor, t);
    mr_status_free(st);
}

void TF_TensorFromProto(const TF_Buffer *from, TF_Tensor *to, TF_Status *status)
{
    mr_tensor *t = NULL;
    mr_status *st = from && to ? mr_tensor_decode(NULL, mr_capi_buffer_view(from), &t)
                               : mr_invalid("There is no buffer, or no tensor");
    if (!st)
        become(to, t);
    mr_capi_set_status(status, st);
}

size_t TF_DataTypeSize(TF_DataType dt)
{
    return mr_dtype_is_plain((mr_dtype)dt) ? mr_dtype_size((mr_dtype)dt) : 0;
}
