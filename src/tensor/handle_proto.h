/* tensor/handle_proto.h -- a handle inside another message.  For the files of this folder only. */
#ifndef MR_TENSOR_HANDLE_PROTO_H
#define MR_TENSOR_HANDLE_PROTO_H

#include "tensor/tensor.h"
#include "wire/pb.h"

/* A resource has one part, or one per component; a proto with more is not a handle. */
#define MR_HANDLE_MAX_PARTS 65536

/* Writes the fields of a ResourceHandleProto; the writer reports if it runs out of memory. */
void mr_handle_write(const mr_handle *h, mr_pb_writer *w);

#endif
