/* tensorflow/c/c_api.h -- the TensorFlow C API: build or load a dataflow graph, and run it.
 *
 *     TF_Graph *g = TF_NewGraph();
 *     TF_OperationDescription *d = TF_NewOperation(g, "Placeholder", "x");
 *     TF_SetAttrType(d, "dtype", TF_FLOAT);
 *     TF_Operation *x = TF_FinishOperation(d, status);
 *     TF_Session *s = TF_NewSession(g, opts, status);
 *     TF_SessionRun(s, NULL, feeds, feed_values, 1, fetches, results, 1, NULL, 0, NULL, status);
 *
 * The API and the ABI are those of libtensorflow 2.9. These rules apply everywhere:
 *
 *   - A TF_Status * must not be NULL. Every call sets it; check it after the call.
 *   - The result of a New function belongs to the caller, who frees it with the matching Delete function. Delete
 *     functions accept NULL.
 *   - Strings and arrays that are passed in are copied, unless the comment says otherwise. A const char * that is
 *     returned belongs to the object it came from.
 *   - An output TF_Buffer must be empty (TF_NewBuffer). The caller owns it and its contents.
 *   - unsigned char stands for a boolean. -1 stands for an unknown rank or size.
 *   - Graphs and sessions may be used from several threads at once. A TF_OperationDescription, a TF_Status and a
 *     TF_Tensor belong to one thread at a time. */
#ifndef TENSORFLOW_C_C_API_H_
#define TENSORFLOW_C_C_API_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensorflow/c/c_api_macros.h"
#include "tensorflow/c/tf_attrtype.h"
#include "tensorflow/c/tf_buffer.h"
#include "tensorflow/c/tf_datatype.h"
#include "tensorflow/c/tf_status.h"
#include "tensorflow/c/tf_tensor.h"
#include "tensorflow/c/tf_tstring.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Options for new sessions. */
typedef struct TF_SessionOptions TF_SessionOptions;
/* A dataflow graph. */
typedef struct TF_Graph TF_Graph;
/* An operation that is being built. */
typedef struct TF_OperationDescription TF_OperationDescription;
/* A node of a graph. It is valid as long as the graph. */
typedef struct TF_Operation TF_Operation;
/* A function: a graph with inputs and outputs that operations can call. */
typedef struct TF_Function TF_Function;
/* Not used so far: always pass NULL. */
typedef struct TF_FunctionOptions TF_FunctionOptions;
/* Options for importing a GraphDef. */
typedef struct TF_ImportGraphDefOptions TF_ImportGraphDefOptions;
/* The results of importing a GraphDef. */
typedef struct TF_ImportGraphDefResults TF_ImportGraphDefResults;
/* Runs parts of a graph, and holds its variables. */
typedef struct TF_Session TF_Session;
/* A session that takes GraphDefs instead of a TF_Graph. */
typedef struct TF_DeprecatedSession TF_DeprecatedSession;
/* A list of devices. */
typedef struct TF_DeviceList TF_DeviceList;
/* A loaded library of ops and kernels. */
typedef struct TF_Library TF_Library;
/* Descriptions of ops for language bindings. */
typedef struct TF_ApiDefMap TF_ApiDefMap;

/* Bytes that are owned elsewhere and not NUL-terminated. */
typedef struct TF_StringView {
    const char *data;
    size_t len;
} TF_StringView;

/* An input of an operation. */
typedef struct TF_Input {
    TF_Operation *oper;
    int index;
} TF_Input;

/* An output of an operation: a tensor of the graph. An oper of NULL means none. */
typedef struct TF_Output {
    TF_Operation *oper;
    int index;
} TF_Output;

/* Returns the version of the TensorFlow API that this library implements, for example "2.9.1". */
TF_CAPI_EXPORT extern const char *TF_Version(void);

/* Parses a serialized TensorProto into `to`, an existing tensor, which releases its former value. */
TF_CAPI_EXPORT extern void TF_TensorFromProto(const TF_Buffer *from, TF_Tensor *to, TF_Status *status);

/* ==== session options ==== */

/* Creates options with the defaults. The caller deletes them. */
TF_CAPI_EXPORT extern TF_SessionOptions *TF_NewSessionOptions(void);

/* Sets where the session runs: "" in this process, or "grpc://host:port" at the master with this address. */
TF_CAPI_EXPORT extern void TF_SetTarget(TF_SessionOptions *options, const char *target);

/* Sets the configuration from a serialized ConfigProto. Fails with TF_INVALID_ARGUMENT if it cannot be parsed. */
TF_CAPI_EXPORT extern void TF_SetConfig(TF_SessionOptions *options, const void *proto, size_t proto_len,
                                        TF_Status *status);

/* Deletes the options. NULL is allowed. */
TF_CAPI_EXPORT extern void TF_DeleteSessionOptions(TF_SessionOptions *options);

/* ==== graph ==== */

/* Creates an empty graph. The caller deletes it. */
TF_CAPI_EXPORT extern TF_Graph *TF_NewGraph(void);

/* Deletes the graph. It stays alive until its last session is deleted. NULL is allowed. */
TF_CAPI_EXPORT extern void TF_DeleteGraph(TF_Graph *graph);

/* Adds what the caller knows about the shape of a tensor to what was inferred. num_dims -1 means an unknown rank. Fails
 * with TF_INVALID_ARGUMENT if the two contradict each other. */
TF_CAPI_EXPORT extern void TF_GraphSetTensorShape(TF_Graph *graph, TF_Output output, const int64_t *dims,
                                                  const int num_dims, TF_Status *status);

/* Returns the rank of a tensor, -1 if it is unknown. */
TF_CAPI_EXPORT extern int TF_GraphGetTensorNumDims(TF_Graph *graph, TF_Output output, TF_Status *status);

/* Stores the dimensions of a tensor in dims, -1 for unknown ones. num_dims must be its rank. */
TF_CAPI_EXPORT extern void TF_GraphGetTensorShape(TF_Graph *graph, TF_Output output, int64_t *dims, int num_dims,
                                                  TF_Status *status);

/* Returns the operation with this name, NULL if there is none. */
TF_CAPI_EXPORT extern TF_Operation *TF_GraphOperationByName(TF_Graph *graph, const char *oper_name);

/* Iterates over all operations in the order in which they were added. Start with *pos = 0. Returns NULL at the end. */
TF_CAPI_EXPORT extern TF_Operation *TF_GraphNextOperation(TF_Graph *graph, size_t *pos);

/* Stores the serialized GraphDef of the graph in a buffer. */
TF_CAPI_EXPORT extern void TF_GraphToGraphDef(TF_Graph *graph, TF_Buffer *output_graph_def, TF_Status *status);

/* Stores the serialized OpDef of an op or function that the graph knows in a buffer. */
TF_CAPI_EXPORT extern void TF_GraphGetOpDef(TF_Graph *graph, const char *op_name, TF_Buffer *output_op_def,
                                            TF_Status *status);

/* Stores the serialized VersionDef of the graph in a buffer. */
TF_CAPI_EXPORT extern void TF_GraphVersions(TF_Graph *graph, TF_Buffer *output_version_def, TF_Status *status);

/* Connects an existing input to another source. */
TF_CAPI_EXPORT extern void TF_UpdateEdge(TF_Graph *graph, TF_Output new_src, TF_Input dst, TF_Status *status);

/* Sets whether operations whose op has no shape function are refused, which is the default, or get outputs of unknown
 * shape. */
TF_CAPI_EXPORT extern void TF_SetRequireShapeInferenceFns(TF_Graph *graph, bool require);

/* ==== building an operation ====
 *
 * Call TF_NewOperation, then any number of TF_SetDevice, TF_AddInput, TF_SetAttr... functions, and then
 * TF_FinishOperation, which reports all errors. Inputs are added in the order of the OpDef. Attrs that follow from the
 * inputs, or that have a default, may be left out. */

/* Starts to build an operation. It must end with TF_FinishOperation. */
TF_CAPI_EXPORT extern TF_OperationDescription *TF_NewOperation(TF_Graph *graph, const char *op_type,
                                                               const char *oper_name);

/* The same, for a caller that holds the lock of the graph. */
TF_CAPI_EXPORT extern TF_OperationDescription * TF_NewOperationLocked(TF_Graph *graph, const char *op_type,
                                                                      const char *oper_name);

/* Sets the device on which the operation runs, for example "/job:worker/task:1/device:CPU:0", or a part of such a
 * name. */
TF_CAPI_EXPORT extern void TF_SetDevice(TF_OperationDescription *desc, const char *device);

/* Adds an input that is a single tensor. */
TF_CAPI_EXPORT extern void TF_AddInput(TF_OperationDescription *desc, TF_Output input);
/* Adds an input that is a list of tensors. */
TF_CAPI_EXPORT extern void TF_AddInputList(TF_OperationDescription *desc, const TF_Output *inputs, int num_inputs);

/* Makes the operation run after `input`, without using its value. */
TF_CAPI_EXPORT extern void TF_AddControlInput(TF_OperationDescription *desc, TF_Operation *input);

/* Makes the operation run on the same device as op. */
TF_CAPI_EXPORT extern void TF_ColocateWith(TF_OperationDescription *desc, TF_Operation *op);

/* TF_SetAttrString to TF_SetAttrTypeList set an attr to a single value or to a list of num_values values. Strings are
 * bytes with a length and may contain NUL. */
TF_CAPI_EXPORT extern void TF_SetAttrString(TF_OperationDescription *desc, const char *attr_name, const void *value,
                                            size_t length);
TF_CAPI_EXPORT extern void TF_SetAttrStringList(TF_OperationDescription *desc, const char *attr_name,
                                                const void *const *values, const size_t *lengths, int num_values);
TF_CAPI_EXPORT extern void TF_SetAttrInt(TF_OperationDescription *desc, const char *attr_name, int64_t value);
TF_CAPI_EXPORT extern void TF_SetAttrIntList(TF_OperationDescription *desc, const char *attr_name,
                                             const int64_t *values, int num_values);
TF_CAPI_EXPORT extern void TF_SetAttrFloat(TF_OperationDescription *desc, const char *attr_name, float value);
TF_CAPI_EXPORT extern void TF_SetAttrFloatList(TF_OperationDescription *desc, const char *attr_name,
                                               const float *values, int num_values);
TF_CAPI_EXPORT extern void TF_SetAttrBool(TF_OperationDescription *desc, const char *attr_name, unsigned char value);
TF_CAPI_EXPORT extern void TF_SetAttrBoolList(TF_OperationDescription *desc, const char *attr_name,
                                              const unsigned char *values, int num_values);
TF_CAPI_EXPORT extern void TF_SetAttrType(TF_OperationDescription *desc, const char *attr_name, TF_DataType value);
TF_CAPI_EXPORT extern void TF_SetAttrTypeList(TF_OperationDescription *desc, const char *attr_name,
                                              const TF_DataType *values, int num_values);

/* In a function body, sets the attr to the value of the function's attr `placeholder`. */
TF_CAPI_EXPORT extern void TF_SetAttrPlaceholder(TF_OperationDescription *desc, const char *attr_name,
                                                 const char *placeholder);

/* Sets the attr to a function, given by its name and without attrs. */
TF_CAPI_EXPORT extern void TF_SetAttrFuncName(TF_OperationDescription *desc, const char *attr_name, const char *value,
                                              size_t length);

/* Sets the attr to a shape. num_dims -1 means an unknown rank, and dims is not read; a dimension of -1 is unknown. */
TF_CAPI_EXPORT extern void TF_SetAttrShape(TF_OperationDescription *desc, const char *attr_name, const int64_t *dims,
                                           int num_dims);
/* The same for a list of shapes. */
TF_CAPI_EXPORT extern void TF_SetAttrShapeList(TF_OperationDescription *desc, const char *attr_name,
                                               const int64_t *const *dims, const int *num_dims, int num_shapes);

/* Sets the attr to a shape, given as a serialized TensorShapeProto. */
TF_CAPI_EXPORT extern void TF_SetAttrTensorShapeProto(TF_OperationDescription *desc, const char *attr_name,
                                                      const void *proto, size_t proto_len, TF_Status *status);
/* The same for a list of shapes. */
TF_CAPI_EXPORT extern void TF_SetAttrTensorShapeProtoList(TF_OperationDescription *desc, const char *attr_name,
                                                          const void *const *protos, const size_t *proto_lens,
                                                          int num_shapes, TF_Status *status);

/* Sets the attr to a tensor. Its value is copied into the graph; the caller keeps the tensor. */
TF_CAPI_EXPORT extern void TF_SetAttrTensor(TF_OperationDescription *desc, const char *attr_name, TF_Tensor *value,
                                            TF_Status *status);
/* The same for a list of tensors. */
TF_CAPI_EXPORT extern void TF_SetAttrTensorList(TF_OperationDescription *desc, const char *attr_name,
                                                TF_Tensor *const *values, int num_values, TF_Status *status);

/* Sets the attr to a value of any kind, given as a serialized AttrValue. */
TF_CAPI_EXPORT extern void TF_SetAttrValueProto(TF_OperationDescription *desc, const char *attr_name, const void *proto,
                                                size_t proto_len, TF_Status *status);

/* Checks the description, infers shapes and adds the operation to the graph. Always frees desc. Returns NULL after an
 * error, and the graph is unchanged. */
TF_CAPI_EXPORT extern TF_Operation *TF_FinishOperation(TF_OperationDescription *desc, TF_Status *status);

/* The same, for a caller that holds the lock of the graph. */
TF_CAPI_EXPORT extern TF_Operation *TF_FinishOperationLocked(TF_OperationDescription *desc, TF_Status *status);

/* ---- changing existing operations ----
 *
 * A session that has already run the operation does not see the change. */

/* Makes op run after input from now on. */
TF_CAPI_EXPORT extern void TF_AddOperationControlInput(TF_Graph *graph, TF_Operation *op, TF_Operation *input);

/* Sets an attr from a serialized AttrValue. */
TF_CAPI_EXPORT extern void TF_SetAttr(TF_Graph *graph, TF_Operation *op, const char *attr_name,
                                      TF_Buffer *attr_value_proto, TF_Status *status);

/* Removes an attr. */
TF_CAPI_EXPORT extern void TF_ClearAttr(TF_Graph *graph, TF_Operation *op, const char *attr_name, TF_Status *status);

/* Sets the device on which op runs. */
TF_CAPI_EXPORT extern void TF_SetRequestedDevice(TF_Graph *graph, TF_Operation *op, const char *device);

/* Removes all control inputs of op. */
TF_CAPI_EXPORT extern void TF_RemoveAllControlInputs(TF_Graph *graph, TF_Operation *op);

/* ==== inspecting an operation ==== */

/* Returns the name of the operation. */
TF_CAPI_EXPORT extern const char *TF_OperationName(TF_Operation *oper);
/* Returns the name of its op, for example "MatMul". */
TF_CAPI_EXPORT extern const char *TF_OperationOpType(TF_Operation *oper);

/* Returns the device that was requested for it, "" if none. */
TF_CAPI_EXPORT extern const char *TF_OperationDevice(TF_Operation *oper);

/* Returns the number of outputs. */
TF_CAPI_EXPORT extern int TF_OperationNumOutputs(TF_Operation *oper);

/* Returns the type of an output, plus 100 if it is a reference to a variable. */
TF_CAPI_EXPORT extern TF_DataType TF_OperationOutputType(TF_Output oper_out);

/* Returns the number of tensors that the output argument with this name stands for; -1 and TF_INVALID_ARGUMENT if there
 * is no such argument. */
TF_CAPI_EXPORT extern int TF_OperationOutputListLength(TF_Operation *oper, const char *arg_name, TF_Status *status);

/* Returns the number of data inputs. Control inputs are counted separately. */
TF_CAPI_EXPORT extern int TF_OperationNumInputs(TF_Operation *oper);
/* Returns the type of an input. */
TF_CAPI_EXPORT extern TF_DataType TF_OperationInputType(TF_Input oper_in);
/* Like TF_OperationOutputListLength, for inputs. */
TF_CAPI_EXPORT extern int TF_OperationInputListLength(TF_Operation *oper, const char *arg_name, TF_Status *status);

/* Returns the tensor that an input reads; its oper is NULL if there is no such input. */
TF_CAPI_EXPORT extern TF_Output TF_OperationInput(TF_Input oper_in);

/* Stores the tensors that the first max_inputs inputs read. */
TF_CAPI_EXPORT extern void TF_OperationAllInputs(TF_Operation *oper, TF_Output *inputs, int max_inputs);

/* Returns the number of inputs that read an output. */
TF_CAPI_EXPORT extern int TF_OperationOutputNumConsumers(TF_Output oper_out);
/* Stores at most max_consumers of these inputs. Returns how many there are. */
TF_CAPI_EXPORT extern int TF_OperationOutputConsumers(TF_Output oper_out, TF_Input *consumers, int max_consumers);

/* Returns the number of operations that this one waits for. */
TF_CAPI_EXPORT extern int TF_OperationNumControlInputs(TF_Operation *oper);
/* Stores at most max_control_inputs of these operations. Returns how many there are. */
TF_CAPI_EXPORT extern int TF_OperationGetControlInputs(TF_Operation *oper, TF_Operation **control_inputs,
                                                       int max_control_inputs);
/* Returns the number of operations that wait for this one. */
TF_CAPI_EXPORT extern int TF_OperationNumControlOutputs(TF_Operation *oper);
/* Stores at most max_control_outputs of these operations. Returns how many there are. */
TF_CAPI_EXPORT extern int TF_OperationGetControlOutputs(TF_Operation *oper, TF_Operation **control_outputs,
                                                        int max_control_outputs);

/* The kind and size of an attr, which a caller needs before it gets the value. */
typedef struct TF_AttrMetadata {
    unsigned char is_list; /* 1: the value is a list */
    int64_t list_size;     /* number of elements of a list, -1 for a single value */
    TF_AttrType type;      /* kind of the value, or of the elements of a list */
    /* For strings, the number of bytes, summed over a list. For shapes, the rank, -1 if unknown; in a list, the sum of
     * the known ranks. Otherwise -1. */
    int64_t total_size;
} TF_AttrMetadata;

/* Returns the kind and size of an attr. */
TF_CAPI_EXPORT extern TF_AttrMetadata TF_OperationGetAttrMetadata(TF_Operation *oper, const char *attr_name,
                                                                  TF_Status *status);

/* Copies at most max_length bytes of a string attr, without adding a NUL. TF_AttrMetadata.total_size is its length. */
TF_CAPI_EXPORT extern void TF_OperationGetAttrString(TF_Operation *oper, const char *attr_name, void *value,
                                                     size_t max_length, TF_Status *status);

/* Copies the strings of a list attr into storage, which needs total_size bytes, and makes values[i] point to string i
 * in it. This function and the other list functions below store at most as many elements as there is room for. */
TF_CAPI_EXPORT extern void TF_OperationGetAttrStringList(TF_Operation *oper, const char *attr_name, void **values,
                                                         size_t *lengths, int max_values, void *storage,
                                                         size_t storage_size, TF_Status *status);
/* TF_OperationGetAttrInt to TF_OperationGetAttrTypeList store the value of an attr, or the first max_values elements of
 * a list. A missing attr is TF_INVALID_ARGUMENT or TF_NOT_FOUND, depending on the function, as in TensorFlow; an attr
 * of another type is TF_INVALID_ARGUMENT. */
TF_CAPI_EXPORT extern void TF_OperationGetAttrInt(TF_Operation *oper, const char *attr_name, int64_t *value,
                                                  TF_Status *status);
TF_CAPI_EXPORT extern void TF_OperationGetAttrIntList(TF_Operation *oper, const char *attr_name, int64_t *values,
                                                      int max_values, TF_Status *status);
TF_CAPI_EXPORT extern void TF_OperationGetAttrFloat(TF_Operation *oper, const char *attr_name, float *value,
                                                    TF_Status *status);
TF_CAPI_EXPORT extern void TF_OperationGetAttrFloatList(TF_Operation *oper, const char *attr_name, float *values,
                                                        int max_values, TF_Status *status);
TF_CAPI_EXPORT extern void TF_OperationGetAttrBool(TF_Operation *oper, const char *attr_name, unsigned char *value,
                                                   TF_Status *status);
TF_CAPI_EXPORT extern void TF_OperationGetAttrBoolList(TF_Operation *oper, const char *attr_name, unsigned char *values,
                                                       int max_values, TF_Status *status);
TF_CAPI_EXPORT extern void TF_OperationGetAttrType(TF_Operation *oper, const char *attr_name, TF_DataType *value,
                                                   TF_Status *status);
TF_CAPI_EXPORT extern void TF_OperationGetAttrTypeList(TF_Operation *oper, const char *attr_name, TF_DataType *values,
                                                       int max_values, TF_Status *status);

/* Stores at most num_dims dimensions of a shape attr, which has total_size of them; nothing if its rank is unknown. */
TF_CAPI_EXPORT extern void TF_OperationGetAttrShape(TF_Operation *oper, const char *attr_name, int64_t *value,
                                                    int num_dims, TF_Status *status);

/* Copies the dimensions of all shapes into storage, which needs total_size elements, and makes dims[i] point to those
 * of shape i. num_dims[i] is -1 for a shape of unknown rank. */
TF_CAPI_EXPORT extern void TF_OperationGetAttrShapeList(TF_Operation *oper, const char *attr_name, int64_t **dims,
                                                        int *num_dims, int num_shapes, int64_t *storage,
                                                        int storage_size, TF_Status *status);

/* Stores a serialized TensorShapeProto in a buffer. */
TF_CAPI_EXPORT extern void TF_OperationGetAttrTensorShapeProto(TF_Operation *oper, const char *attr_name,
                                                               TF_Buffer *value, TF_Status *status);

/* Creates a buffer with a serialized TensorShapeProto for each shape. The caller deletes the buffers. */
TF_CAPI_EXPORT extern void TF_OperationGetAttrTensorShapeProtoList(TF_Operation *oper, const char *attr_name,
                                                                   TF_Buffer **values, int max_values,
                                                                   TF_Status *status);

/* Returns the value as a new tensor, which the caller deletes. */
TF_CAPI_EXPORT extern void TF_OperationGetAttrTensor(TF_Operation *oper, const char *attr_name, TF_Tensor **value,
                                                     TF_Status *status);
/* The same for a list of tensors. */
TF_CAPI_EXPORT extern void TF_OperationGetAttrTensorList(TF_Operation *oper, const char *attr_name, TF_Tensor **values,
                                                         int max_values, TF_Status *status);

/* Stores an attr of any kind in a buffer, as a serialized AttrValue. */
TF_CAPI_EXPORT extern void TF_OperationGetAttrValueProto(TF_Operation *oper, const char *attr_name,
                                                         TF_Buffer *output_attr_value, TF_Status *status);

/* Returns the number of attrs. */
TF_CAPI_EXPORT extern int TF_OperationGetNumAttrs(TF_Operation *oper);
/* Returns the length of the name of attr i. */
TF_CAPI_EXPORT extern int TF_OperationGetAttrNameLength(TF_Operation *oper, int i);
/* Copies the name of attr i to output, without a NUL. */
TF_CAPI_EXPORT extern void TF_OperationGetAttrName(TF_Operation *oper, int i, char *output, TF_Status *status);

/* Stores the serialized NodeDef of the operation in a buffer. */
TF_CAPI_EXPORT extern void TF_OperationToNodeDef(TF_Operation *oper, TF_Buffer *output_node_def, TF_Status *status);

/* If the output depends on constants only, computes it, stores a new tensor in *result, which the caller deletes, and
 * returns 1. Otherwise returns 0 and stores NULL. */
TF_CAPI_EXPORT extern unsigned char TF_TryEvaluateConstant(TF_Graph *graph, TF_Output output, TF_Tensor **result,
                                                           TF_Status *status);

/* ==== importing a GraphDef ====
 *
 * An import succeeds as a whole or leaves the graph unchanged. */

/* Creates options with the defaults. The caller deletes them. */
TF_CAPI_EXPORT extern TF_ImportGraphDefOptions *TF_NewImportGraphDefOptions(void);
/* Deletes the options. NULL is allowed. */
TF_CAPI_EXPORT extern void TF_DeleteImportGraphDefOptions(TF_ImportGraphDefOptions *opts);

/* Sets a prefix: imported names become prefix/name. */
TF_CAPI_EXPORT extern void TF_ImportGraphDefOptionsSetPrefix(TF_ImportGraphDefOptions *opts, const char *prefix);

/* Sets the device of imported operations that request none. */
TF_CAPI_EXPORT extern void TF_ImportGraphDefOptionsSetDefaultDevice(TF_ImportGraphDefOptions *opts, const char *device);

/* Sets whether a name that is already taken gets a suffix _1, _2 and so on. Otherwise it is an error. */
TF_CAPI_EXPORT extern void TF_ImportGraphDefOptionsSetUniquifyNames(TF_ImportGraphDefOptions *opts,
                                                                    unsigned char uniquify_names);
/* The same for the prefix. */
TF_CAPI_EXPORT extern void TF_ImportGraphDefOptionsSetUniquifyPrefix(TF_ImportGraphDefOptions *opts,
                                                                     unsigned char uniquify_prefix);

/* Sets whether colocation with an operation that does not exist is an error. It is by default. */
TF_CAPI_EXPORT extern void TF_ImportGraphDefOptionsSetValidateColocationConstraints(TF_ImportGraphDefOptions *opts,
    unsigned char enable);

/* Connects imported inputs that read src_name:src_index to dst, a tensor of the graph, instead. */
TF_CAPI_EXPORT extern void TF_ImportGraphDefOptionsAddInputMapping(TF_ImportGraphDefOptions *opts, const char *src_name,
                                                                   int src_index, TF_Output dst);

/* Makes imported operations that wait for src_name wait for dst instead. */
TF_CAPI_EXPORT extern void TF_ImportGraphDefOptionsRemapControlDependency(TF_ImportGraphDefOptions *opts,
    const char *src_name, TF_Operation *dst);

/* Makes everything imported run after oper. */
TF_CAPI_EXPORT extern void TF_ImportGraphDefOptionsAddControlDependency(TF_ImportGraphDefOptions *opts,
    TF_Operation *oper);

/* Requests an output to be returned, by its name in the GraphDef. */
TF_CAPI_EXPORT extern void TF_ImportGraphDefOptionsAddReturnOutput(TF_ImportGraphDefOptions *opts,
                                                                   const char *oper_name, int index);
/* Returns the number of requested outputs. */
TF_CAPI_EXPORT extern int TF_ImportGraphDefOptionsNumReturnOutputs(const TF_ImportGraphDefOptions *opts);
/* Requests an operation to be returned, by its name in the GraphDef. */
TF_CAPI_EXPORT extern void TF_ImportGraphDefOptionsAddReturnOperation(TF_ImportGraphDefOptions *opts,
                                                                      const char *oper_name);
/* Returns the number of requested operations. */
TF_CAPI_EXPORT extern int TF_ImportGraphDefOptionsNumReturnOperations(const TF_ImportGraphDefOptions *opts);

/* Returns the requested outputs, in the order of the requests. The array is valid as long as the results. */
TF_CAPI_EXPORT extern void TF_ImportGraphDefResultsReturnOutputs(TF_ImportGraphDefResults *results, int *num_outputs,
                                                                 TF_Output **outputs);
/* The same for the requested operations. */
TF_CAPI_EXPORT extern void TF_ImportGraphDefResultsReturnOperations(TF_ImportGraphDefResults *results, int *num_opers,
                                                                    TF_Operation ***opers);
/* Returns the input mappings that nothing used. The arrays are valid as long as the results. */
TF_CAPI_EXPORT extern void TF_ImportGraphDefResultsMissingUnusedInputMappings(TF_ImportGraphDefResults *results,
    int *num_missing_unused_input_mappings, const char ***src_names, int **src_indexes);
/* Deletes the results. NULL is allowed. */
TF_CAPI_EXPORT extern void TF_DeleteImportGraphDefResults(TF_ImportGraphDefResults *results);

/* Imports a serialized GraphDef. The caller deletes the results. NULL after an error. */
TF_CAPI_EXPORT extern TF_ImportGraphDefResults * TF_GraphImportGraphDefWithResults(TF_Graph *graph,
    const TF_Buffer *graph_def, const TF_ImportGraphDefOptions *options, TF_Status *status);

/* The same, under a name of later releases. There the buffer points to a C++ object; here it holds a serialized
 * GraphDef, which every language can make. */
TF_CAPI_EXPORT extern TF_ImportGraphDefResults * TF_GraphImportGraphDefWithResultsNoSerialization(TF_Graph *graph,
    const TF_Buffer *graph_def, const TF_ImportGraphDefOptions *options, TF_Status *status);

/* Imports a serialized GraphDef and stores the requested outputs; num_return_outputs must be their number. */
TF_CAPI_EXPORT extern void TF_GraphImportGraphDefWithReturnOutputs( TF_Graph *graph, const TF_Buffer *graph_def,
                                                                   const TF_ImportGraphDefOptions *options,
                                                                   TF_Output *return_outputs, int num_return_outputs,
                                                                   TF_Status *status);

/* Imports a serialized GraphDef. */
TF_CAPI_EXPORT extern void TF_GraphImportGraphDef(TF_Graph *graph, const TF_Buffer *graph_def,
                                                  const TF_ImportGraphDefOptions *options, TF_Status *status);

/* ==== functions ==== */

/* Makes a function from a graph or a part of it. The caller deletes it. NULL after an error.
 *     fn_name                 the name that operations use to call it
 *     append_hash_to_fn_name  1: a hash of the definition is appended to the name
 *     num_opers               -1: the whole graph except the operations of the inputs; otherwise exactly these opers
 *     output_names            NULL, or one name per output
 *     description             a text for readers, or NULL */
TF_CAPI_EXPORT extern TF_Function * TF_GraphToFunction(const TF_Graph *fn_body, const char *fn_name,
                                                       unsigned char append_hash_to_fn_name, int num_opers,
                                                       const TF_Operation *const *opers, int ninputs,
                                                       const TF_Output *inputs, int noutputs, const TF_Output *outputs,
                                                       const char *const *output_names, const TF_FunctionOptions *opts,
                                                       const char *description, TF_Status *status);

/* The same, with operations that run before a call ends although nothing uses their outputs. */
TF_CAPI_EXPORT extern TF_Function *TF_GraphToFunctionWithControlOutputs( const TF_Graph *fn_body, const char *fn_name,
    unsigned char append_hash_to_fn_name, int num_opers, const TF_Operation *const *opers, int ninputs,
    const TF_Output *inputs, int noutputs, const TF_Output *outputs, const char *const *output_names,
    int ncontrol_outputs, const TF_Operation *const *control_outputs, const char *const *control_output_names,
    const TF_FunctionOptions *opts, const char *description, TF_Status *status);

/* Returns the name of the function. */
TF_CAPI_EXPORT extern const char *TF_FunctionName(TF_Function *func);

/* Stores the serialized FunctionDef in a buffer. */
TF_CAPI_EXPORT extern void TF_FunctionToFunctionDef(TF_Function *func, TF_Buffer *output_func_def, TF_Status *status);

/* Creates a function from a serialized FunctionDef. The caller deletes it. NULL after an error. */
TF_CAPI_EXPORT extern TF_Function *TF_FunctionImportFunctionDef(const void *proto, size_t proto_len, TF_Status *status);

/* Sets an attr of the function from a serialized AttrValue. */
TF_CAPI_EXPORT extern void TF_FunctionSetAttrValueProto(TF_Function *func, const char *attr_name, const void *proto,
                                                        size_t proto_len, TF_Status *status);
/* Stores an attr of the function in a buffer, as a serialized AttrValue. */
TF_CAPI_EXPORT extern void TF_FunctionGetAttrValueProto(TF_Function *func, const char *attr_name,
                                                        TF_Buffer *output_attr_value, TF_Status *status);

/* Deletes the function. Graphs that it was copied to keep it. NULL is allowed. */
TF_CAPI_EXPORT extern void TF_DeleteFunction(TF_Function *func);

/* Copies func into the graph, so that its operations can call it, and grad as its gradient unless it is NULL. Adding
 * the same definition again is allowed; another definition with the same name is an error. */
TF_CAPI_EXPORT extern void TF_GraphCopyFunction(TF_Graph *g, const TF_Function *func, const TF_Function *grad,
                                                TF_Status *status);

/* Returns the number of functions in the graph. */
TF_CAPI_EXPORT extern int TF_GraphNumFunctions(TF_Graph *g);

/* Stores at most max_func functions, which the caller deletes, and returns how many it stored. */
TF_CAPI_EXPORT extern int TF_GraphGetFunctions(TF_Graph *g, TF_Function **funcs, int max_func, TF_Status *status);

/* Removes a function. Fails with TF_INVALID_ARGUMENT if the graph has none with this name. */
TF_CAPI_EXPORT extern void TF_GraphRemoveFunction(TF_Graph *g, const char *func_name, TF_Status *status);

/* ==== while loops and gradients ==== */

/* A loop that is being built. The caller builds the two graphs from their inputs and sets cond_output, body_outputs and
 * name, which is copied when the loop is finished. */
typedef struct TF_WhileParams {
    const int ninputs;                  /* number of loop variables */
    TF_Graph *const cond_graph;         /* computes whether the loop continues */
    const TF_Output *const cond_inputs; /* the loop variables in cond_graph */
    TF_Output cond_output;              /* to be set: a boolean scalar of cond_graph */
    TF_Graph *const body_graph;         /* computes the next values of the loop variables */
    const TF_Output *const body_inputs; /* the loop variables in body_graph */
    TF_Output *const body_outputs;      /* to be set: their next values */
    const char *name;                   /* to be set: the name of the loop in g */
} TF_WhileParams;

/* Starts a loop over ninputs values of g. TF_FinishWhile or TF_AbortWhile must follow; the array `inputs` must stay
 * valid until then. After an error all fields of the result are zero. */
TF_CAPI_EXPORT extern TF_WhileParams TF_NewWhile(TF_Graph *g, TF_Output *inputs, int ninputs, TF_Status *status);

/* Adds the loop to g, stores its ninputs results in outputs, and frees both graphs. */
TF_CAPI_EXPORT extern void TF_FinishWhile(const TF_WhileParams *params, TF_Status *status, TF_Output *outputs);

/* Frees both graphs and leaves g unchanged. */
TF_CAPI_EXPORT extern void TF_AbortWhile(const TF_WhileParams *params);

/* Adds operations that compute the gradients of y_1 + y_2 + ... with respect to each x, and stores them in dy, which
 * has nx elements. dx, unless NULL, has one incoming gradient per y. An x that no gradient reaches gets {NULL, -1}. */
TF_CAPI_EXPORT extern void TF_AddGradients(TF_Graph *g, TF_Output *y, int ny, TF_Output *x, int nx, TF_Output *dx,
                                           TF_Status *status, TF_Output *dy);

/* The same; the names of new operations start with prefix/, which must be unused. NULL stands for "gradients", made
 * unique. */
TF_CAPI_EXPORT extern void TF_AddGradientsWithPrefix(TF_Graph *g, const char *prefix, TF_Output *y, int ny,
                                                     TF_Output *x, int nx, TF_Output *dx, TF_Status *status,
                                                     TF_Output *dy);

/* ==== sessions ==== */

/* Creates a session that runs parts of the graph, including operations added later. The graph may be deleted before the
 * session. Returns NULL after an error. */
TF_CAPI_EXPORT extern TF_Session *TF_NewSession(TF_Graph *graph, const TF_SessionOptions *opts, TF_Status *status);

/* Loads the SavedModel in export_dir: imports the MetaGraph that has exactly these tags into `graph`, which must be
 * empty, creates a session, restores the variables and runs the init op. meta_graph_def, unless NULL, receives the
 * serialized MetaGraphDef, whose signatures name the tensors to feed and to fetch. Returns NULL after an error. */
TF_CAPI_EXPORT extern TF_Session *TF_LoadSessionFromSavedModel(const TF_SessionOptions *session_options,
                                                               const TF_Buffer *run_options, const char *export_dir,
                                                               const char *const *tags, int tags_len, TF_Graph *graph,
                                                               TF_Buffer *meta_graph_def, TF_Status *status);

/* Cancels all runs, and refuses new ones. */
TF_CAPI_EXPORT extern void TF_CloseSession(TF_Session *session, TF_Status *status);

/* Deletes the session, even if status reports an error. */
TF_CAPI_EXPORT extern void TF_DeleteSession(TF_Session *session, TF_Status *status);

/* Runs what the outputs and targets need, with inputs[i] replaced by input_values[i]. output_values receives new
 * tensors, which the caller deletes; all are NULL after an error. The caller keeps input_values. run_options is NULL or
 * a serialized RunOptions. run_metadata is NULL or an empty buffer, which receives a serialized RunMetadata. */
TF_CAPI_EXPORT extern void TF_SessionRun(TF_Session *session, const TF_Buffer *run_options, const TF_Output *inputs,
                                         TF_Tensor *const *input_values, int ninputs, const TF_Output *outputs,
                                         TF_Tensor **output_values, int noutputs,
                                         const TF_Operation *const *target_opers, int ntargets, TF_Buffer *run_metadata,
                                         TF_Status *status);

/* Starts a partial run: names all feeds, fetches and targets, which TF_SessionPRun then feeds and fetches in parts. The
 * caller frees *handle with TF_DeletePRunHandle; it is NULL after an error. */
TF_CAPI_EXPORT extern void TF_SessionPRunSetup(TF_Session *session, const TF_Output *inputs, int ninputs,
                                               const TF_Output *outputs, int noutputs,
                                               const TF_Operation *const *target_opers, int ntargets,
                                               const char **handle, TF_Status *status);
/* Continues a partial run with some of its feeds, fetches and targets. Tensors as for TF_SessionRun. */
TF_CAPI_EXPORT extern void TF_SessionPRun(TF_Session *session, const char *handle, const TF_Output *inputs,
                                          TF_Tensor *const *input_values, int ninputs, const TF_Output *outputs,
                                          TF_Tensor **output_values, int noutputs,
                                          const TF_Operation *const *target_opers, int ntargets, TF_Status *status);
/* Frees the handle of a partial run. NULL is allowed. */
TF_CAPI_EXPORT extern void TF_DeletePRunHandle(const char *handle);

/* Passes new operations of the graph to the session now, instead of at the next run. */
TF_CAPI_EXPORT extern void TF_ExtendSession(TF_Session *session, TF_Status *status);

/* Removes the state (variables, queues) in these containers at the target of the options. Without containers, that of
 * the default container. */
TF_CAPI_EXPORT extern void TF_Reset(const TF_SessionOptions *opt, const char **containers, int ncontainers,
                                    TF_Status *status);

/* ---- devices of a session ---- */

/* Returns a list of the session's devices, which the caller deletes. NULL after an error. */
TF_CAPI_EXPORT extern TF_DeviceList *TF_SessionListDevices(TF_Session *session, TF_Status *status);
/* The same for a deprecated session. */
TF_CAPI_EXPORT extern TF_DeviceList *TF_DeprecatedSessionListDevices(TF_DeprecatedSession *session, TF_Status *status);
/* Deletes the list. NULL is allowed. */
TF_CAPI_EXPORT extern void TF_DeleteDeviceList(TF_DeviceList *list);
/* Returns the number of devices. */
TF_CAPI_EXPORT extern int TF_DeviceListCount(const TF_DeviceList *list);

/* Returns the full name of device number index. This function and the three below fail with TF_INVALID_ARGUMENT if
 * there is no such device, and return NULL, -1 or 0. */
TF_CAPI_EXPORT extern const char *TF_DeviceListName(const TF_DeviceList *list, int index, TF_Status *status);
/* Returns its type, for example "CPU". */
TF_CAPI_EXPORT extern const char *TF_DeviceListType(const TF_DeviceList *list, int index, TF_Status *status);
/* Returns the size of its memory. */
TF_CAPI_EXPORT extern int64_t TF_DeviceListMemoryBytes(const TF_DeviceList *list, int index, TF_Status *status);
/* Returns a number that changes when the process of the device restarts. */
TF_CAPI_EXPORT extern uint64_t TF_DeviceListIncarnation(const TF_DeviceList *list, int index, TF_Status *status);

/* ---- sessions without a TF_Graph: they take GraphDefs, and names such as "op:index" ---- */

/* Creates a session without a graph. NULL after an error. */
TF_CAPI_EXPORT extern TF_DeprecatedSession *TF_NewDeprecatedSession(const TF_SessionOptions *opts, TF_Status *status);
/* Cancels all runs, and refuses new ones. */
TF_CAPI_EXPORT extern void TF_CloseDeprecatedSession(TF_DeprecatedSession *session, TF_Status *status);
/* Deletes the session, even if status reports an error. */
TF_CAPI_EXPORT extern void TF_DeleteDeprecatedSession(TF_DeprecatedSession *session, TF_Status *status);

/* Adds the nodes of a serialized GraphDef. */
TF_CAPI_EXPORT extern void TF_ExtendGraph(TF_DeprecatedSession *session, const void *proto, size_t proto_len,
                                          TF_Status *status);

/* Like TF_SessionRun. */
TF_CAPI_EXPORT extern void TF_Run(TF_DeprecatedSession *session, const TF_Buffer *run_options, const char **input_names,
                                  TF_Tensor **inputs, int ninputs, const char **output_names, TF_Tensor **outputs,
                                  int noutputs, const char **target_oper_names, int ntargets, TF_Buffer *run_metadata,
                                  TF_Status *status);
/* Like TF_SessionPRunSetup. */
TF_CAPI_EXPORT extern void TF_PRunSetup(TF_DeprecatedSession *session, const char **input_names, int ninputs,
                                        const char **output_names, int noutputs, const char **target_oper_names,
                                        int ntargets, const char **handle, TF_Status *status);
/* Like TF_SessionPRun. */
TF_CAPI_EXPORT extern void TF_PRun(TF_DeprecatedSession *session, const char *handle, const char **input_names,
                                   TF_Tensor **inputs, int ninputs, const char **output_names, TF_Tensor **outputs,
                                   int noutputs, const char **target_oper_names, int ntargets, TF_Status *status);

/* ==== op libraries and the registry ==== */

/* Loads a shared library. The ops and kernels that it registers are then available to all graphs. The caller deletes
 * the handle; the library itself stays loaded. NULL after an error. */
TF_CAPI_EXPORT extern TF_Library *TF_LoadLibrary(const char *library_filename, TF_Status *status);

/* Returns the serialized OpList of the ops that the library registered. The handle owns the data. */
TF_CAPI_EXPORT extern TF_Buffer TF_GetOpList(TF_Library *lib_handle);
/* Deletes the handle. NULL is allowed. */
TF_CAPI_EXPORT extern void TF_DeleteLibraryHandle(TF_Library *lib_handle);

/* Returns the serialized OpList of all ops, in a new buffer that the caller deletes. */
TF_CAPI_EXPORT extern TF_Buffer *TF_GetAllOpList(void);
/* Returns the serialized KernelList of all kernels, in a new buffer that the caller deletes. */
TF_CAPI_EXPORT extern TF_Buffer *TF_GetAllRegisteredKernels(TF_Status *status);
/* The same for the kernels of one op. */
TF_CAPI_EXPORT extern TF_Buffer *TF_GetRegisteredKernelsForOp(const char *name, TF_Status *status);

/* Creates a map of op descriptions, for makers of language bindings, from a serialized OpList. The caller deletes it.
 * NULL after an error. */
TF_CAPI_EXPORT extern TF_ApiDefMap *TF_NewApiDefMap(TF_Buffer *op_list_buffer, TF_Status *status);
/* Deletes the map. NULL is allowed. */
TF_CAPI_EXPORT extern void TF_DeleteApiDefMap(TF_ApiDefMap *apimap);

/* Merges ApiDefs in the text format into the map. */
TF_CAPI_EXPORT extern void TF_ApiDefMapPut(TF_ApiDefMap *api_def_map, const char *text, size_t text_len,
                                           TF_Status *status);

/* Returns the serialized ApiDef of an op, in a new buffer that the caller deletes. NULL after an error. */
TF_CAPI_EXPORT extern TF_Buffer *TF_ApiDefMapGet(TF_ApiDefMap *api_def_map, const char *name, size_t name_len,
                                                 TF_Status *status);

/* Registers a function that receives every line that the library logs, on the thread that logs it. It must not log
 * itself. There may be several listeners; without any, the library prints nothing. */
TF_CAPI_EXPORT extern void TF_RegisterLogListener(void (*listener)(const char *));

/* One task of a cluster, in this process. */
typedef struct TF_Server TF_Server;
/* Creates a server from a serialized ServerDef with the protocol "grpc". It listens once it is started. Returns NULL
 * after an error. */
TF_CAPI_EXPORT extern TF_Server *TF_NewServer(const void *proto, size_t proto_len, TF_Status *status);
/* Starts the server. */
TF_CAPI_EXPORT extern void TF_ServerStart(TF_Server *server, TF_Status *status);
/* Stops a server that was not started, which then cannot be started any more. For a running server it fails with
 * TF_UNIMPLEMENTED, as in TensorFlow: such a server runs until the process ends, until it is deleted, or until
 * mr_stop_server (millrace/cluster.h). */
TF_CAPI_EXPORT extern void TF_ServerStop(TF_Server *server, TF_Status *status);
/* Waits until the server is stopped. For a server that was not started, it stops it at once. */
TF_CAPI_EXPORT extern void TF_ServerJoin(TF_Server *server, TF_Status *status);
/* Returns "grpc://host:port", the target for sessions. The server owns it. */
TF_CAPI_EXPORT extern const char *TF_ServerTarget(TF_Server *server);
/* Stops and deletes the server. NULL is allowed. */
TF_CAPI_EXPORT extern void TF_DeleteServer(TF_Server *server);

#ifdef __cplusplus
}
#endif

#endif
