/* tensorflow/c/c_api_macros.h -- how the C API marks its functions, and its boolean. */
#ifndef TENSORFLOW_C_C_API_MACROS_H_
#define TENSORFLOW_C_C_API_MACROS_H_

#include <stddef.h>

/* The library is built with hidden visibility; only what carries this mark leaves it. */
#define TF_CAPI_EXPORT __attribute__((visibility("default")))

/* One byte, 0 or 1, in every language and on every platform; `bool` promises less. */
#ifndef TF_Bool
#define TF_Bool unsigned char
#endif

/* Bytes of a struct up to and including a member.  A caller stores this as the struct's
 * `struct_size`, so the library sees which members the caller was compiled with. */
#ifndef TF_OFFSET_OF_END
#define TF_OFFSET_OF_END(TYPE, MEMBER) (offsetof(TYPE, MEMBER) + sizeof(((TYPE *)0)->MEMBER))
#endif

#endif
