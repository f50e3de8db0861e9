/* tensor/variant.h -- operations on variants of any type: zeros, sums, and serialization.
 *
 * The type of a variant implements them (mr_object_type in tensor.h). An empty variant (NULL) is its own zero. Variants
 * may contain variants, at most MR_VARIANT_DEPTH levels deep; more are an error. */
#ifndef MR_TENSOR_VARIANT_H
#define MR_TENSOR_VARIANT_H

#include "base/vec.h"
#include "tensor/tensor.h"

enum { MR_VARIANT_DEPTH = 100 };

/* The parts of a value: a VariantTensorDataProto without the name of its type. */
typedef struct mr_variant_data {
    mr_str metadata;
    MR_VEC(mr_tensor *) tensors; /* owned */
} mr_variant_data;
void mr_variant_data_deinit(mr_variant_data *d);

/* A variant tensor of the shape of t with a zero for every element.  UNIMPLEMENTED for a type without zeros. */
mr_status *mr_variants_zeros_like(mr_allocator *a, const mr_tensor *t, mr_tensor **out);
/* Element-wise x + y; the shapes must be equal.  INVALID_ARGUMENT for two types, UNIMPLEMENTED for one without sums. */
mr_status *mr_variants_add(mr_allocator *a, const mr_tensor *x, const mr_tensor *y, mr_tensor **out);
/* A scalar variant tensor with the object; takes over the reference. */
mr_status *mr_variant_tensor(mr_object *o, mr_tensor **out);

/* Makes a type known to mr_variant_decode, by its name; once, at start. */
void mr_variant_register(const mr_object_type *type);
/* The types of single numbers that TensorFlow registers: "int", "float", "double", "bool". */
void mr_variant_register_numbers(void);
bool mr_variant_print_number(const mr_object *o, mr_str *out); /* false: the element is of another type */
/* VariantTensorDataProto both ways; o must not be NULL. */
mr_status *mr_variant_encode(const mr_object *o, mr_str *out);
mr_status *mr_variant_decode(mr_sv bytes, mr_object **out);

#endif
