/* tensorflow/core/platform/ctstring.h -- TF_TString, the element of a string tensor.
 *
 * A TF_TString has 24 bytes and stores its text in one of four ways (TF_TString_GetType):
 *
 *     TF_TSTR_SMALL   up to 22 bytes, inside the struct
 *     TF_TSTR_LARGE   in a block from malloc, which TF_TString_Dealloc frees
 *     TF_TSTR_OFFSET  not owned: at a distance from the struct, in mapped or packed tensors
 *     TF_TSTR_VIEW    not owned: behind a pointer
 *
 * 24 zero bytes are the empty string, so calloc makes valid strings. SMALL and LARGE text is followed by a NUL that
 * does not count; text may contain NULs. Writing to an OFFSET or VIEW string first makes a copy.
 *
 * When there is no memory, functions that return a pointer return NULL and leave the string unchanged; TF_TString_Copy
 * leaves it empty; appending functions leave it unchanged, which the caller can see from TF_TString_GetSize. Programs
 * compile these functions into themselves, so that malloc and free are part of the interface. */
#ifndef TENSORFLOW_CORE_PLATFORM_CTSTRING_H_
#define TENSORFLOW_CORE_PLATFORM_CTSTRING_H_

#include "tensorflow/core/platform/ctstring_internal.h"

#endif
