/* tensorflow/core/platform/ctstring.h -- TF_TString, the element of a string tensor.
 *
 * A TF_TString is 24 bytes and owns its text in one of four ways (TF_TString_GetType):
 *
 *     TF_TSTR_SMALL   up to 22 bytes inside the struct
 *     TF_TSTR_LARGE   in a block from malloc, which TF_TString_Dealloc frees
 *     TF_TSTR_OFFSET  not owned: at a distance from the struct itself, in mapped or packed tensors
 *     TF_TSTR_VIEW    not owned: wherever the pointer says
 *
 * 24 zero bytes are the empty string, so calloc makes valid strings.  SMALL and LARGE text is
 * followed by a NUL that does not count; text may hold NULs.  Writing to an OFFSET or VIEW string
 * first makes a copy of its own.
 *
 * When memory is out, functions that return a pointer return NULL and leave the string as it was;
 * TF_TString_Copy leaves it empty; the appending ones leave it unchanged: compare
 * TF_TString_GetSize where that matters.  Clients compile these functions into themselves, so
 * malloc and free are part of the contract. */
#ifndef TENSORFLOW_CORE_PLATFORM_CTSTRING_H_
#define TENSORFLOW_CORE_PLATFORM_CTSTRING_H_

#include "tensorflow/core/platform/ctstring_internal.h"

#endif
