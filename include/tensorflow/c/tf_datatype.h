/* tensorflow/c/tf_datatype.h -- the element types of tensors.
 *
 * The numbers are those of DataType in types.proto. An output that is a reference to a variable (as in TensorFlow 1.x)
 * reports its type plus 100; a tensor never does. */
#ifndef TENSORFLOW_C_TF_DATATYPE_H_
#define TENSORFLOW_C_TF_DATATYPE_H_

#include <stddef.h>

#include "tensorflow/c/c_api_macros.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An element type. */
typedef enum TF_DataType {
    TF_FLOAT = 1,
    TF_DOUBLE = 2,
    TF_INT32 = 3,
    TF_UINT8 = 4,
    TF_INT16 = 5,
    TF_INT8 = 6,
    TF_STRING = 7, /* elements are TF_TString */
    TF_COMPLEX64 = 8,
    TF_COMPLEX = 8, /* old name of TF_COMPLEX64 */
    TF_INT64 = 9,
    TF_BOOL = 10, /* one byte, 0 or 1 */
    TF_QINT8 = 11,
    TF_QUINT8 = 12,
    TF_QINT32 = 13,
    TF_BFLOAT16 = 14, /* the upper half of a float */
    TF_QINT16 = 15,
    TF_QUINT16 = 16,
    TF_UINT16 = 17,
    TF_COMPLEX128 = 18,
    TF_HALF = 19,
    TF_RESOURCE = 20,
    TF_VARIANT = 21,
    TF_UINT32 = 22,
    TF_UINT64 = 23,
    /* Types of later releases: they can be stored, in one byte per element, but not computed with. */
    TF_FLOAT8_E5M2 = 24,
    TF_FLOAT8_E4M3FN = 25,
    TF_INT4 = 29,
    TF_UINT4 = 30,
} TF_DataType;

/* Returns the size of an element in bytes; 0 for types without a fixed size and for unknown types. */
TF_CAPI_EXPORT extern size_t TF_DataTypeSize(TF_DataType dt);

#ifdef __cplusplus
}
#endif

#endif
