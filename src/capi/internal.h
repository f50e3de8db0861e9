/* capi/internal.h -- what the files of the C API share: its handles opened, and the way from our
 * statuses and strings to the client's. */
#ifndef MR_CAPI_INTERNAL_H
#define MR_CAPI_INTERNAL_H

#include "base/str.h"
#include "base/thread.h"
#include "base/vec.h"
#include "exec/session.h"
#include "graph/graph.h"
#include "tensorflow/c/c_api.h"

/* ---- status ---- */

typedef struct mr_capi_payload {
    char *key, *value;
} mr_capi_payload;

/* Keeps our own object as it came, so that passing an error on copies nothing. */
struct TF_Status {
    mr_status *error;                 /* NULL: OK */
    MR_VEC(mr_capi_payload) payloads; /* only with an error, keys differ */
};

/* Puts s, which may be NULL for OK, into out and drops what out held.  Consumes s. */
void mr_capi_set_status(TF_Status *out, mr_status *s);
/* The error in s as a new status, NULL when OK: for callbacks of clients that fill a TF_Status. */
mr_status *mr_capi_status_copy(const TF_Status *s);

/* ---- buffer ---- */

/* Moves the bytes of s into out and leaves s empty; false when out already holds data. */
bool mr_capi_buffer_from_str(TF_Buffer *out, mr_str *s);
/* The same with the answer for the client: INVALID_ARGUMENT.  s is empty afterwards in any case. */
mr_status *mr_capi_buffer_fill(TF_Buffer *out, mr_str *s);
/* A new buffer with the bytes of s, which is empty afterwards. */
TF_Buffer *mr_capi_buffer_new(mr_str *s);
/* The bytes of a buffer that a client passed in; "" for NULL and for an empty one. */
mr_sv mr_capi_buffer_view(const TF_Buffer *b);

/* ---- graphs and sessions ----
 *
 * A client's TF_Operation is our mr_node: only the type of the pointer changes.  TF_Output and mr_out have one
 * layout, so arrays of them are passed on as they are.  A TF_Tensor holds one of our tensors, because a few
 * functions (TF_TensorBitcastFrom, TF_SetShape) change what a client's handle stands for. */

struct TF_Tensor {
    mr_tensor *t; /* owned */
};

/* Hands the built-in ops to the registry; whoever needs the registry calls it first.  Cheap when done. */
void mr_capi_init(void);

struct TF_Graph {
    mr_mutex mu;     /* guards the graph */
    mr_graph *graph; /* owned */
    int n_sessions MR_GUARDED_BY(mu);
    bool deleted MR_GUARDED_BY(mu); /* by the client, while sessions still run on it */
};

struct TF_SessionOptions {
    char *target; /* "" in this process */
    mr_session_config config;
    mr_str config_proto; /* as the client gave it */
};
/* A session for a target; direct ones run on the graph (and its lock). */
mr_status *mr_capi_open_session(const TF_SessionOptions *o, mr_graph *g, mr_mutex *mu, mr_session **out);
/* Unlocks the graph, and frees it when the client has deleted it and no session is left. */
void mr_capi_graph_release(TF_Graph *g) MR_RELEASE(g->mu) MR_NO_TSA;

struct TF_Session {
    mr_session *session;
    TF_Graph *graph;
};

_Static_assert(sizeof(TF_Output) == sizeof(mr_out) && offsetof(TF_Output, index) == offsetof(mr_out, index),
               "arrays of TF_Output are read as arrays of mr_out");

static inline mr_node *mr_capi_node(const TF_Operation *op) { return (mr_node *)(uintptr_t)op; }
static inline TF_Operation *mr_capi_op(const mr_node *n) { return (TF_Operation *)(uintptr_t)n; }
static inline mr_out mr_capi_out(TF_Output o) { return (mr_out){mr_capi_node(o.oper), o.index}; }
static inline TF_Output mr_capi_output(mr_out o) { return (TF_Output){mr_capi_op(o.node), o.node ? o.index : -1}; }
static inline const mr_out *mr_capi_outs(const TF_Output *o) { return (const mr_out *)o; }
/* A handle for t, whose reference is taken over; NULL for NULL. */
TF_Tensor *mr_capi_tensor_new(mr_tensor *t);

#endif
