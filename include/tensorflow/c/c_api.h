/* tensorflow/c/c_api.h -- the TensorFlow C API: build or load a dataflow graph, run it.
 *
 *     TF_Graph *g = TF_NewGraph();
 *     TF_OperationDescription *d = TF_NewOperation(g, "Placeholder", "x");
 *     TF_SetAttrType(d, "dtype", TF_FLOAT);
 *     TF_Operation *x = TF_FinishOperation(d, status);
 *     TF_Session *s = TF_NewSession(g, opts, status);
 *     TF_SessionRun(s, NULL, feeds, feed_values, 1, fetches, results, 1, NULL, 0, NULL, status);
 *
 * Rules that hold everywhere:
 *
 *   - A TF_Status * is never NULL; look at it after the call.
 *   - What New* returns is freed by the matching Delete*, which takes NULL too.
 *   - Strings and arrays passed in are copied unless a comment says otherwise.  A const char *
 *     returned belongs to the object it was asked of.
 *   - A TF_Buffer to be filled is empty on entry (TF_NewBuffer) and belongs to the caller.
 *   - unsigned char stands for a boolean.  An unknown rank or size is -1.
 *   - A graph and a session may be used from many threads; an operation being described, a status
 *     and a tensor belong to one thread at a time. */
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

typedef struct TF_SessionOptions TF_SessionOptions;
typedef struct TF_Graph TF_Graph;
typedef struct TF_OperationDescription TF_OperationDescription;
typedef struct TF_Operation TF_Operation; /* lives as long as its graph */
typedef struct TF_Function TF_Function;
typedef struct TF_FunctionOptions TF_FunctionOptions; /* always NULL so far */
typedef struct TF_ImportGraphDefOptions TF_ImportGraphDefOptions;
typedef struct TF_ImportGraphDefResults TF_ImportGraphDefResults;
typedef struct TF_Session TF_Session;
typedef struct TF_DeprecatedSession TF_DeprecatedSession;
typedef struct TF_DeviceList TF_DeviceList;
typedef struct TF_Library TF_Library;
typedef struct TF_ApiDefMap TF_ApiDefMap;

/* Bytes owned elsewhere, not NUL-terminated. */
typedef struct TF_StringView {
    const char *data;
    size_t len;
} TF_StringView;

/* Input number index of an operation. */
typedef struct TF_Input {
    TF_Operation *oper;
    int index;
} TF_Input;

/* Output number index of an operation: a tensor of the graph. */
typedef struct TF_Output {
    TF_Operation *oper;
    int index;
} TF_Output;

/* The version of the TensorFlow API that this library offers, "2.9.1" or alike. */
TF_CAPI_EXPORT extern const char *TF_Version(void);

/* Parses a serialized TensorProto into `to`, an existing tensor that lets go of what it held. */
TF_CAPI_EXPORT extern void TF_TensorFromProto(const TF_Buffer *from, TF_Tensor *to,
                                              TF_Status *status);

/* ================================ session options ================================ */

TF_CAPI_EXPORT extern TF_SessionOptions *TF_NewSessionOptions(void);

/* Where the session runs: "" in this process, "grpc://host:port" at that master. */
TF_CAPI_EXPORT extern void TF_SetTarget(TF_SessionOptions *options, const char *target);

/* Takes a serialized ConfigProto; INVALID_ARGUMENT when it is none. */
TF_CAPI_EXPORT extern void TF_SetConfig(TF_SessionOptions *options, const void *proto,
                                        size_t proto_len, TF_Status *status);

TF_CAPI_EXPORT extern void TF_DeleteSessionOptions(TF_SessionOptions *options);

/* ===================================== graph ===================================== */

TF_CAPI_EXPORT extern TF_Graph *TF_NewGraph(void);

/* The graph goes when its last session is deleted. */
TF_CAPI_EXPORT extern void TF_DeleteGraph(TF_Graph *graph);

/* Tells the graph what is known about a shape; it is merged with what was inferred, and
 * INVALID_ARGUMENT says that they contradict.  num_dims -1: unknown rank. */
TF_CAPI_EXPORT extern void TF_GraphSetTensorShape(TF_Graph *graph, TF_Output output,
                                                  const int64_t *dims, const int num_dims,
                                                  TF_Status *status);

/* The rank of a tensor, -1 when unknown. */
TF_CAPI_EXPORT extern int TF_GraphGetTensorNumDims(TF_Graph *graph, TF_Output output,
                                                   TF_Status *status);

/* The sizes of a tensor, -1 for unknown ones.  num_dims is its rank. */
TF_CAPI_EXPORT extern void TF_GraphGetTensorShape(TF_Graph *graph, TF_Output output, int64_t *dims,
                                                  int num_dims, TF_Status *status);

/* NULL when there is none of this name. */
TF_CAPI_EXPORT extern TF_Operation *TF_GraphOperationByName(TF_Graph *graph, const char *oper_name);

/* All operations in the order they were made: start with *pos = 0; NULL at the end. */
TF_CAPI_EXPORT extern TF_Operation *TF_GraphNextOperation(TF_Graph *graph, size_t *pos);

/* Fills a buffer with the serialized GraphDef. */
TF_CAPI_EXPORT extern void TF_GraphToGraphDef(TF_Graph *graph, TF_Buffer *output_graph_def,
                                              TF_Status *status);

/* Fills a buffer with the serialized OpDef of an op or function that the graph knows. */
TF_CAPI_EXPORT extern void TF_GraphGetOpDef(TF_Graph *graph, const char *op_name,
                                            TF_Buffer *output_op_def, TF_Status *status);

/* Fills a buffer with the serialized VersionDef of the graph. */
TF_CAPI_EXPORT extern void TF_GraphVersions(TF_Graph *graph, TF_Buffer *output_version_def,
                                            TF_Status *status);

/* Makes new_src the source of an existing input. */
TF_CAPI_EXPORT extern void TF_UpdateEdge(TF_Graph *graph, TF_Output new_src, TF_Input dst,
                                         TF_Status *status);

/* Whether operations whose op has no shape function are refused (true at first) or get outputs of
 * unknown shape. */
TF_CAPI_EXPORT extern void TF_SetRequireShapeInferenceFns(TF_Graph *graph, bool require);

/* ============================== building an operation ============================
 *
 * TF_NewOperation, any number of TF_SetDevice, TF_AddInput, TF_SetAttr..., then TF_FinishOperation.
 * Errors on the way are kept and reported at the end.  Inputs come in the order of the OpDef.
 * Attrs that the inputs determine may be left out, as may those with a default. */

TF_CAPI_EXPORT extern TF_OperationDescription *TF_NewOperation(TF_Graph *graph, const char *op_type,
                                                               const char *oper_name);

/* The same for a caller that holds the graph's lock. */
TF_CAPI_EXPORT extern TF_OperationDescription *
TF_NewOperationLocked(TF_Graph *graph, const char *op_type, const char *oper_name);

/* Where the operation shall run, for example "/job:worker/task:1/device:CPU:0" or parts of it. */
TF_CAPI_EXPORT extern void TF_SetDevice(TF_OperationDescription *desc, const char *device);

/* For an input that is one tensor; for one that is a list of tensors use TF_AddInputList. */
TF_CAPI_EXPORT extern void TF_AddInput(TF_OperationDescription *desc, TF_Output input);
TF_CAPI_EXPORT extern void TF_AddInputList(TF_OperationDescription *desc, const TF_Output *inputs,
                                           int num_inputs);

/* The operation runs after this one, without taking a value from it. */
TF_CAPI_EXPORT extern void TF_AddControlInput(TF_OperationDescription *desc, TF_Operation *input);

/* The operation runs on the same device as op. */
TF_CAPI_EXPORT extern void TF_ColocateWith(TF_OperationDescription *desc, TF_Operation *op);

TF_CAPI_EXPORT extern void TF_SetAttrString(TF_OperationDescription *desc, const char *attr_name,
                                            const void *value, size_t length);
TF_CAPI_EXPORT extern void TF_SetAttrStringList(TF_OperationDescription *desc,
                                                const char *attr_name, const void *const *values,
                                                const size_t *lengths, int num_values);
TF_CAPI_EXPORT extern void TF_SetAttrInt(TF_OperationDescription *desc, const char *attr_name,
                                         int64_t value);
TF_CAPI_EXPORT extern void TF_SetAttrIntList(TF_OperationDescription *desc, const char *attr_name,
                                             const int64_t *values, int num_values);
TF_CAPI_EXPORT extern void TF_SetAttrFloat(TF_OperationDescription *desc, const char *attr_name,
                                           float value);
TF_CAPI_EXPORT extern void TF_SetAttrFloatList(TF_OperationDescription *desc, const char *attr_name,
                                               const float *values, int num_values);
TF_CAPI_EXPORT extern void TF_SetAttrBool(TF_OperationDescription *desc, const char *attr_name,
                                          unsigned char value);
TF_CAPI_EXPORT extern void TF_SetAttrBoolList(TF_OperationDescription *desc, const char *attr_name,
                                              const unsigned char *values, int num_values);
TF_CAPI_EXPORT extern void TF_SetAttrType(TF_OperationDescription *desc, const char *attr_name,
                                          TF_DataType value);
TF_CAPI_EXPORT extern void TF_SetAttrTypeList(TF_OperationDescription *desc, const char *attr_name,
                                              const TF_DataType *values, int num_values);

/* In function bodies: the value is that of the function's attr `placeholder`. */
TF_CAPI_EXPORT extern void TF_SetAttrPlaceholder(TF_OperationDescription *desc,
                                                 const char *attr_name, const char *placeholder);

/* The value is a function, by name and without attrs of its own. */
TF_CAPI_EXPORT extern void TF_SetAttrFuncName(TF_OperationDescription *desc, const char *attr_name,
                                              const char *value, size_t length);

/* num_dims -1: unknown rank (dims is not read); a size of -1: unknown. */
TF_CAPI_EXPORT extern void TF_SetAttrShape(TF_OperationDescription *desc, const char *attr_name,
                                           const int64_t *dims, int num_dims);
TF_CAPI_EXPORT extern void TF_SetAttrShapeList(TF_OperationDescription *desc, const char *attr_name,
                                               const int64_t *const *dims, const int *num_dims,
                                               int num_shapes);

/* The same from serialized TensorShapeProtos. */
TF_CAPI_EXPORT extern void TF_SetAttrTensorShapeProto(TF_OperationDescription *desc,
                                                      const char *attr_name, const void *proto,
                                                      size_t proto_len, TF_Status *status);
TF_CAPI_EXPORT extern void TF_SetAttrTensorShapeProtoList(TF_OperationDescription *desc,
                                                          const char *attr_name,
                                                          const void *const *protos,
                                                          const size_t *proto_lens, int num_shapes,
                                                          TF_Status *status);

/* The value is copied into the graph; the caller keeps the tensor. */
TF_CAPI_EXPORT extern void TF_SetAttrTensor(TF_OperationDescription *desc, const char *attr_name,
                                            TF_Tensor *value, TF_Status *status);
TF_CAPI_EXPORT extern void TF_SetAttrTensorList(TF_OperationDescription *desc,
                                                const char *attr_name, TF_Tensor *const *values,
                                                int num_values, TF_Status *status);

/* Any kind of value, as a serialized AttrValue. */
TF_CAPI_EXPORT extern void TF_SetAttrValueProto(TF_OperationDescription *desc,
                                                const char *attr_name, const void *proto,
                                                size_t proto_len, TF_Status *status);

/* Checks the description, infers shapes and adds the operation to the graph.  desc is freed in any
 * case.  On error NULL, and the graph is unchanged. */
TF_CAPI_EXPORT extern TF_Operation *TF_FinishOperation(TF_OperationDescription *desc,
                                                       TF_Status *status);

/* The same for a caller that holds the graph's lock. */
TF_CAPI_EXPORT extern TF_Operation *TF_FinishOperationLocked(TF_OperationDescription *desc,
                                                             TF_Status *status);

/* ---- changing operations that stand ----
 *
 * A session that already runs the operation does not see the change. */

/* op runs after input from now on. */
TF_CAPI_EXPORT extern void TF_AddOperationControlInput(TF_Graph *graph, TF_Operation *op,
                                                       TF_Operation *input);

/* Sets an attr from a serialized AttrValue. */
TF_CAPI_EXPORT extern void TF_SetAttr(TF_Graph *graph, TF_Operation *op, const char *attr_name,
                                      TF_Buffer *attr_value_proto, TF_Status *status);

/* Removes an attr. */
TF_CAPI_EXPORT extern void TF_ClearAttr(TF_Graph *graph, TF_Operation *op, const char *attr_name,
                                        TF_Status *status);

TF_CAPI_EXPORT extern void TF_SetRequestedDevice(TF_Graph *graph, TF_Operation *op,
                                                 const char *device);

/* op waits for nothing but its data inputs from now on. */
TF_CAPI_EXPORT extern void TF_RemoveAllControlInputs(TF_Graph *graph, TF_Operation *op);

/* ============================= inspecting an operation =========================== */

TF_CAPI_EXPORT extern const char *TF_OperationName(TF_Operation *oper);
TF_CAPI_EXPORT extern const char *TF_OperationOpType(TF_Operation *oper);

/* The device that was asked for, "" when none. */
TF_CAPI_EXPORT extern const char *TF_OperationDevice(TF_Operation *oper);

TF_CAPI_EXPORT extern int TF_OperationNumOutputs(TF_Operation *oper);

/* Plus 100 for a reference to a variable. */
TF_CAPI_EXPORT extern TF_DataType TF_OperationOutputType(TF_Output oper_out);

/* How many tensors the output argument of this name stands for; -1 and INVALID_ARGUMENT when there
 * is none. */
TF_CAPI_EXPORT extern int TF_OperationOutputListLength(TF_Operation *oper, const char *arg_name,
                                                       TF_Status *status);

/* Data inputs; control inputs are counted apart. */
TF_CAPI_EXPORT extern int TF_OperationNumInputs(TF_Operation *oper);
TF_CAPI_EXPORT extern TF_DataType TF_OperationInputType(TF_Input oper_in);
TF_CAPI_EXPORT extern int TF_OperationInputListLength(TF_Operation *oper, const char *arg_name,
                                                      TF_Status *status);

/* Where an input comes from; oper NULL when there is no such input. */
TF_CAPI_EXPORT extern TF_Output TF_OperationInput(TF_Input oper_in);

/* The sources of the first max_inputs inputs. */
TF_CAPI_EXPORT extern void TF_OperationAllInputs(TF_Operation *oper, TF_Output *inputs,
                                                 int max_inputs);

/* The inputs that take this output: writes at most max_consumers, returns how many there are. */
TF_CAPI_EXPORT extern int TF_OperationOutputNumConsumers(TF_Output oper_out);
TF_CAPI_EXPORT extern int TF_OperationOutputConsumers(TF_Output oper_out, TF_Input *consumers,
                                                      int max_consumers);

/* Operations this one waits for, and those that wait for it; written and returned likewise. */
TF_CAPI_EXPORT extern int TF_OperationNumControlInputs(TF_Operation *oper);
TF_CAPI_EXPORT extern int TF_OperationGetControlInputs(TF_Operation *oper,
                                                       TF_Operation **control_inputs,
                                                       int max_control_inputs);
TF_CAPI_EXPORT extern int TF_OperationNumControlOutputs(TF_Operation *oper);
TF_CAPI_EXPORT extern int TF_OperationGetControlOutputs(TF_Operation *oper,
                                                        TF_Operation **control_outputs,
                                                        int max_control_outputs);

/* What to know about an attr before asking for its value. */
typedef struct TF_AttrMetadata {
    unsigned char is_list;
    int64_t list_size; /* elements of a list, -1 for a single value */
    TF_AttrType type;  /* of the value, or of the list's elements */
    /* Strings: bytes, summed over a list.  Shapes: the rank, -1 when unknown; in a list the sum of
     * the known ranks.  Else -1. */
    int64_t total_size;
} TF_AttrMetadata;

TF_CAPI_EXPORT extern TF_AttrMetadata
TF_OperationGetAttrMetadata(TF_Operation *oper, const char *attr_name, TF_Status *status);

/* Copies at most max_length bytes (TF_AttrMetadata.total_size); adds no NUL. */
TF_CAPI_EXPORT extern void TF_OperationGetAttrString(TF_Operation *oper, const char *attr_name,
                                                     void *value, size_t max_length,
                                                     TF_Status *status);

/* The bytes go to storage (total_size of them); values point into it.  Lists here and below write
 * at most as many elements as there is room for. */
TF_CAPI_EXPORT extern void TF_OperationGetAttrStringList(TF_Operation *oper, const char *attr_name,
                                                         void **values, size_t *lengths,
                                                         int max_values, void *storage,
                                                         size_t storage_size, TF_Status *status);
TF_CAPI_EXPORT extern void TF_OperationGetAttrInt(TF_Operation *oper, const char *attr_name,
                                                  int64_t *value, TF_Status *status);
TF_CAPI_EXPORT extern void TF_OperationGetAttrIntList(TF_Operation *oper, const char *attr_name,
                                                      int64_t *values, int max_values,
                                                      TF_Status *status);
TF_CAPI_EXPORT extern void TF_OperationGetAttrFloat(TF_Operation *oper, const char *attr_name,
                                                    float *value, TF_Status *status);
TF_CAPI_EXPORT extern void TF_OperationGetAttrFloatList(TF_Operation *oper, const char *attr_name,
                                                        float *values, int max_values,
                                                        TF_Status *status);
TF_CAPI_EXPORT extern void TF_OperationGetAttrBool(TF_Operation *oper, const char *attr_name,
                                                   unsigned char *value, TF_Status *status);
TF_CAPI_EXPORT extern void TF_OperationGetAttrBoolList(TF_Operation *oper, const char *attr_name,
                                                       unsigned char *values, int max_values,
                                                       TF_Status *status);
TF_CAPI_EXPORT extern void TF_OperationGetAttrType(TF_Operation *oper, const char *attr_name,
                                                   TF_DataType *value, TF_Status *status);
TF_CAPI_EXPORT extern void TF_OperationGetAttrTypeList(TF_Operation *oper, const char *attr_name,
                                                       TF_DataType *values, int max_values,
                                                       TF_Status *status);

/* Writes at most num_dims sizes (total_size of them), nothing when the rank is unknown. */
TF_CAPI_EXPORT extern void TF_OperationGetAttrShape(TF_Operation *oper, const char *attr_name,
                                                    int64_t *value, int num_dims,
                                                    TF_Status *status);

/* The sizes go to storage (total_size of them); dims[i] points into it.  num_dims[i] is -1 for a
 * shape of unknown rank. */
TF_CAPI_EXPORT extern void TF_OperationGetAttrShapeList(TF_Operation *oper, const char *attr_name,
                                                        int64_t **dims, int *num_dims,
                                                        int num_shapes, int64_t *storage,
                                                        int storage_size, TF_Status *status);

/* Fills a buffer with a serialized TensorShapeProto. */
TF_CAPI_EXPORT extern void TF_OperationGetAttrTensorShapeProto(TF_Operation *oper,
                                                               const char *attr_name,
                                                               TF_Buffer *value, TF_Status *status);

/* Makes a new buffer a shape; the caller deletes each. */
TF_CAPI_EXPORT extern void
TF_OperationGetAttrTensorShapeProtoList(TF_Operation *oper, const char *attr_name,
                                        TF_Buffer **values, int max_values, TF_Status *status);

/* New tensors; the caller deletes each. */
TF_CAPI_EXPORT extern void TF_OperationGetAttrTensor(TF_Operation *oper, const char *attr_name,
                                                     TF_Tensor **value, TF_Status *status);
TF_CAPI_EXPORT extern void TF_OperationGetAttrTensorList(TF_Operation *oper, const char *attr_name,
                                                         TF_Tensor **values, int max_values,
                                                         TF_Status *status);

/* Fills a buffer with a serialized AttrValue, whatever its kind. */
TF_CAPI_EXPORT extern void TF_OperationGetAttrValueProto(TF_Operation *oper, const char *attr_name,
                                                         TF_Buffer *output_attr_value,
                                                         TF_Status *status);

/* The names of all attrs: how many, how long name i is, and its bytes without a NUL. */
TF_CAPI_EXPORT extern int TF_OperationGetNumAttrs(TF_Operation *oper);
TF_CAPI_EXPORT extern int TF_OperationGetAttrNameLength(TF_Operation *oper, int i);
TF_CAPI_EXPORT extern void TF_OperationGetAttrName(TF_Operation *oper, int i, char *output,
                                                   TF_Status *status);

/* Fills a buffer with the serialized NodeDef. */
TF_CAPI_EXPORT extern void TF_OperationToNodeDef(TF_Operation *oper, TF_Buffer *output_node_def,
                                                 TF_Status *status);

/* 1 and a new tensor when the output follows from constants alone; else 0 and NULL. */
TF_CAPI_EXPORT extern unsigned char TF_TryEvaluateConstant(TF_Graph *graph, TF_Output output,
                                                           TF_Tensor **result, TF_Status *status);

/* ============================== importing a GraphDef =============================
 *
 * All or nothing: on error the graph is as before. */

TF_CAPI_EXPORT extern TF_ImportGraphDefOptions *TF_NewImportGraphDefOptions(void);
TF_CAPI_EXPORT extern void TF_DeleteImportGraphDefOptions(TF_ImportGraphDefOptions *opts);

/* Names become prefix/name. */
TF_CAPI_EXPORT extern void TF_ImportGraphDefOptionsSetPrefix(TF_ImportGraphDefOptions *opts,
                                                             const char *prefix);

/* The device of imported operations that ask for none. */
TF_CAPI_EXPORT extern void TF_ImportGraphDefOptionsSetDefaultDevice(TF_ImportGraphDefOptions *opts,
                                                                    const char *device);

/* A name, or the prefix, that is taken gets _1, _2, ... instead of being an error. */
TF_CAPI_EXPORT extern void TF_ImportGraphDefOptionsSetUniquifyNames(TF_ImportGraphDefOptions *opts,
                                                                    unsigned char uniquify_names);
TF_CAPI_EXPORT extern void TF_ImportGraphDefOptionsSetUniquifyPrefix(TF_ImportGraphDefOptions *opts,
                                                                     unsigned char uniquify_prefix);

/* Whether colocation with an operation that is not there is an error (at first it is). */
TF_CAPI_EXPORT extern void
TF_ImportGraphDefOptionsSetValidateColocationConstraints(TF_ImportGraphDefOptions *opts,
                                                         unsigned char enable);

/* Imported inputs src_name:src_index take dst, a tensor of the graph, instead. */
TF_CAPI_EXPORT extern void TF_ImportGraphDefOptionsAddInputMapping(TF_ImportGraphDefOptions *opts,
                                                                   const char *src_name,
                                                                   int src_index, TF_Output dst);

/* Imported operations that wait for src_name wait for dst instead. */
TF_CAPI_EXPORT extern void
TF_ImportGraphDefOptionsRemapControlDependency(TF_ImportGraphDefOptions *opts, const char *src_name,
                                               TF_Operation *dst);

/* Everything imported runs after oper. */
TF_CAPI_EXPORT extern void
TF_ImportGraphDefOptionsAddControlDependency(TF_ImportGraphDefOptions *opts, TF_Operation *oper);

/* Outputs and operations, named as in the GraphDef, to be handed back in this order. */
TF_CAPI_EXPORT extern void TF_ImportGraphDefOptionsAddReturnOutput(TF_ImportGraphDefOptions *opts,
                                                                   const char *oper_name,
                                                                   int index);
TF_CAPI_EXPORT extern int
TF_ImportGraphDefOptionsNumReturnOutputs(const TF_ImportGraphDefOptions *opts);
TF_CAPI_EXPORT extern void
TF_ImportGraphDefOptionsAddReturnOperation(TF_ImportGraphDefOptions *opts, const char *oper_name);
TF_CAPI_EXPORT extern int
TF_ImportGraphDefOptionsNumReturnOperations(const TF_ImportGraphDefOptions *opts);

/* What was asked to be returned, and input mappings that nothing used.  The arrays live as long as
 * the results. */
TF_CAPI_EXPORT extern void TF_ImportGraphDefResultsReturnOutputs(TF_ImportGraphDefResults *results,
                                                                 int *num_outputs,
                                                                 TF_Output **outputs);
TF_CAPI_EXPORT extern void
TF_ImportGraphDefResultsReturnOperations(TF_ImportGraphDefResults *results, int *num_opers,
                                         TF_Operation ***opers);
TF_CAPI_EXPORT extern void
TF_ImportGraphDefResultsMissingUnusedInputMappings(TF_ImportGraphDefResults *results,
                                                   int *num_missing_unused_input_mappings,
                                                   const char ***src_names, int **src_indexes);
TF_CAPI_EXPORT extern void TF_DeleteImportGraphDefResults(TF_ImportGraphDefResults *results);

/* Imports a serialized GraphDef; the caller deletes the results.  NULL on error. */
TF_CAPI_EXPORT extern TF_ImportGraphDefResults *
TF_GraphImportGraphDefWithResults(TF_Graph *graph, const TF_Buffer *graph_def,
                                  const TF_ImportGraphDefOptions *options, TF_Status *status);

/* The same under a name of later releases: there the buffer points at a C++ object, here it holds
 * serialized bytes, the only form that every language can make. */
TF_CAPI_EXPORT extern TF_ImportGraphDefResults *
TF_GraphImportGraphDefWithResultsNoSerialization(TF_Graph *graph, const TF_Buffer *graph_def,
                                                 const TF_ImportGraphDefOptions *options,
                                                 TF_Status *status);

/* Writes the asked-for outputs, exactly num_return_outputs of them. */
TF_CAPI_EXPORT extern void TF_GraphImportGraphDefWithReturnOutputs(
    TF_Graph *graph, const TF_Buffer *graph_def, const TF_ImportGraphDefOptions *options,
    TF_Output *return_outputs, int num_return_outputs, TF_Status *status);

/* Imports and returns nothing. */
TF_CAPI_EXPORT extern void TF_GraphImportGraphDef(TF_Graph *graph, const TF_Buffer *graph_def,
                                                  const TF_ImportGraphDefOptions *options,
                                                  TF_Status *status);

/* =================================== functions =================================== */

/* Makes a function of (part of) a graph; the caller deletes it.
 *   fn_name      as operations will call it; with a hash of the definition added if wanted
 *   num_opers    -1: the whole graph but the producers of inputs; else exactly the listed ones
 *   output_names NULL, or one name an output
 *   description  NULL, or for people
 * NULL on error. */
TF_CAPI_EXPORT extern TF_Function *
TF_GraphToFunction(const TF_Graph *fn_body, const char *fn_name,
                   unsigned char append_hash_to_fn_name, int num_opers,
                   const TF_Operation *const *opers, int ninputs, const TF_Output *inputs,
                   int noutputs, const TF_Output *outputs, const char *const *output_names,
                   const TF_FunctionOptions *opts, const char *description, TF_Status *status);

/* The same, with operations that run before a call is done although nobody takes their outputs. */
TF_CAPI_EXPORT extern TF_Function *TF_GraphToFunctionWithControlOutputs(
    const TF_Graph *fn_body, const char *fn_name, unsigned char append_hash_to_fn_name,
    int num_opers, const TF_Operation *const *opers, int ninputs, const TF_Output *inputs,
    int noutputs, const TF_Output *outputs, const char *const *output_names, int ncontrol_outputs,
    const TF_Operation *const *control_outputs, const char *const *control_output_names,
    const TF_FunctionOptions *opts, const char *description, TF_Status *status);

TF_CAPI_EXPORT extern const char *TF_FunctionName(TF_Function *func);

/* Fills a buffer with the serialized FunctionDef. */
TF_CAPI_EXPORT extern void TF_FunctionToFunctionDef(TF_Function *func, TF_Buffer *output_func_def,
                                                    TF_Status *status);

/* A new function from a serialized FunctionDef.  NULL on error. */
TF_CAPI_EXPORT extern TF_Function *TF_FunctionImportFunctionDef(const void *proto, size_t proto_len,
                                                                TF_Status *status);

/* Sets an attr of the definition from a serialized AttrValue, and fills a buffer with one. */
TF_CAPI_EXPORT extern void TF_FunctionSetAttrValueProto(TF_Function *func, const char *attr_name,
                                                        const void *proto, size_t proto_len,
                                                        TF_Status *status);
TF_CAPI_EXPORT extern void TF_FunctionGetAttrValueProto(TF_Function *func, const char *attr_name,
                                                        TF_Buffer *output_attr_value,
                                                        TF_Status *status);

TF_CAPI_EXPORT extern void TF_DeleteFunction(TF_Function *func);

/* Copies func, and grad as its gradient unless NULL, into the graph, whose operations may then call
 * it.  Adding the same definition again is fine, another one of the same name is an error. */
TF_CAPI_EXPORT extern void TF_GraphCopyFunction(TF_Graph *g, const TF_Function *func,
                                                const TF_Function *grad, TF_Status *status);

TF_CAPI_EXPORT extern int TF_GraphNumFunctions(TF_Graph *g);

/* Writes at most max_func new functions, which the caller deletes, and returns how many. */
TF_CAPI_EXPORT extern int TF_GraphGetFunctions(TF_Graph *g, TF_Function **funcs, int max_func,
                                               TF_Status *status);

/* INVALID_ARGUMENT when the graph has no function of this name. */
TF_CAPI_EXPORT extern void TF_GraphRemoveFunction(TF_Graph *g, const char *func_name,
                                                  TF_Status *status);

/* ============================= while loops, gradients ============================ */

/* A loop being built.  The caller builds the two graphs from their inputs and sets cond_output,
 * body_outputs and name (copied when the loop is finished). */
typedef struct TF_WhileParams {
    const int ninputs;                  /* loop variables */
    TF_Graph *const cond_graph;         /* goes on while its output, a boolean scalar, is true */
    const TF_Output *const cond_inputs; /* one a loop variable, as are the arrays below */
    TF_Output cond_output;
    TF_Graph *const body_graph; /* the next values of the loop variables from the present ones */
    const TF_Output *const body_inputs;
    TF_Output *const body_outputs;
    const char *name; /* of the loop in g */
} TF_WhileParams;

/* Starts a loop over these values of g.  The inputs array stays valid until TF_FinishWhile or
 * TF_AbortWhile, one of which must follow.  All zero on error. */
TF_CAPI_EXPORT extern TF_WhileParams TF_NewWhile(TF_Graph *g, TF_Output *inputs, int ninputs,
                                                 TF_Status *status);

/* Builds the loop into g, writes its ninputs results to outputs and frees both graphs. */
TF_CAPI_EXPORT extern void TF_FinishWhile(const TF_WhileParams *params, TF_Status *status,
                                          TF_Output *outputs);

/* Frees both graphs; g is unchanged. */
TF_CAPI_EXPORT extern void TF_AbortWhile(const TF_WhileParams *params);

/* Adds operations that compute d(y_1 + y_2 + ...)/dx, weighted with dx (one a y) unless it is NULL,
 * and writes nx outputs to dy.  An x that no gradient reaches gets {NULL, -1}. */
TF_CAPI_EXPORT extern void TF_AddGradients(TF_Graph *g, TF_Output *y, int ny, TF_Output *x, int nx,
                                           TF_Output *dx, TF_Status *status, TF_Output *dy);

/* The same under names prefix/..., an unused prefix; NULL stands for "gradients" made unique. */
TF_CAPI_EXPORT extern void TF_AddGradientsWithPrefix(TF_Graph *g, const char *prefix, TF_Output *y,
                                                     int ny, TF_Output *x, int nx, TF_Output *dx,
                                                     TF_Status *status, TF_Output *dy);

/* =================================== sessions ==================================== */

/* A session that runs parts of the graph, including what is added later; the graph may be deleted
 * before it.  The options are only read.  NULL on error. */
TF_CAPI_EXPORT extern TF_Session *TF_NewSession(TF_Graph *graph, const TF_SessionOptions *opts,
                                                TF_Status *status);

/* Reads the SavedModel in the folder, imports the MetaGraph whose tags are just these into the graph, which must be
 * empty, and gives a session with its variables restored and its init op run.  meta_graph_def, unless NULL, is filled
 * with the MetaGraphDef: its signatures name the tensors to feed and to fetch.  NULL on error. */
TF_CAPI_EXPORT extern TF_Session *TF_LoadSessionFromSavedModel(const TF_SessionOptions *session_options, const TF_Buffer *run_options,
                                                               const char *export_dir, const char *const *tags, int tags_len,
                                                               TF_Graph *graph, TF_Buffer *meta_graph_def, TF_Status *status);

/* Cancels what runs and refuses new runs. */
TF_CAPI_EXPORT extern void TF_CloseSession(TF_Session *session, TF_Status *status);

/* Frees the session, whatever the status says. */
TF_CAPI_EXPORT extern void TF_DeleteSession(TF_Session *session, TF_Status *status);

/* Runs what the outputs and targets need, with inputs[i] replaced by input_values[i].
 * output_values are new tensors that the caller deletes, all NULL on error; input_values stay the
 * caller's.  run_options: NULL or a serialized RunOptions.  run_metadata: NULL, or an empty buffer
 * that gets a serialized RunMetadata. */
TF_CAPI_EXPORT extern void TF_SessionRun(TF_Session *session, const TF_Buffer *run_options,
                                         const TF_Output *inputs, TF_Tensor *const *input_values,
                                         int ninputs, const TF_Output *outputs,
                                         TF_Tensor **output_values, int noutputs,
                                         const TF_Operation *const *target_opers, int ntargets,
                                         TF_Buffer *run_metadata, TF_Status *status);

/* Starts a run in parts: all feeds and fetches are named here, TF_SessionPRun gives and takes some
 * of them at a time.  *handle, NULL on error, is freed with TF_DeletePRunHandle. */
TF_CAPI_EXPORT extern void TF_SessionPRunSetup(TF_Session *session, const TF_Output *inputs,
                                               int ninputs, const TF_Output *outputs, int noutputs,
                                               const TF_Operation *const *target_opers,
                                               int ntargets, const char **handle,
                                               TF_Status *status);
TF_CAPI_EXPORT extern void TF_SessionPRun(TF_Session *session, const char *handle,
                                          const TF_Output *inputs, TF_Tensor *const *input_values,
                                          int ninputs, const TF_Output *outputs,
                                          TF_Tensor **output_values, int noutputs,
                                          const TF_Operation *const *target_opers, int ntargets,
                                          TF_Status *status);
TF_CAPI_EXPORT extern void TF_DeletePRunHandle(const char *handle);

/* Hands new operations of the graph to the session now instead of at the next run. */
TF_CAPI_EXPORT extern void TF_ExtendSession(TF_Session *session, TF_Status *status);

/* Drops the state (variables, queues) in these containers at the target; none: the default one. */
TF_CAPI_EXPORT extern void TF_Reset(const TF_SessionOptions *opt, const char **containers,
                                    int ncontainers, TF_Status *status);

/* ---- devices of a session ---- */

/* A new list; the caller deletes it.  NULL on error. */
TF_CAPI_EXPORT extern TF_DeviceList *TF_SessionListDevices(TF_Session *session, TF_Status *status);
TF_CAPI_EXPORT extern TF_DeviceList *TF_DeprecatedSessionListDevices(TF_DeprecatedSession *session,
                                                                     TF_Status *status);
TF_CAPI_EXPORT extern void TF_DeleteDeviceList(TF_DeviceList *list);
TF_CAPI_EXPORT extern int TF_DeviceListCount(const TF_DeviceList *list);

/* Of device number index: full name, type ("CPU"), memory and a number that changes when its
 * process restarts.  NULL, -1 or 0 and INVALID_ARGUMENT when there is no such device. */
TF_CAPI_EXPORT extern const char *TF_DeviceListName(const TF_DeviceList *list, int index,
                                                    TF_Status *status);
TF_CAPI_EXPORT extern const char *TF_DeviceListType(const TF_DeviceList *list, int index,
                                                    TF_Status *status);
TF_CAPI_EXPORT extern int64_t TF_DeviceListMemoryBytes(const TF_DeviceList *list, int index,
                                                       TF_Status *status);
TF_CAPI_EXPORT extern uint64_t TF_DeviceListIncarnation(const TF_DeviceList *list, int index,
                                                        TF_Status *status);

/* ---- sessions without a TF_Graph: they take GraphDefs, and names "op:index" ---- */

TF_CAPI_EXPORT extern TF_DeprecatedSession *TF_NewDeprecatedSession(const TF_SessionOptions *opts,
                                                                    TF_Status *status);
TF_CAPI_EXPORT extern void TF_CloseDeprecatedSession(TF_DeprecatedSession *session,
                                                     TF_Status *status);
TF_CAPI_EXPORT extern void TF_DeleteDeprecatedSession(TF_DeprecatedSession *session,
                                                      TF_Status *status);

/* Adds the nodes of a serialized GraphDef. */
TF_CAPI_EXPORT extern void TF_ExtendGraph(TF_DeprecatedSession *session, const void *proto,
                                          size_t proto_len, TF_Status *status);

/* As TF_SessionRun, TF_SessionPRunSetup and TF_SessionPRun. */
TF_CAPI_EXPORT extern void TF_Run(TF_DeprecatedSession *session, const TF_Buffer *run_options,
                                  const char **input_names, TF_Tensor **inputs, int ninputs,
                                  const char **output_names, TF_Tensor **outputs, int noutputs,
                                  const char **target_oper_names, int ntargets,
                                  TF_Buffer *run_metadata, TF_Status *status);
TF_CAPI_EXPORT extern void TF_PRunSetup(TF_DeprecatedSession *session, const char **input_names,
                                        int ninputs, const char **output_names, int noutputs,
                                        const char **target_oper_names, int ntargets,
                                        const char **handle, TF_Status *status);
TF_CAPI_EXPORT extern void TF_PRun(TF_DeprecatedSession *session, const char *handle,
                                   const char **input_names, TF_Tensor **inputs, int ninputs,
                                   const char **output_names, TF_Tensor **outputs, int noutputs,
                                   const char **target_oper_names, int ntargets, TF_Status *status);

/* ========================== libraries of ops, what there is ====================== */

/* Loads a shared library; the ops and kernels it registers are then known everywhere.  The caller
 * deletes the handle; the library itself stays loaded.  NULL on error. */
TF_CAPI_EXPORT extern TF_Library *TF_LoadLibrary(const char *library_filename, TF_Status *status);

/* The serialized OpList of what the library registered; owned by the handle. */
TF_CAPI_EXPORT extern TF_Buffer TF_GetOpList(TF_Library *lib_handle);
TF_CAPI_EXPORT extern void TF_DeleteLibraryHandle(TF_Library *lib_handle);

/* New buffers that the caller deletes: the serialized OpList of all ops, the KernelList of all
 * kernels and that of one op. */
TF_CAPI_EXPORT extern TF_Buffer *TF_GetAllOpList(void);
TF_CAPI_EXPORT extern TF_Buffer *TF_GetAllRegisteredKernels(TF_Status *status);
TF_CAPI_EXPORT extern TF_Buffer *TF_GetRegisteredKernelsForOp(const char *name, TF_Status *status);

/* Descriptions of ops for makers of language bindings, from a serialized OpList.  NULL on error. */
TF_CAPI_EXPORT extern TF_ApiDefMap *TF_NewApiDefMap(TF_Buffer *op_list_buffer, TF_Status *status);
TF_CAPI_EXPORT extern void TF_DeleteApiDefMap(TF_ApiDefMap *apimap);

/* Merges ApiDefs in text format into the map. */
TF_CAPI_EXPORT extern void TF_ApiDefMapPut(TF_ApiDefMap *api_def_map, const char *text,
                                           size_t text_len, TF_Status *status);

/* A new buffer with the serialized ApiDef of an op, which the caller deletes. */
TF_CAPI_EXPORT extern TF_Buffer *TF_ApiDefMapGet(TF_ApiDefMap *api_def_map, const char *name,
                                                 size_t name_len, TF_Status *status);

/* Calls listener with each line that the library logs, from whichever thread; several listeners
 * all hear it, and it must not log itself.  Without a listener the library is silent. */
TF_CAPI_EXPORT extern void TF_RegisterLogListener(void (*listener)(const char *));

/* ---- servers: one task of a cluster in this process ---- */
typedef struct TF_Server TF_Server;
/* proto: a serialized ServerDef with protocol "grpc".  It listens once it is started. */
TF_CAPI_EXPORT extern TF_Server *TF_NewServer(const void *proto, size_t proto_len, TF_Status *status);
TF_CAPI_EXPORT extern void TF_ServerStart(TF_Server *server, TF_Status *status);
/* UNIMPLEMENTED once it was started, as in TensorFlow: it serves until the process ends or it is deleted, or until mr_stop_server
 * (millrace/cluster.h).  Before, it can then not be started any more. */
TF_CAPI_EXPORT extern void TF_ServerStop(TF_Server *server, TF_Status *status);
/* Waits until it is stopped.  One that was not started is stopped at once. */
TF_CAPI_EXPORT extern void TF_ServerJoin(TF_Server *server, TF_Status *status);
/* "grpc://host:port", the target of sessions; the server's. */
TF_CAPI_EXPORT extern const char *TF_ServerTarget(TF_Server *server);
TF_CAPI_EXPORT extern void TF_DeleteServer(TF_Server *server);

#ifdef __cplusplus
}
#endif

#endif
