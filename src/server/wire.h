/* server/wire.h -- messages of the services that carry tensors, encoded by hand: a tensor's memory goes out as a
 * piece of the message and comes in with at most one copy.
 *
 * Writing: an mr_wire collects small fields in `head` and large contents as pieces behind it. */
#ifndef MR_SERVER_WIRE_H
#define MR_SERVER_WIRE_H

#include "base/bytes.h"
#include "base/vec.h"
#include "tensor/tensor.h"
#include "wire/pb.h"

typedef struct mr_wire {
    mr_bytes out;
    mr_str head; /* not in `out` yet */
    mr_pb_writer pb; /* writes to head */
    mr_status *st;   /* the first error */
} mr_wire;

void mr_wire_init(mr_wire *w);
void mr_wire_deinit(mr_wire *w);
/* Field { TensorProto }.  The message holds a reference to t until it is sent. */
void mr_wire_tensor(mr_wire *w, uint32_t field, const mr_tensor *t);
/* Field { NamedTensorProto { name, tensor } }. */
void mr_wire_named(mr_wire *w, uint32_t field, mr_sv name, const mr_tensor *t);
/* The same with the bytes of a TensorProto, which must live until the message is gone. */
void mr_wire_named_raw(mr_wire *w, uint32_t field, mr_sv name, mr_sv tensor_proto);
/* Field { TensorProto } of such bytes. */
void mr_wire_raw(mr_wire *w, uint32_t field, mr_sv tensor_proto);
/* The message; w is empty then. */
mr_status *mr_wire_finish(mr_wire *w, mr_bytes *out);

/* The last value of a field of strings or messages; "" if there is none.  The message must have been parsed before. */
mr_sv mr_wire_field(mr_sv message, uint32_t field);

/* ---- RecvTensorResponse ---- */
mr_status *mr_wire_recv_encode(const mr_tensor *t, bool dead, int64_t start_us, mr_bytes *out);
/* *t is NULL if the value is dead.  Contents in one aligned piece become the tensor's memory. */
mr_status *mr_wire_recv_decode(mr_bytes *b, mr_allocator *a, mr_tensor **t, bool *dead);

/* RecvBufResponse: the bytes of a tensor, in a RecvBufRespExtra. */
mr_status *mr_wire_buf_encode(const mr_tensor *t, bool dead, int64_t start_us, mr_bytes *out);

/* ---- RunGraphResponse ---- */
typedef struct mr_run_reply { /* a RunGraphResponse */
    MR_VEC(mr_sv) named;  /* NamedTensorProtos */
    MR_VEC(mr_sv) graphs; /* GraphDefs */
    mr_sv stats;          /* StepStats */
    mr_sv costs;          /* CostGraphDef */
} mr_run_reply;
mr_status *mr_run_reply_parse(mr_bytes *body, mr_run_reply *out);
void mr_run_reply_deinit(mr_run_reply *r);

/* ---- errors in messages ---- */
/* A derived error travels with TensorFlow's mark in front of its text. */
char *mr_wire_error_text(const mr_status *st); /* mr_free */
mr_status *mr_wire_error(int64_t code, mr_sv text);
/* The same for an error that came as the status of a call; takes st. */
mr_status *mr_wire_unmark(mr_status *st);

#endif
