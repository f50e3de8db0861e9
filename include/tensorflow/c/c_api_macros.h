/* tensorflow/c/c_api_macros.h -- macros of the C API: exported functions, booleans, struct sizes. */
#ifndef TENSORFLOW_C_C_API_MACROS_H_
#define TENSORFLOW_C_C_API_MACROS_H_

#include <stddef.h>

/* Marks an exported function. The library is built with hidden visibility, so that nothing else is exported. */
#define TF_CAPI_EXPORT __attribute__((visibility("default")))

/* A boolean of one byte, 0 or 1, on every platform and in every language. */
#ifndef TF_Bool
#define TF_Bool unsigned char
#endif

/* The size of a struct up to and including a member. Callers store it in `struct_size`, which tells the library which
 * members they know. */
#ifndef TF_OFFSET_OF_END
#define TF_OFFSET_OF_END(TYPE, MEMBER) (offsetof(TYPE, MEMBER) + sizeof(((TYPE *)0)->MEMBER))
#endif

#endif
