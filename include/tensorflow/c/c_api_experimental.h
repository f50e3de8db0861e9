/* tensorflow/c/c_api_experimental.h -- what TensorFlow keeps apart as not settled: checkpoints read directly, questions about
 * ops, texts for people.
 *
 * The rules of c_api.h hold. */
#ifndef TENSORFLOW_C_C_API_EXPERIMENTAL_H_
#define TENSORFLOW_C_C_API_EXPERIMENTAL_H_

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/eager/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ================================ a compiler that is not here ================================ */

/* XLA is no part of this library: what is set is remembered and has no effect.  Setters that return a value give the
 * former one. */
TF_CAPI_EXPORT extern void TF_EnableXLACompilation(TF_SessionOptions *options, unsigned char enable);
TF_CAPI_EXPORT extern unsigned char TF_SetXlaEnableLazyCompilation(unsigned char enable);
TF_CAPI_EXPORT extern unsigned char TF_SetTfXlaCpuGlobalJit(unsigned char enable);
TF_CAPI_EXPORT extern void TF_SetXlaAutoJitMode(const char *mode);
TF_CAPI_EXPORT extern unsigned char TF_GetXlaAutoJitEnabled(void);
TF_CAPI_EXPORT extern void TF_SetXlaMinClusterSize(int size);
TF_CAPI_EXPORT extern unsigned char TF_GetXlaConstantFoldingDisabled(void);
TF_CAPI_EXPORT extern void TF_SetXlaConstantFoldingDisabled(unsigned char should_enable);

/* ================================ options ================================ */

/* A serialized ConfigProto for TF_SetConfig, and a RunOptions for TF_SessionRun. */
TF_CAPI_EXPORT extern TF_Buffer *TF_CreateConfig(unsigned char enable_xla_compilation, unsigned char gpu_memory_allow_growth,
                                                 unsigned int num_cpu_devices);
TF_CAPI_EXPORT extern TF_Buffer *TF_CreateRunOptions(unsigned char enable_full_trace);

/* ================================ for people ================================ */

/* The graph or function as text, freed by free(); *len has its length. */
TF_CAPI_EXPORT extern const char *TF_GraphDebugString(TF_Graph *graph, size_t *len);
TF_CAPI_EXPORT extern char *TF_FunctionDebugString(TF_Function *func, size_t *len);
TF_CAPI_EXPORT extern void TF_MakeInternalErrorStatus(TF_Status *status, const char *errMsg);
/* Nothing is to be initialized before main. */
TF_CAPI_EXPORT extern void TF_InitMain(const char *usage, int *argc, char ***argv);
/* A port nobody listens at now, 0 when there is none. */
TF_CAPI_EXPORT extern int TF_PickUnusedPortOrDie(void);

/* ================================ queues by number ================================ */

/* Runs the graph's fifo_queue_dequeue_ID, or fifo_queue_enqueue_ID with arg_tensor_enqueue_ID fed. */
TF_CAPI_EXPORT extern TF_Tensor *TF_DequeueNamedTensor(TF_Session *session, int tensor_id, TF_Status *status);
TF_CAPI_EXPORT extern void TF_EnqueueNamedTensor(TF_Session *session, int tensor_id, TF_Tensor *tensor, TF_Status *status);

/* ================================ checkpoints ================================ */

typedef struct TF_CheckpointReader TF_CheckpointReader;

/* `filename` is the checkpoint's prefix. */
TF_CAPI_EXPORT extern TF_CheckpointReader *TF_NewCheckpointReader(const char *filename, TF_Status *status);
TF_CAPI_EXPORT extern void TF_DeleteCheckpointReader(TF_CheckpointReader *reader);
TF_CAPI_EXPORT extern int TF_CheckpointReaderHasTensor(TF_CheckpointReader *reader, const char *name);
/* The name of the index-th variable, by the alphabet. */
TF_CAPI_EXPORT extern const char *TF_CheckpointReaderGetVariable(TF_CheckpointReader *reader, int index);
TF_CAPI_EXPORT extern int TF_CheckpointReaderSize(TF_CheckpointReader *reader);
/* 0, and -1, when there is none of the name. */
TF_CAPI_EXPORT extern TF_DataType TF_CheckpointReaderGetVariableDataType(TF_CheckpointReader *reader, const char *name);
TF_CAPI_EXPORT extern int TF_CheckpointReaderGetVariableNumDims(TF_CheckpointReader *reader, const char *name);
/* Fills dims; num_dims must be the variable's rank. */
TF_CAPI_EXPORT extern void TF_CheckpointReaderGetVariableShape(TF_CheckpointReader *reader, const char *name, int64_t *dims, int num_dims,
                                                               TF_Status *status);
TF_CAPI_EXPORT extern TF_Tensor *TF_CheckpointReaderGetTensor(TF_CheckpointReader *reader, const char *name, TF_Status *status);

/* ================================ questions about ops ================================ */

typedef struct TF_AttrBuilder TF_AttrBuilder;

TF_CAPI_EXPORT extern TF_AttrBuilder *TF_NewAttrBuilder(const char *op_name);
TF_CAPI_EXPORT extern void TF_DeleteAttrBuilder(TF_AttrBuilder *builder);
TF_CAPI_EXPORT extern void TF_AttrBuilderSetType(TF_AttrBuilder *builder, const char *attr_name, TF_DataType value);
TF_CAPI_EXPORT extern void TF_AttrBuilderSetTypeList(TF_AttrBuilder *builder, const char *attr_name, const TF_DataType *values,
                                                     int num_values);
/* INVALID_ARGUMENT unless a kernel of the op takes these types on such a device. */
TF_CAPI_EXPORT extern void TF_AttrBuilderCheckCanRunOnDevice(TF_AttrBuilder *builder, const char *device_type, TF_Status *status);
/* The attr that says how many tensors a list input has; NULL and OK when the input is no list.  The string stays. */
TF_CAPI_EXPORT extern const char *TF_GetNumberAttrForOpListInput(const char *op_name, int input_index, TF_Status *status);
TF_CAPI_EXPORT extern int TF_OpIsStateful(const char *op_type, TF_Status *status);

typedef struct TF_ShapeAndType {
    int num_dims;  /* -1: unknown rank */
    int64_t *dims; /* -1: unknown */
    TF_DataType dtype; /* 0: unknown */
} TF_ShapeAndType;
typedef struct TF_ShapeAndTypeList {
    int num_items;
    TF_ShapeAndType *items;
} TF_ShapeAndTypeList;

/* Scalars of unknown type at first.  The functions below do nothing for an index that there is not. */
TF_CAPI_EXPORT extern TF_ShapeAndTypeList *TF_NewShapeAndTypeList(int num_shapes);
TF_CAPI_EXPORT extern void TF_ShapeAndTypeListSetShape(TF_ShapeAndTypeList *shape_list, int index, const int64_t *dims, int num_dims);
TF_CAPI_EXPORT extern void TF_ShapeAndTypeListSetUnknownShape(TF_ShapeAndTypeList *shape_list, int index);
TF_CAPI_EXPORT extern void TF_ShapeAndTypeListSetDtype(TF_ShapeAndTypeList *shape_list, int index, TF_DataType dtype);
TF_CAPI_EXPORT extern void TF_DeleteShapeAndTypeList(TF_ShapeAndTypeList *shape_list);
TF_CAPI_EXPORT extern void TF_DeleteShapeAndTypeListArray(TF_ShapeAndTypeList **shape_list_array, int num_items);

/* The shapes that an op would give for inputs of these shapes, by its attrs alone: its inputs need not be set.  input_tensors
 * (may be NULL) has the values of inputs that are known, NULL elsewhere.  *output_shapes is the caller's to delete.  As in
 * TensorFlow, shapes behind resources and values known as shapes only are neither read nor given. */
TF_CAPI_EXPORT extern void TFE_InferShapes(TFE_Op *op, TF_ShapeAndTypeList *input_shapes, TF_Tensor **input_tensors,
                                           TF_ShapeAndTypeList *input_tensor_as_shapes,
                                           TF_ShapeAndTypeList **input_resource_shapes_and_types,
                                           TF_ShapeAndTypeList **output_shapes,
                                           TF_ShapeAndTypeList ***output_resource_shapes_and_types, TF_Status *status);

/* A handle of a scalar of a type that memcpy copies; len is the size of that type. */
TF_CAPI_EXPORT extern TFE_TensorHandle *TFE_NewTensorHandleFromScalar(TF_DataType data_type, void *data, size_t len,
                                                                      TF_Status *status);

/* ================================ plugins of TensorFlow ================================ */

/* UNIMPLEMENTED: these speak StreamExecutor and a filesystem interface of C++.  Devices come by millrace/device.h. */
TF_CAPI_EXPORT extern TF_Library *TF_LoadPluggableDeviceLibrary(const char *library_filename, TF_Status *status);
TF_CAPI_EXPORT extern void TF_DeletePluggableDeviceLibraryHandle(TF_Library *lib_handle);
TF_CAPI_EXPORT extern void TF_RegisterFilesystemPlugin(const char *plugin_filename, TF_Status *status);

#ifdef __cplusplus
}
#endif

#endif
