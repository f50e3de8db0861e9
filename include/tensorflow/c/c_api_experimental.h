/* tensorflow/c/c_api_experimental.h -- the experimental part of TensorFlow's C API: reading checkpoints, information
 * about ops, debug output.
 *
 * The rules of c_api.h apply. */
#ifndef TENSORFLOW_C_C_API_EXPERIMENTAL_H_
#define TENSORFLOW_C_C_API_EXPERIMENTAL_H_

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/eager/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ==== XLA ====
 *
 * This library does not contain XLA. The settings have no effect. Setters that return a value return the previous
 * one. */

/* Enables XLA for sessions with these options. */
TF_CAPI_EXPORT extern void TF_EnableXLACompilation(TF_SessionOptions *options, unsigned char enable);
/* Sets lazy compilation. */
TF_CAPI_EXPORT extern unsigned char TF_SetXlaEnableLazyCompilation(unsigned char enable);
/* Sets just-in-time compilation for the CPU. */
TF_CAPI_EXPORT extern unsigned char TF_SetTfXlaCpuGlobalJit(unsigned char enable);
/* Sets the mode of automatic clustering. */
TF_CAPI_EXPORT extern void TF_SetXlaAutoJitMode(const char *mode);
/* Returns whether automatic clustering is set. */
TF_CAPI_EXPORT extern unsigned char TF_GetXlaAutoJitEnabled(void);
/* Sets the minimum size of a cluster. */
TF_CAPI_EXPORT extern void TF_SetXlaMinClusterSize(int size);
/* Returns whether constant folding is disabled for XLA. */
TF_CAPI_EXPORT extern unsigned char TF_GetXlaConstantFoldingDisabled(void);
/* Sets whether constant folding is disabled for XLA. */
TF_CAPI_EXPORT extern void TF_SetXlaConstantFoldingDisabled(unsigned char should_enable);

/* ==== options ==== */

/* Returns a serialized ConfigProto for TF_SetConfig, in a new buffer that the caller deletes. */
TF_CAPI_EXPORT extern TF_Buffer *TF_CreateConfig(unsigned char enable_xla_compilation,
                                                 unsigned char gpu_memory_allow_growth, unsigned int num_cpu_devices);
/* Returns a serialized RunOptions for TF_SessionRun, in a new buffer that the caller deletes. */
TF_CAPI_EXPORT extern TF_Buffer *TF_CreateRunOptions(unsigned char enable_full_trace);

/* ==== debugging and tests ==== */

/* Returns the graph as text, which the caller frees with free(), and stores its length in *len. */
TF_CAPI_EXPORT extern const char *TF_GraphDebugString(TF_Graph *graph, size_t *len);
/* The same for a function. */
TF_CAPI_EXPORT extern char *TF_FunctionDebugString(TF_Function *func, size_t *len);
/* Sets status to TF_INTERNAL with this message. */
TF_CAPI_EXPORT extern void TF_MakeInternalErrorStatus(TF_Status *status, const char *errMsg);
/* Does nothing: there is nothing to initialize before main. */
TF_CAPI_EXPORT extern void TF_InitMain(const char *usage, int *argc, char ***argv);
/* Returns a port that no process listens at, 0 if there is none. */
TF_CAPI_EXPORT extern int TF_PickUnusedPortOrDie(void);

/* ==== numbered queues ==== */

/* Runs the operation fifo_queue_dequeue_ID of the session's graph and returns its result, which the caller deletes.
 * NULL after an error. */
TF_CAPI_EXPORT extern TF_Tensor *TF_DequeueNamedTensor(TF_Session *session, int tensor_id, TF_Status *status);
/* Runs the operation fifo_queue_enqueue_ID, with `tensor` fed to arg_tensor_enqueue_ID. */
TF_CAPI_EXPORT extern void TF_EnqueueNamedTensor(TF_Session *session, int tensor_id, TF_Tensor *tensor,
                                                 TF_Status *status);

/* ==== checkpoints ==== */

/* Reads the variables in a checkpoint. */
typedef struct TF_CheckpointReader TF_CheckpointReader;

/* Opens a checkpoint; filename is its prefix. The caller deletes the reader. NULL after an error. */
TF_CAPI_EXPORT extern TF_CheckpointReader *TF_NewCheckpointReader(const char *filename, TF_Status *status);
/* Deletes the reader. NULL is allowed. */
TF_CAPI_EXPORT extern void TF_DeleteCheckpointReader(TF_CheckpointReader *reader);
/* Returns whether the checkpoint has a tensor with this name. */
TF_CAPI_EXPORT extern int TF_CheckpointReaderHasTensor(TF_CheckpointReader *reader, const char *name);
/* Returns the name of variable number index, in alphabetical order. The reader owns it. */
TF_CAPI_EXPORT extern const char *TF_CheckpointReaderGetVariable(TF_CheckpointReader *reader, int index);
/* Returns the number of variables. */
TF_CAPI_EXPORT extern int TF_CheckpointReaderSize(TF_CheckpointReader *reader);
/* Returns the type of a variable, 0 if there is none with this name. */
TF_CAPI_EXPORT extern TF_DataType TF_CheckpointReaderGetVariableDataType(TF_CheckpointReader *reader, const char *name);
/* Returns the rank of a variable, -1 if there is none with this name. */
TF_CAPI_EXPORT extern int TF_CheckpointReaderGetVariableNumDims(TF_CheckpointReader *reader, const char *name);
/* Stores the dimensions of a variable; num_dims must be its rank. */
TF_CAPI_EXPORT extern void TF_CheckpointReaderGetVariableShape(TF_CheckpointReader *reader, const char *name,
                                                               int64_t *dims, int num_dims, TF_Status *status);
/* Returns the value of a variable, which the caller deletes. NULL after an error. */
TF_CAPI_EXPORT extern TF_Tensor *TF_CheckpointReaderGetTensor(TF_CheckpointReader *reader, const char *name,
                                                              TF_Status *status);

/* ==== information about ops ==== */

/* An op with some of its type attrs. */
typedef struct TF_AttrBuilder TF_AttrBuilder;

/* Creates an attr builder for an op. The caller deletes it. */
TF_CAPI_EXPORT extern TF_AttrBuilder *TF_NewAttrBuilder(const char *op_name);
/* Deletes the builder. NULL is allowed. */
TF_CAPI_EXPORT extern void TF_DeleteAttrBuilder(TF_AttrBuilder *builder);
/* Sets a type attr. */
TF_CAPI_EXPORT extern void TF_AttrBuilderSetType(TF_AttrBuilder *builder, const char *attr_name, TF_DataType value);
/* Sets a type list attr. */
TF_CAPI_EXPORT extern void TF_AttrBuilderSetTypeList(TF_AttrBuilder *builder, const char *attr_name,
                                                     const TF_DataType *values, int num_values);
/* Fails with TF_INVALID_ARGUMENT if the op has no kernel for these types on this type of device. */
TF_CAPI_EXPORT extern void TF_AttrBuilderCheckCanRunOnDevice(TF_AttrBuilder *builder, const char *device_type,
                                                             TF_Status *status);
/* Returns the name of the attr that says how many tensors a list input has; NULL and TF_OK if the input is not a list.
 * The string stays valid. */
TF_CAPI_EXPORT extern const char *TF_GetNumberAttrForOpListInput(const char *op_name, int input_index,
                                                                 TF_Status *status);
/* Returns whether the op is stateful. */
TF_CAPI_EXPORT extern int TF_OpIsStateful(const char *op_type, TF_Status *status);

/* A shape and an element type. */
typedef struct TF_ShapeAndType {
    int num_dims;      /* -1: unknown rank */
    int64_t *dims;     /* num_dims sizes; -1: unknown */
    TF_DataType dtype; /* 0: unknown */
} TF_ShapeAndType;
/* A list of shapes and types. */
typedef struct TF_ShapeAndTypeList {
    int num_items;
    TF_ShapeAndType *items;
} TF_ShapeAndTypeList;

/* Creates a list of scalars of unknown type. The caller deletes it. The functions below ignore an index that does not
 * exist. */
TF_CAPI_EXPORT extern TF_ShapeAndTypeList *TF_NewShapeAndTypeList(int num_shapes);
/* Sets the shape of element index. */
TF_CAPI_EXPORT extern void TF_ShapeAndTypeListSetShape(TF_ShapeAndTypeList *shape_list, int index, const int64_t *dims,
                                                       int num_dims);
/* Sets the shape of element index to unknown rank. */
TF_CAPI_EXPORT extern void TF_ShapeAndTypeListSetUnknownShape(TF_ShapeAndTypeList *shape_list, int index);
/* Sets the type of element index. */
TF_CAPI_EXPORT extern void TF_ShapeAndTypeListSetDtype(TF_ShapeAndTypeList *shape_list, int index, TF_DataType dtype);
/* Deletes the list. NULL is allowed. */
TF_CAPI_EXPORT extern void TF_DeleteShapeAndTypeList(TF_ShapeAndTypeList *shape_list);
/* Deletes an array of lists and the lists in it. */
TF_CAPI_EXPORT extern void TF_DeleteShapeAndTypeListArray(TF_ShapeAndTypeList **shape_list_array, int num_items);

/* Infers the output shapes of an op for inputs of these shapes, from its attrs; the inputs of the op need not be set.
 * input_tensors, which may be NULL, has the values of inputs that are known, and NULL for others. The caller deletes
 * *output_shapes. As in TensorFlow, the shapes of resources, and values that are known as shapes only, are neither used
 * nor returned. */
TF_CAPI_EXPORT extern void TFE_InferShapes(TFE_Op *op, TF_ShapeAndTypeList *input_shapes, TF_Tensor **input_tensors,
                                           TF_ShapeAndTypeList *input_tensor_as_shapes,
                                           TF_ShapeAndTypeList **input_resource_shapes_and_types,
                                           TF_ShapeAndTypeList **output_shapes,
                                           TF_ShapeAndTypeList ***output_resource_shapes_and_types, TF_Status *status);

/* Returns a handle to a scalar, whose type must be copyable by memcpy; len is the size of the type. NULL after an
 * error. */
TF_CAPI_EXPORT extern TFE_TensorHandle *TFE_NewTensorHandleFromScalar(TF_DataType data_type, void *data, size_t len,
                                                                      TF_Status *status);

/* ==== TensorFlow plug-ins ====
 *
 * These functions fail with TF_UNIMPLEMENTED, because such plug-ins use StreamExecutor or a file system interface in
 * C++. Millrace has its own device plug-ins: millrace/device.h. */

/* Would load a device plug-in. */
TF_CAPI_EXPORT extern TF_Library *TF_LoadPluggableDeviceLibrary(const char *library_filename, TF_Status *status);
/* Deletes such a handle. NULL is allowed. */
TF_CAPI_EXPORT extern void TF_DeletePluggableDeviceLibraryHandle(TF_Library *lib_handle);
/* Would load a file system plug-in. */
TF_CAPI_EXPORT extern void TF_RegisterFilesystemPlugin(const char *plugin_filename, TF_Status *status);

#ifdef __cplusplus
}
#endif

#endif
