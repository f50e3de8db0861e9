/* tensor/tensor.h -- a typed, shaped, reference-counted array.
 *
 * A tensor is a header (type, shape, where the data starts) over a buffer; several headers may
 * share one buffer (reshapes, rows of a batch). After its producer is done, a tensor is never
 * written again, except by the holder of the only reference to both header and buffer
 * (mr_tensor_sole): that is how kernels reuse the memory of an input for their output. A TF_Tensor
 * of the C API is a separate handle that holds a reference to one of these (capi/internal.h).
 *
 * Element storage: plain types as in C; strings TF_TString; resources mr_handle *; variants
 * mr_object *.  Elements of the last three are owned by the buffer.  Foreign memory may be less
 * than 64-byte aligned: kernels use unaligned loads. */
#ifndef MR_TENSOR_TENSOR_H
#define MR_TENSOR_TENSOR_H

#include "base/thread.h"
#include "tensor/allocator.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"
#include "tensorflow/core/platform/ctstring.h"

typedef struct mr_buffer mr_buffer;

typedef struct mr_tensor {
    mr_refs refs;
    uint8_t dtype; /* mr_dtype, never a ref type */
    uint8_t rank;
    bool readonly;  /* set on values that are shared for long (of a Const): never sole */
    void *data;     /* first element; valid but unreadable when n == 0 */
    int64_t n;      /* elements */
    mr_buffer *buf; /* owner of data */
    int64_t dims[]; /* rank of them */
} mr_tensor;

/* New, from an allocator (NULL: the CPU's).  Plain elements are unset, strings empty, handles NULL.
 * INVALID_ARGUMENT for a bad type or shape, RESOURCE_EXHAUSTED "OOM when allocating tensor with
 * shape[..] and type .. on .. by allocator ..". */
mr_status *mr_tensor_new(mr_allocator *a, mr_dtype dtype, int rank, const int64_t *dims,
                         mr_tensor **out);
mr_status *mr_tensor_zeros(mr_allocator *a, mr_dtype dtype, int rank, const int64_t *dims,
                           mr_tensor **out);
/* The same with a buffer of at least `bytes` (TF_AllocateTensor). */
mr_status *mr_tensor_new_bytes(mr_allocator *a, mr_dtype dtype, int rank, const int64_t *dims,
                               size_t bytes, mr_tensor **out);
/* A tensor without data, for ops that read nothing but a shape and a type. The shape may be larger than memory. */
mr_status *mr_tensor_shape_only(mr_dtype dtype, int rank, const int64_t *dims, mr_tensor **out);
/* Makes a tensor of memory that belongs to the caller. free(data, bytes, arg) is called once, when
 * the last reference is dropped, or when this call fails; it may be NULL. bytes may exceed what the
 * shape needs. The caller keeps ownership of strings and handles in it. Data that is not aligned
 * for its element type is copied and freed at once. */
mr_status *mr_tensor_adopt(mr_dtype dtype, int rank, const int64_t *dims, void *data, size_t bytes,
                           void (*free)(void *data, size_t bytes, void *arg), void *arg,
                           mr_tensor **out);
mr_tensor *mr_tensor_ref(const mr_tensor *t); /* NULL gives NULL */
void mr_tensor_unref(mr_tensor *t);           /* NULL is fine */

/* Another header over the same buffer: same total bytes, any type of plain elements or the same
 * type.  (A copy where the data is not aligned for the new type: foreign bytes at an odd address as
 * floats.) */
mr_status *mr_tensor_view(const mr_tensor *t, mr_dtype dtype, int rank, const int64_t *dims,
                          mr_tensor **out);
/* Rows start..start+n of dimension 0, sharing the buffer. */
mr_status *mr_tensor_rows(const mr_tensor *t, int64_t start, int64_t n, mr_tensor **out);
/* A copy that shares nothing. */
mr_status *mr_tensor_copy(mr_allocator *a, const mr_tensor *t, mr_tensor **out);
/* Copies n elements, with their strings and handles, into a tensor that no one else uses yet.
 * RESOURCE_EXHAUSTED if there is no memory for a string; in host memory nothing else can fail. */
mr_status *mr_tensor_try_copy_elements(mr_tensor *dst, int64_t at, const mr_tensor *src,
                                       int64_t from, int64_t n);

/* Whether this is the only reference to header and buffer, and the memory is ours: then it may be overwritten. */
bool mr_tensor_sole(const mr_tensor *t);
/* Whether this process may read and write the data; if not, only its device can (allocator.h). */
bool mr_tensor_on_host(const mr_tensor *t);
bool mr_tensor_shares_buffer(const mr_tensor *a, const mr_tensor *b);
size_t mr_tensor_bytes(const mr_tensor *t); /* n * element size */
/* As given at creation (TF_TensorByteSize); for a view of a part, the bytes of that part. */
size_t mr_tensor_buffer_bytes(const mr_tensor *t);
bool mr_tensor_same_shape(const mr_tensor *a, const mr_tensor *b);
/* Same type, shape and bits (strings by content). */
bool mr_tensor_equal(const mr_tensor *a, const mr_tensor *b);
void mr_tensor_zero(mr_tensor *t); /* all elements 0, "", NULL; host memory */

/* Values printed as Assert and Print do: at most `limit` entries (-1: all).  Floats with as many
 * digits as bring them back (6, or 9; doubles 15 or 17), strings with C escapes, as TensorFlow. */
void mr_tensor_summarize(const mr_tensor *t, int64_t limit, mr_str *out);
const char *mr_tensor_shape_text(const mr_tensor *t, char *buf, size_t n);
#define MR_TENSOR_SHAPE(t) MR_SHAPE_TEXT((t)->rank, (t)->dims)

#define MR_DATA(T, t) ((T *)(t)->data)

/* Convenience for graphs and tests: small tensors from values; they end the process on no memory.
 * The values of mr_tensor_of are elements as stored; for strings, const char *. */
mr_tensor *mr_tensor_of(mr_dtype dtype, int rank, const int64_t *dims, const void *values);
mr_tensor *mr_tensor_scalar_f32(float v);
mr_tensor *mr_tensor_scalar_i32(int32_t v);
mr_tensor *mr_tensor_scalar_i64(int64_t v);
mr_tensor *mr_tensor_scalar_bool(bool v);
mr_tensor *mr_tensor_scalar_str(mr_sv v);
mr_tensor *mr_tensor_vector_i32(int n, const int32_t *v);
mr_tensor *mr_tensor_vector_i64(int n, const int64_t *v);
mr_tensor *mr_tensor_vector_str(int n, const char *const *v);
/* Element i of an int32 or int64 tensor. */
int64_t mr_tensor_int_at(const mr_tensor *t, int64_t i);
/* Element i of a string tensor (bounds of OFFSET strings are checked: outside gives ""). */
mr_sv mr_tensor_str_at(const mr_tensor *t, int64_t i);
mr_status *mr_tensor_set_str(mr_tensor *t, int64_t i, mr_sv v); /* RESOURCE_EXHAUSTED */

/* TensorProto both ways, all packings and the splat rule (the last value fills the rest).  Few bytes may legally
 * mean a large tensor: what the splat rule adds to the given values is limited to MR_SPLAT_MAX
 * bytes (RESOURCE_EXHAUSTED), as much as a message could carry in full. */
#define MR_SPLAT_MAX ((size_t)1 << 31)
mr_status *mr_tensor_decode(mr_allocator *a, mr_sv bytes, mr_tensor **out);
/* The same where type and shape are known from elsewhere and those in the bytes are ignored (V1
 * checkpoints leave them out). */
mr_status *mr_tensor_decode_as(mr_allocator *a, mr_dtype dtype, int rank, const int64_t *dims,
                               mr_sv bytes, mr_tensor **out);
/* tensor_content for plain types of more than one element, typed fields otherwise. */
mr_status *mr_tensor_encode(const mr_tensor *t, mr_str *out);
/* The same without the bytes of tensor_content, which follow `out` directly and are a view of the
 * tensor's memory: for senders that do not copy. *content is empty if `out` is the whole message. */
mr_status *mr_tensor_encode_head(const mr_tensor *t, mr_str *out, mr_sv *content);

/* ---- elements of resource and variant tensors ---- */
typedef struct mr_object mr_object;
struct mr_variant_data;
typedef struct mr_object_type {
    const char *name;         /* "tensorflow::Var", a variant's type_name */
    void (*free)(mr_object *); /* called when the last reference is dropped */
    /* What values of variant tensors can do besides (tensor/variant.h calls these); each may be NULL.
     * An object that a tensor holds is shared, so none of them changes one: they make new ones. */
    mr_status *(*zeros_like)(const mr_object *o, mr_allocator *a, mr_object **out);
    mr_status *(*add)(const mr_object *x, const mr_object *y, mr_allocator *a, mr_object **out);
    /* As bytes and tensors for a VariantTensorDataProto, and back; decode serves those types only that are
     * registered (mr_variant_register). */
    mr_status *(*encode)(const mr_object *o, struct mr_variant_data *out);
    mr_status *(*decode)(const struct mr_variant_data *d, mr_object **out);
} mr_object_type;
struct mr_object { /* the first member of every object that is shared by reference count */
    mr_refs refs;
    const mr_object_type *type;
};
void mr_object_init(mr_object *o, const mr_object_type *type);
mr_object *mr_object_ref(mr_object *o);
/* NULL is fine.  Objects that hold objects may be nested to any depth: the stack does not grow with it. */
void mr_object_unref(mr_object *o);

/* The name of a resource: its device, container, name and type. Immutable. */
typedef struct mr_handle {
    mr_object base;
    const char *device, *container, *name, *type_name;
    uint64_t type_hash;
    int n_parts; /* dtypes and shapes, when known */
    struct mr_handle_part {
        mr_dtype dtype;
        const mr_pshape *shape;
    } *parts;
    mr_object *object; /* the resource itself, owned, if it has no name; otherwise NULL */
    mr_arena arena;
} mr_handle;
mr_handle *mr_handle_new(const char *device, const char *container, const char *name,
                         const char *type_name, int n_parts, const struct mr_handle_part *parts);
/* ResourceHandleProto. */
mr_status *mr_handle_decode(mr_sv bytes, mr_handle **out);
void mr_handle_encode(const mr_handle *h, mr_str *out);

#endif
