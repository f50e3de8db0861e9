/* graph/attr.h -- the value of a node's attribute, and the constraints an op puts on it.
 *
 * An mr_attr is immutable and lives in the arena of the graph (or op definition) that holds it; mr_attr_copy moves one
 * to another arena. A tensor value keeps its serialized TensorProto until the tensor is needed, so importing and
 * exporting a graph does not decode it. */
#ifndef MR_GRAPH_ATTR_H
#define MR_GRAPH_ATTR_H

#include "base/vec.h"
#include "tensor/tensor.h"

typedef enum mr_attr_kind { /* the numbers are TF_AttrType + 1 */
    MR_ATTR_NONE = 0,
    MR_ATTR_STRING,
    MR_ATTR_INT,
    MR_ATTR_FLOAT,
    MR_ATTR_BOOL,
    MR_ATTR_TYPE,
    MR_ATTR_SHAPE,
    MR_ATTR_TENSOR,
    MR_ATTR_PLACEHOLDER, /* "$T" inside a function body: s holds the name */
    MR_ATTR_FUNC,
} mr_attr_kind;

typedef struct mr_attr mr_attr;
typedef struct mr_named_attr mr_named_attr;

typedef struct mr_func_ref { /* a function by name, with values for its attrs */
    const char *name;
    int n_attrs;
    const mr_named_attr *attrs;
} mr_func_ref;

typedef struct mr_tensor_attr {
    mr_sv raw;    /* serialized TensorProto; p == NULL if only t is set */
    mr_tensor *t; /* owned by the owner of the arena, through its mr_tensor_vec; may be NULL */
    /* The memory of raw if it is large: bytes shared by all copies of the attr, owned like t, and placed so that
     * tensor_content is aligned and can be the data of a tensor. NULL: raw is in the arena. */
    mr_tensor *blob;
} mr_tensor_attr;

struct mr_attr {
    mr_attr_kind kind;
    bool is_list; /* then n values in the plural member; an empty list may have kind NONE */
    int n;
    union {
        mr_sv s;
        int64_t i;
        float f;
        bool b;
        int type; /* mr_dtype, may be a ref type */
        const mr_pshape *shape;
        const mr_tensor_attr *tensor;
        const mr_func_ref *func;
        const mr_sv *ss;
        const int64_t *is;
        const float *fs;
        const bool *bs;
        const int *types;
        const mr_pshape *const *shapes;
        const mr_tensor_attr *const *tensors;
        const mr_func_ref *const *funcs;
    };
};

struct mr_named_attr {
    const char *name;
    mr_attr v;
};

/* Values for builder calls: borrowed until the call returns. */
static inline mr_attr mr_a_str(const char *s)
{
    return (mr_attr){MR_ATTR_STRING, .s = mr_sv_of(s)};
}
static inline mr_attr mr_a_sv(mr_sv s) { return (mr_attr){MR_ATTR_STRING, .s = s}; }
static inline mr_attr mr_a_int(int64_t i) { return (mr_attr){MR_ATTR_INT, .i = i}; }
static inline mr_attr mr_a_float(float f) { return (mr_attr){MR_ATTR_FLOAT, .f = f}; }
static inline mr_attr mr_a_bool(bool b) { return (mr_attr){MR_ATTR_BOOL, .b = b}; }
static inline mr_attr mr_a_type(int t) { return (mr_attr){MR_ATTR_TYPE, .type = t}; }
static inline mr_attr mr_a_shape(const mr_pshape *s)
{
    return (mr_attr){MR_ATTR_SHAPE, .shape = s};
}
static inline mr_attr mr_a_ints(int n, const int64_t *v)
{
    return (mr_attr){MR_ATTR_INT, true, n, .is = v};
}
static inline mr_attr mr_a_types(int n, const int *v)
{
    return (mr_attr){MR_ATTR_TYPE, true, n, .types = v};
}
static inline mr_attr mr_a_strs(int n, const mr_sv *v)
{
    return (mr_attr){MR_ATTR_STRING, true, n, .ss = v};
}
static inline mr_attr mr_a_shapes(int n, const mr_pshape *const *v)
{
    return (mr_attr){MR_ATTR_SHAPE, true, n, .shapes = v};
}

/* Deep copy into an arena.  Tensors are referenced; the copy's references are appended to `held`
 * (MR_VEC of mr_tensor *), whose owner drops them with the arena. */
typedef MR_VEC(mr_tensor *) mr_tensor_vec;
mr_attr mr_attr_copy(mr_arena *a, mr_tensor_vec *held, const mr_attr *v);
bool mr_attr_eq(const mr_attr *a, const mr_attr *b);
uint64_t mr_attr_hash(const mr_attr *v, uint64_t seed);
/* For people and error messages: `"SAME"`, `DT_FLOAT`, `[1, 2]`. */
void mr_attr_print(mr_str *out, const mr_attr *v);
/* "int", "list(type)" */
void mr_attr_type_name(mr_str *out, mr_attr_kind kind, bool is_list);

/* Where decoding keeps what it reads. */
typedef struct mr_attr_room {
    mr_arena *arena;
    mr_tensor_vec *held;     /* references to large tensors, which get buffers of their own; NULL: they go to the arena */
    const mr_tensor *source; /* has the bytes that are read, and never changes: large tensors whose elements are aligned
                              * there stay where they are; NULL: the bytes do not outlive the call */
} mr_attr_room;

/* Encoding and decoding of AttrValue. */
mr_status *mr_attr_decode(mr_arena *a, mr_sv bytes, mr_attr *out);
struct mr_pb_reader;
struct mr_pb_writer;
mr_status *mr_attr_read(const mr_attr_room *room, struct mr_pb_reader *r, mr_attr *out);
mr_status *mr_attr_encode(const mr_attr *v, mr_str *out);
mr_status *mr_attr_write(const mr_attr *v, struct mr_pb_writer *w); /* running out of memory is recorded in w */
/* A map<string, AttrValue> field of a message: reads one entry into *out; writes n entries. */
mr_status *mr_named_attr_read(const mr_attr_room *room, struct mr_pb_reader *r, mr_named_attr *out);
mr_status *mr_named_attrs_write(const mr_named_attr *v, int n, uint32_t field,
                                struct mr_pb_writer *w);
/* Sorts by name and drops all but the last of equal names. *n becomes the number of remaining entries. */
mr_status *mr_named_attrs_sort(mr_named_attr *v, int *n);
/* In a sorted list; NULL when absent. */
const mr_attr *mr_named_attrs_find(const mr_named_attr *v, int n, const char *name);

/* The tensor of an attr, decoded when needed; the caller owns the result. */
mr_status *mr_attr_tensor(const mr_tensor_attr *v, mr_tensor **out);
/* A serialized TensorProto as a value; in a blob, or where it is, if it is large and the room permits it. */
mr_status *mr_tensor_attr_of(const mr_attr_room *room, mr_sv raw, const mr_tensor_attr **out);
/* Its type and shape without decoding the values: a few bytes may represent gigabytes. */
mr_status *mr_tensor_attr_shape(const mr_tensor_attr *v, mr_dtype *dtype, mr_shape *shape);
bool mr_tensor_attr_eq(const mr_tensor_attr *a, const mr_tensor_attr *b);
uint64_t mr_tensor_attr_hash(const mr_tensor_attr *v, uint64_t seed);

#endif
