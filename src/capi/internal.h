/* capi/internal.h -- shared by the files of the C API: the structs behind its handles, and
 * conversions of statuses and strings. */
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

/* Holds our error object itself, so that passing an error on copies nothing. */
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
/* A reference to the file's bytes, if the buffer is from mr_map_file; otherwise NULL. */
mr_tensor *mr_capi_buffer_source(const TF_Buffer *b);

/* ---- graphs and sessions ----
 *
 * A client's TF_Operation is our mr_node: only the type of the pointer changes.  TF_Output and
 * mr_out have one layout, so arrays of them are passed on as they are.  A TF_Tensor holds one of our
 * tensors, because a few functions (TF_TensorBitcastFrom, TF_SetShape) change what a client's handle
 * stands for.
 *
 * Elements of resource and variant tensors are pointers of ours, which a client must neither read nor make up.  So
 * what it sees as the data of a scalar resource is a serialized ResourceHandleProto, both ways, as in
 * TensorFlow 1.x. */

struct TF_Tensor {
    mr_tensor *t;     /* owned; of a tensor made from bytes: its type and shape, with empty elements */
    mr_tensor *bytes; /* owned uint8 vector that the client sees as the data; NULL: that of t */
    bool from_bytes;  /* the client wrote `bytes`, so they are the value */
};
/* The value of a client's tensor as a new reference. INVALID_ARGUMENT for NULL, for bytes that are not a
 * ResourceHandleProto, for a resource made from bytes that is not a scalar, and for a variant made from bytes. */
mr_status *mr_capi_tensor_value(const TF_Tensor *t, mr_tensor **out);
/* A handle for t, whose reference is taken over; NULL for NULL. */
TF_Tensor *mr_capi_tensor_new(mr_tensor *t);
/* The same for a tensor that others may hold too: the client gets a copy that it may write to. */
mr_status *mr_capi_tensor_own(mr_tensor *t, TF_Tensor **out);

struct mr_pb_writer;
/* Writes an op as one more of an OpList. */
void mr_capi_put_op(struct mr_pb_writer *w, const mr_op_def *d);

/* Registers the built-in ops; every function that needs the registry calls this first. Cheap after
 * the first call. */
void mr_capi_init(void);

struct TF_Graph {
    mr_mutex mu;     /* guards the graph; outermost of all locks */
    mr_graph *graph; /* owned; its tag points back here */
    int n_sessions MR_GUARDED_BY(mu);
    bool deleted MR_GUARDED_BY(mu); /* by the client, while sessions still run on it */
    bool shapes_optional MR_GUARDED_BY(mu); /* TF_SetRequireShapeInferenceFns */
    /* An edge of an existing node was changed, so there may be a cycle; a graph that only grows has
     * none. Changed under mu. */
    _Atomic bool rewired;
    mr_imap updated MR_GUARDED_BY(mu); /* inputs that TF_UpdateEdge has set, by mr_input_key: NodeDefs write them in full */
    /* Of the condition and the body of a loop being built: what TF_NewWhile was given. */
    TF_Graph *parent;
    const TF_Output *parent_inputs;
};
/* Unlocks the graph, and frees it when the client has deleted it and no session is left. */
void mr_capi_graph_release(TF_Graph *g) MR_RELEASE(g->mu) MR_NO_TSA;
/* INVALID_ARGUMENT "Graph is invalid, contains a cycle with .. nodes, including: .."; costs nothing
 * while no edge was set. */
mr_status *mr_capi_check_cycles(TF_Graph *g);
/* INVALID_ARGUMENT unless this is an output, or a node, of the graph. */
mr_status *mr_capi_check_output(const TF_Graph *g, TF_Output o);
mr_status *mr_capi_check_op(const TF_Graph *g, const TF_Operation *op);

struct TF_OperationDescription {
    TF_Graph *graph;
    mr_node_builder *b;
    mr_status *st; /* the first error that the builder itself does not see */
};

struct TF_SessionOptions {
    char *target; /* "" in this process */
    mr_session_config config;
    mr_str config_proto; /* as the client gave it */
    struct mr_device_sims *simulated; /* simulated devices; NULL: none */
};
void mr_capi_simulated_free(struct mr_device_sims *s); /* NULL is fine */
/* A session for a target; direct ones run on the graph (and its lock).  cancel (may be NULL) ends the wait for a cluster. */
mr_status *mr_capi_open_session(const TF_SessionOptions *o, mr_graph *g, mr_mutex *mu, mr_cancel *cancel, mr_session **out);

struct TF_Session {
    mr_session *session;
    TF_Graph *graph;
};
mr_status *mr_capi_new_session(TF_Graph *graph, const TF_SessionOptions *opts, TF_Session **out);
void mr_capi_free_session(TF_Session *session); /* NULL is fine */
/* INVALID_ARGUMENT "Unparseable RunOptions proto" */
mr_status *mr_capi_run_options(const TF_Buffer *run_options, mr_run_options *o);
/* What ends the runs that this thread starts (mr_run_under); NULL: nothing does. */
struct mr_cancel *mr_capi_run_cancel(void);
/* INVALID_ARGUMENT unless all it names is in the session's graph. */
mr_status *mr_capi_check_operations(const TF_Session *s, const mr_run_args *a);
/* NULL on error. */
TF_DeviceList *mr_capi_list_devices(mr_session *s, TF_Status *status);

_Static_assert(sizeof(TF_Output) == sizeof(mr_out) &&
                   offsetof(TF_Output, index) == offsetof(mr_out, index),
               "arrays of TF_Output are read as arrays of mr_out");
_Static_assert(sizeof(TF_DataType) == sizeof(int), "arrays of TF_DataType are read as types");

static inline mr_node *mr_capi_node(const TF_Operation *op) { return (mr_node *)(uintptr_t)op; }
static inline TF_Operation *mr_capi_op(const mr_node *n) { return (TF_Operation *)(uintptr_t)n; }
static inline mr_out mr_capi_out(TF_Output o) { return (mr_out){mr_capi_node(o.oper), o.index}; }
static inline TF_Output mr_capi_output(mr_out o)
{
    return (TF_Output){mr_capi_op(o.node), o.node ? o.index : -1};
}
static inline const mr_out *mr_capi_outs(const TF_Output *o) { return (const mr_out *)o; }

/* Locks the client's graph an operation is in, for what may change of the operation.  An operation
 * of ours is in none and needs no lock: NULL. */
static inline mr_mutex *mr_capi_lock(const mr_node *n) MR_NO_TSA
{
    TF_Graph *g = n->graph->tag;
    if (g)
        mr_lock(&g->mu);
    return g ? &g->mu : NULL;
}
static inline void mr_capi_unlock(mr_mutex *mu) MR_NO_TSA
{
    if (mu)
        mr_unlock(mu);
}

/* ---- options.c ---- */
/* Copies a client's struct, whose first member is its size. A client built with an older header has a shorter struct,
 * one with a newer header a longer one; fields that are not known here must be zero. INVALID_ARGUMENT, also below
 * `least` bytes. */
mr_status *mr_capi_take_struct(void *ours, size_t our_size, const void *theirs, size_t least, const char *what);
/* The same for options, which may be left out (NULL): all zero then. */
mr_status *mr_capi_take_options(const void *from, void *to, size_t size);

#endif
