/* capi/tensor.c -- TF_Tensor: a handle that holds one of our tensors. */
#include "capi/internal.h"

enum { ALIGNMENT = 64 };

/* The bytes that a client sees of a scalar resource: its ResourceHandleProto. NULL for all other tensors. */
static mr_tensor *client_bytes(const mr_tensor *t)
{
    if (t->dtype != MR_RESOURCE || t->rank != 0)
        return NULL;
    mr_str proto = {0};
    const mr_handle *h = *MR_DATA(mr_handle *, t);
    if (h)
        mr_handle_encode(h, &proto);
    int64_t n = (int64_t)proto.n;
    mr_tensor *bytes = mr_tensor_of(MR_UINT8, 1, &n, proto.p);
    mr_str_deinit(&proto);
    return bytes;
}

TF_Tensor *mr_capi_tensor_new(mr_tensor *t)
{
    if (!t)
        return NULL;
    TF_Tensor *h = mr_small_alloc(sizeof *h); /* from a cache: a warm step allocates nothing */
    *h = (TF_Tensor){t, client_bytes(t), false};
    return h;
}

mr_status *mr_capi_tensor_value(const TF_Tensor *t, mr_tensor **out)
{
    mr_handle *h = NULL;
    if (!t)
        return mr_invalid("The tensor is NULL");
    if (!t->from_bytes || t->t->n == 0) {
        *out = mr_tensor_ref(t->t);
        return NULL;
    }
    if (t->t->dtype == MR_VARIANT)
        return mr_invalid("A variant tensor cannot be made from bytes");
    if (t->t->rank != 0)
        return mr_invalid("Malformed TF_RESOURCE tensor: expected a scalar, got a tensor with shape %s",
                          MR_TENSOR_SHAPE(t->t));
    mr_status *st = mr_handle_decode((mr_sv){t->bytes->data, (size_t)t->bytes->n}, &h);
    if (mr_status_code(st) == MR_INVALID_ARGUMENT || mr_status_code(st) == MR_DATA_LOSS) {
        mr_status_free(st);
        return mr_invalid("Malformed TF_RESOUCE tensor: unable to parse resource handle"); /* TensorFlow's spelling */
    }
    MR_TRY(st);
    st = mr_tensor_new(NULL, MR_RESOURCE, 0, NULL, out);
    if (st)
        mr_object_unref(&h->base);
    else
        *MR_DATA(mr_handle *, *out) = h;
    return st;
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

/* Types whose elements are pointers of ours: a client's bytes are kept beside them. */
static bool holds_objects(mr_dtype dtype) { return dtype == MR_RESOURCE || dtype == MR_VARIANT; }

/* A tensor of a type that holds objects, made from a client's bytes.  Consumes `bytes`, also when st is an error;
 * NULL then. */
static TF_Tensor *from_bytes(mr_dtype dtype, const int64_t *dims, int rank, mr_tensor *bytes, mr_status *st)
{
    mr_tensor *t = NULL;
    if (!st)
        st = mr_tensor_new(NULL, dtype, rank, dims, &t);
    if (st) {
        mr_status_free(st);
        mr_tensor_unref(bytes);
        return NULL;
    }
    TF_Tensor *h = mr_small_alloc(sizeof *h);
    *h = (TF_Tensor){t, bytes, true};
    return h;
}

/* Checks the shape and, for plain types, that there are enough bytes for it. Clients often pass
 * wrong sizes for strings and handles, so those get what they need. */
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

/* Copies all bytes into memory of ours, including those that the shape does not need. */
static mr_status *copy_in(mr_dtype dtype, const int64_t *dims, int rank, const void *data,
                          size_t len, mr_tensor **out)
{
    MR_TRY(mr_tensor_new_bytes(NULL, dtype, rank, dims, len, out));
    if (len)
        memcpy((*out)->data, data, len);
    return NULL;
}

/* Takes over the memory, also on failure: the deallocator is called once. The elements of resources and variants are
 * objects of ours, so for these types the bytes of the client are kept beside the tensor. */
TF_Tensor *TF_NewTensor(TF_DataType dtype, const int64_t *dims, int num_dims, void *data,
                        size_t len, void (*deallocator)(void *data, size_t len, void *arg),
                        void *deallocator_arg)
{
    mr_dtype type = (mr_dtype)dtype;
    mr_tensor *t = NULL;
    mr_status *st = NULL;
    bool sense = makes_sense(type, dims, num_dims, len);
    if (sense && holds_objects(type)) {
        int64_t n = (int64_t)len;
        st = mr_tensor_adopt(MR_UINT8, 1, &n, data, len, deallocator, deallocator_arg, &t);
        return from_bytes(type, dims, num_dims, t, st);
    }
    /* As in TensorFlow, memory that is not aligned is copied and released at once. */
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
    if (holds_objects((mr_dtype)dtype)) {
        int64_t n = (int64_t)len;
        mr_status *st = mr_tensor_new(NULL, MR_UINT8, 1, &n, &t);
        return from_bytes((mr_dtype)dtype, dims, num_dims, t, st);
    }
    mr_status *st = mr_tensor_new_bytes(NULL, (mr_dtype)dtype, num_dims, dims, len, &t);
    return handle_or_null(st, t);
}

TF_Tensor *TF_TensorMaybeMove(TF_Tensor *tensor)
{
    return tensor && !tensor->from_bytes && mr_tensor_sole(tensor->t) ? tensor : NULL;
}

void TF_DeleteTensor(TF_Tensor *tensor)
{
    if (!tensor)
        return;
    mr_tensor_unref(tensor->t);
    mr_tensor_unref(tensor->bytes);
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

/* The tensor whose memory a client reads and writes. */
static const mr_tensor *client_view(const TF_Tensor *tensor) { return tensor->bytes ? tensor->bytes : tensor->t; }

size_t TF_TensorByteSize(const TF_Tensor *tensor)
{
    return tensor ? mr_tensor_buffer_bytes(client_view(tensor)) : 0;
}

void *TF_TensorData(const TF_Tensor *tensor) { return tensor ? client_view(tensor)->data : NULL; }
int64_t TF_TensorElementCount(const TF_Tensor *tensor) { return tensor ? tensor->t->n : 0; }
bool TF_TensorIsAligned(const TF_Tensor *tensor) { return tensor && is_aligned(client_view(tensor)->data); }
size_t TF_TensorDefaultAlignment(void) { return ALIGNMENT; }

/* Replaces the value of the handle by t, whose reference is taken over. */
static void set_value(TF_Tensor *to, mr_tensor *t)
{
    mr_tensor_unref(to->t);
    mr_tensor_unref(to->bytes);
    *to = (TF_Tensor){t, client_bytes(t), false};
}

/* `to` becomes a view of from's value. */
static mr_status *become_view(const TF_Tensor *from, mr_dtype type, const int64_t *dims, int rank, TF_Tensor *to)
{
    mr_tensor *value, *t = NULL;
    MR_TRY(mr_capi_tensor_value(from, &value));
    mr_status *st = mr_tensor_view(value, type, rank, dims, &t);
    mr_tensor_unref(value);
    MR_TRY(st);
    set_value(to, t);
    return NULL;
}

void TF_TensorBitcastFrom(const TF_Tensor *from, TF_DataType type, TF_Tensor *to,
                          const int64_t *new_dims, int num_new_dims, TF_Status *status)
{
    mr_status *st = from && to ? become_view(from, (mr_dtype)type, new_dims, num_new_dims, to)
                               : mr_invalid("The tensor is NULL");
    mr_capi_set_status(status, st);
}

void TF_SetShape(TF_Tensor *tensor, const int64_t *dims, int num_dims)
{
    if (tensor)
        mr_status_free(become_view(tensor, (mr_dtype)tensor->t->dtype, dims, num_dims, tensor));
}

void TF_TensorFromProto(const TF_Buffer *from, TF_Tensor *to, TF_Status *status)
{
    mr_tensor *t = NULL;
    mr_status *st = from && to ? mr_tensor_decode(NULL, mr_capi_buffer_view(from), &t)
                               : mr_invalid("from or to is NULL");
    if (!st)
        set_value(to, t);
    mr_capi_set_status(status, st);
}

size_t TF_DataTypeSize(TF_DataType dt)
{
    return mr_dtype_is_plain((mr_dtype)dt) ? mr_dtype_size((mr_dtype)dt) : 0;
}
