/* tests/capi/headers_c.c -- the public headers, seen by a compiler and nothing else.
 *
 * Clients are compiled against layouts and numbers, so these must never move: a change here is a
 * change of the ABI.  The file is C99 and C++11 at once and passes when it compiles as both
 * (tests/capi/headers). */
#include "tensorflow/c/c_api.h"
#include "tensorflow/c/env.h"
#include "tensorflow/c/kernels.h"
#include "tensorflow/c/logging.h"
#include "tensorflow/c/ops.h"
#include "tensorflow/c/tf_file_statistics.h"
#include "tensorflow/c/tf_shape.h"
#include "tensorflow/core/platform/ctstring.h"
#include "millrace/millrace.h"

#include <stddef.h>

/* C99 has no static assertion: an array of negative size does not compile. */
#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
#define SAME(a, b) typedef char JOIN(same_on_line_, __LINE__)[(a) == (b) ? 1 : -1]
#define AT(type, member, offset) SAME(offsetof(type, member), offset)

/* ---- layouts ---- */

SAME(sizeof(TF_Buffer), 24);
AT(TF_Buffer, data, 0);
AT(TF_Buffer, length, 8);
AT(TF_Buffer, data_deallocator, 16);

SAME(sizeof(TF_Output), 16);
AT(TF_Output, oper, 0);
AT(TF_Output, index, 8);
SAME(sizeof(TF_Input), 16);
AT(TF_Input, oper, 0);
AT(TF_Input, index, 8);

SAME(sizeof(TF_StringView), 16);
AT(TF_StringView, data, 0);
AT(TF_StringView, len, 8);

SAME(sizeof(TF_AttrMetadata), 32);
AT(TF_AttrMetadata, is_list, 0);
AT(TF_AttrMetadata, list_size, 8);
AT(TF_AttrMetadata, type, 16);
AT(TF_AttrMetadata, total_size, 24);

SAME(sizeof(TF_WhileParams), 72);
AT(TF_WhileParams, ninputs, 0);
AT(TF_WhileParams, cond_graph, 8);
AT(TF_WhileParams, cond_inputs, 16);
AT(TF_WhileParams, cond_output, 24);
AT(TF_WhileParams, body_graph, 40);
AT(TF_WhileParams, body_inputs, 48);
AT(TF_WhileParams, body_outputs, 56);
AT(TF_WhileParams, name, 64);

SAME(sizeof(TF_FileStatistics), 24);
AT(TF_FileStatistics, length, 0);
AT(TF_FileStatistics, mtime_nsec, 8);
AT(TF_FileStatistics, is_directory, 16);

SAME(sizeof(TF_AllocatorAttributes), 16);
AT(TF_AllocatorAttributes, struct_size, 0);
AT(TF_AllocatorAttributes, on_host, 8);
SAME(TF_ALLOCATOR_ATTRIBUTES_STRUCT_SIZE, 9);

SAME(sizeof(TF_ThreadOptions), 24);
AT(TF_ThreadOptions, stack_size, 0);
AT(TF_ThreadOptions, guard_size, 8);
AT(TF_ThreadOptions, numa_node, 16);

SAME(sizeof(TF_TString), 24);
AT(TF_TString, u.smll.size, 0);
AT(TF_TString, u.smll.str, 1);
AT(TF_TString, u.large.size, 0);
AT(TF_TString, u.large.cap, 8);
AT(TF_TString, u.large.ptr, 16);
AT(TF_TString, u.offset.size, 0);
AT(TF_TString, u.offset.offset, 4);
AT(TF_TString, u.offset.count, 8);
AT(TF_TString, u.view.size, 0);
AT(TF_TString, u.view.ptr, 8);
SAME(TF_TString_SmallCapacity, 22);
SAME(sizeof(TF_Bool), 1);

/* ---- numbers ---- */

SAME(TF_TSTR_SMALL, 0);
SAME(TF_TSTR_LARGE, 1);
SAME(TF_TSTR_OFFSET, 2);
SAME(TF_TSTR_VIEW, 3);
SAME(TF_TSTR_TYPE_MASK, 3);

SAME(sizeof(TF_Code), 4);
SAME(TF_OK, 0);
SAME(TF_CANCELLED, 1);
SAME(TF_UNKNOWN, 2);
SAME(TF_INVALID_ARGUMENT, 3);
SAME(TF_DEADLINE_EXCEEDED, 4);
SAME(TF_NOT_FOUND, 5);
SAME(TF_ALREADY_EXISTS, 6);
SAME(TF_PERMISSION_DENIED, 7);
SAME(TF_RESOURCE_EXHAUSTED, 8);
SAME(TF_FAILED_PRECONDITION, 9);
SAME(TF_ABORTED, 10);
SAME(TF_OUT_OF_RANGE, 11);
SAME(TF_UNIMPLEMENTED, 12);
SAME(TF_INTERNAL, 13);
SAME(TF_UNAVAILABLE, 14);
SAME(TF_DATA_LOSS, 15);
SAME(TF_UNAUTHENTICATED, 16);

SAME(sizeof(TF_DataType), 4);
SAME(TF_FLOAT, 1);
SAME(TF_DOUBLE, 2);
SAME(TF_INT32, 3);
SAME(TF_UINT8, 4);
SAME(TF_INT16, 5);
SAME(TF_INT8, 6);
SAME(TF_STRING, 7);
SAME(TF_COMPLEX64, 8);
SAME(TF_COMPLEX, 8);
SAME(TF_INT64, 9);
SAME(TF_BOOL, 10);
SAME(TF_QINT8, 11);
SAME(TF_QUINT8, 12);
SAME(TF_QINT32, 13);
SAME(TF_BFLOAT16, 14);
SAME(TF_QINT16, 15);
SAME(TF_QUINT16, 16);
SAME(TF_UINT16, 17);
SAME(TF_COMPLEX128, 18);
SAME(TF_HALF, 19);
SAME(TF_RESOURCE, 20);
SAME(TF_VARIANT, 21);
SAME(TF_UINT32, 22);
SAME(TF_UINT64, 23);

SAME(sizeof(TF_AttrType), 4);
SAME(TF_ATTR_STRING, 0);
SAME(TF_ATTR_INT, 1);
SAME(TF_ATTR_FLOAT, 2);
SAME(TF_ATTR_BOOL, 3);
SAME(TF_ATTR_TYPE, 4);
SAME(TF_ATTR_SHAPE, 5);
SAME(TF_ATTR_TENSOR, 6);
SAME(TF_ATTR_PLACEHOLDER, 7);
SAME(TF_ATTR_FUNC, 8);

SAME(TF_INFO, 0);
SAME(TF_WARNING, 1);
SAME(TF_ERROR, 2);
SAME(TF_FATAL, 3);

/* ---- what clients do with inline strings must compile without a cast ---- */

size_t string_round_trip(const char *text, size_t n);

size_t string_round_trip(const char *text, size_t n)
{
    TF_TString s, t;
    size_t size;
    TF_TString_Init(&s);
    TF_TString_Init(&t);
    TF_TString_Copy(&s, text, n);
    TF_TString_Append(&s, &s);
    TF_TString_Assign(&t, &s);
    TF_TString_Move(&s, &t);
    size = TF_TString_GetSize(&s);
    TF_TString_Dealloc(&s);
    TF_TString_Dealloc(&t);
    return size;
}
