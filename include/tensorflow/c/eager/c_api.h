/* tensorflow/c/eager/c_api.h -- eager execution: running operations one at a time, without a graph or a session.
 *
 *     TFE_Op *op = TFE_NewOp(ctx, "MatMul", status);
 *     TFE_OpAddInput(op, a, status);
 *     TFE_OpAddInput(op, b, status);
 *     TFE_TensorHandle *product;
 *     int n = 1;
 *     TFE_Execute(op, &product, &n, status);
 *
 * The rules of c_api.h apply. A context may be used from several threads at once; an op belongs to one thread at a
 * time. Handles stay valid after their context is deleted. Execution is always synchronous, even if asynchronous
 * execution was requested. */
#ifndef TENSORFLOW_C_EAGER_C_API_H_
#define TENSORFLOW_C_EAGER_C_API_H_

#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Options for new contexts. */
typedef struct TFE_ContextOptions TFE_ContextOptions;
/* The devices, functions and resources of eager execution. */
typedef struct TFE_Context TFE_Context;
/* A tensor on a device. */
typedef struct TFE_TensorHandle TFE_TensorHandle;
/* How a tensor is stored. */
typedef struct TFE_TensorDebugInfo TFE_TensorDebugInfo;
/* An operation that is about to be executed. */
typedef struct TFE_Op TFE_Op;

/* What to do with an input that is not on the device of its op. This library always copies it. */
typedef enum TFE_ContextDevicePlacementPolicy {
    TFE_DEVICE_PLACEMENT_EXPLICIT = 0,
    TFE_DEVICE_PLACEMENT_WARN = 1,
    TFE_DEVICE_PLACEMENT_SILENT = 2,
    TFE_DEVICE_PLACEMENT_SILENT_FOR_INT32 = 3
} TFE_ContextDevicePlacementPolicy;

/* ==== contexts ==== */

/* Creates options with the defaults. The caller deletes them. */
TF_CAPI_EXPORT extern TFE_ContextOptions *TFE_NewContextOptions(void);
/* Sets the configuration from a serialized ConfigProto. */
TF_CAPI_EXPORT extern void TFE_ContextOptionsSetConfig(TFE_ContextOptions *options, const void *proto, size_t proto_len,
                                                       TF_Status *status);
/* Requests asynchronous execution, which has no effect. */
TF_CAPI_EXPORT extern void TFE_ContextOptionsSetAsync(TFE_ContextOptions *options, unsigned char enable);
/* Sets the placement policy. */
TF_CAPI_EXPORT extern void TFE_ContextOptionsSetDevicePlacementPolicy(TFE_ContextOptions *options,
                                                                      TFE_ContextDevicePlacementPolicy policy);
/* Deletes the options. NULL is allowed. */
TF_CAPI_EXPORT extern void TFE_DeleteContextOptions(TFE_ContextOptions *options);

/* Creates a context. The options can be deleted afterwards. NULL after an error. */
TF_CAPI_EXPORT extern TFE_Context *TFE_NewContext(const TFE_ContextOptions *opts, TF_Status *status);
/* Deletes the context. NULL is allowed. */
TF_CAPI_EXPORT extern void TFE_DeleteContext(TFE_Context *ctx);
/* Returns a list of the devices, which the caller deletes. NULL after an error. */
TF_CAPI_EXPORT extern TF_DeviceList *TFE_ContextListDevices(TFE_Context *ctx, TF_Status *status);
/* Does nothing: no caches are kept. */
TF_CAPI_EXPORT extern void TFE_ContextClearCaches(TFE_Context *ctx);
/* Sets the placement policy of the calling thread. */
TF_CAPI_EXPORT extern void TFE_ContextSetThreadLocalDevicePlacementPolicy(TFE_Context *ctx,
    TFE_ContextDevicePlacementPolicy policy);
/* Returns the placement policy. */
TF_CAPI_EXPORT extern TFE_ContextDevicePlacementPolicy TFE_ContextGetDevicePlacementPolicy(TFE_Context *ctx);
/* Fails with TF_UNIMPLEMENTED: ops of a context run in its process. */
TF_CAPI_EXPORT extern void TFE_ContextSetServerDef(TFE_Context *ctx, int keep_alive_secs, const void *proto,
                                                   size_t proto_len, TF_Status *status);

/* Adds a function from a serialized FunctionDef. It can then be executed by its name, like an op. */
TF_CAPI_EXPORT extern void TFE_ContextAddFunctionDef(TFE_Context *ctx, const char *serialized_function_def, size_t size,
                                                     TF_Status *status);
/* Adds a function. */
TF_CAPI_EXPORT extern void TFE_ContextAddFunction(TFE_Context *ctx, TF_Function *function, TF_Status *status);
/* Removes a function. */
TF_CAPI_EXPORT extern void TFE_ContextRemoveFunction(TFE_Context *ctx, const char *name, TF_Status *status);
/* Returns whether the context has a function with this name. */
TF_CAPI_EXPORT extern unsigned char TFE_ContextHasFunction(TFE_Context *ctx, const char *name);

/* Starts to collect a RunMetadata of all executions. */
TF_CAPI_EXPORT extern void TFE_ContextEnableRunMetadata(TFE_Context *ctx);
/* Stops collecting. */
TF_CAPI_EXPORT extern void TFE_ContextDisableRunMetadata(TFE_Context *ctx);
/* Stores what was collected in a buffer, as a serialized RunMetadata, and starts over. */
TF_CAPI_EXPORT extern void TFE_ContextExportRunMetadata(TFE_Context *ctx, TF_Buffer *buf, TF_Status *status);
/* Does nothing: steps only matter for remote devices. */
TF_CAPI_EXPORT extern void TFE_ContextStartStep(TFE_Context *ctx);
/* Does nothing, as TFE_ContextStartStep. */
TF_CAPI_EXPORT extern void TFE_ContextEndStep(TFE_Context *ctx);

/* ==== handles ==== */

/* Creates a handle that shares the memory of the tensor. The caller still deletes the tensor. NULL after an error. */
TF_CAPI_EXPORT extern TFE_TensorHandle *TFE_NewTensorHandle(const TF_Tensor *t, TF_Status *status);
/* Deletes the handle. NULL is allowed. */
TF_CAPI_EXPORT extern void TFE_DeleteTensorHandle(TFE_TensorHandle *h);
/* Returns the element type. */
TF_CAPI_EXPORT extern TF_DataType TFE_TensorHandleDataType(TFE_TensorHandle *h);
/* Returns the rank. */
TF_CAPI_EXPORT extern int TFE_TensorHandleNumDims(TFE_TensorHandle *h, TF_Status *status);
/* Returns the number of elements. */
TF_CAPI_EXPORT extern int64_t TFE_TensorHandleNumElements(TFE_TensorHandle *h, TF_Status *status);
/* Returns the size of a dimension. */
TF_CAPI_EXPORT extern int64_t TFE_TensorHandleDim(TFE_TensorHandle *h, int dim_index, TF_Status *status);
/* Returns the device whose op produced the tensor. The handle owns the name. */
TF_CAPI_EXPORT extern const char *TFE_TensorHandleDeviceName(TFE_TensorHandle *h, TF_Status *status);
/* Returns the device whose memory holds the tensor. The handle owns the name. */
TF_CAPI_EXPORT extern const char *TFE_TensorHandleBackingDeviceName(TFE_TensorHandle *h, TF_Status *status);
/* Returns a new handle to the same tensor. NULL after an error. */
TF_CAPI_EXPORT extern TFE_TensorHandle *TFE_TensorHandleCopySharingTensor(TFE_TensorHandle *h, TF_Status *status);
/* Returns the value as a tensor that shares the memory of the handle. It is for reading only; the caller deletes it.
 * NULL after an error. */
TF_CAPI_EXPORT extern TF_Tensor *TFE_TensorHandleResolve(TFE_TensorHandle *h, TF_Status *status);
/* Returns a new handle to a copy on another device. NULL after an error. */
TF_CAPI_EXPORT extern TFE_TensorHandle *TFE_TensorHandleCopyToDevice(TFE_TensorHandle *h, TFE_Context *ctx,
                                                                     const char *device_name, TF_Status *status);
/* Returns how the tensor is stored. The caller deletes the result. NULL after an error. */
TF_CAPI_EXPORT extern TFE_TensorDebugInfo *TFE_TensorHandleTensorDebugInfo(TFE_TensorHandle *h, TF_Status *status);
/* Deletes the information. NULL is allowed. */
TF_CAPI_EXPORT extern void TFE_DeleteTensorDebugInfo(TFE_TensorDebugInfo *debug_info);
/* Returns the rank of the tensor on its device. */
TF_CAPI_EXPORT extern int TFE_TensorDebugInfoOnDeviceNumDims(TFE_TensorDebugInfo *debug_info);
/* Returns the size of a dimension on its device. */
TF_CAPI_EXPORT extern int64_t TFE_TensorDebugInfoOnDeviceDim(TFE_TensorDebugInfo *debug_info, int dim_index);

/* ==== ops ==== */

/* Creates an op for one execution of an op or function. NULL and TF_NOT_FOUND if there is none with this name. */
TF_CAPI_EXPORT extern TFE_Op *TFE_NewOp(TFE_Context *ctx, const char *op_or_function_name, TF_Status *status);
/* Deletes the op. NULL is allowed. */
TF_CAPI_EXPORT extern void TFE_DeleteOp(TFE_Op *op);
/* Returns the name of the op or function. The op owns it. */
TF_CAPI_EXPORT extern const char *TFE_OpGetName(const TFE_Op *op, TF_Status *status);
/* Returns the context of the op. */
TF_CAPI_EXPORT extern TFE_Context *TFE_OpGetContext(const TFE_Op *op, TF_Status *status);
/* Sets the device on which to run. */
TF_CAPI_EXPORT extern void TFE_OpSetDevice(TFE_Op *op, const char *device_name, TF_Status *status);
/* Returns the device that was set. The op owns the name. */
TF_CAPI_EXPORT extern const char *TFE_OpGetDevice(const TFE_Op *op, TF_Status *status);
/* Adds an input, in the order of the op's arguments. The tensors of a list argument may be added one by one if an attr
 * says how many there are. */
TF_CAPI_EXPORT extern void TFE_OpAddInput(TFE_Op *op, TFE_TensorHandle *input, TF_Status *status);
/* Adds the tensors of a list argument. */
TF_CAPI_EXPORT extern void TFE_OpAddInputList(TFE_Op *op, TFE_TensorHandle **inputs, int num_inputs, TF_Status *status);
/* Returns the number of tensors added so far. */
TF_CAPI_EXPORT extern int TFE_OpGetFlatInputCount(const TFE_Op *op, TF_Status *status);
/* Returns one of these tensors. The op owns it. */
TF_CAPI_EXPORT extern TFE_TensorHandle *TFE_OpGetFlatInput(const TFE_Op *op, int index, TF_Status *status);
/* Returns the kind of an attr, and stores in *is_list whether it is a list. */
TF_CAPI_EXPORT extern TF_AttrType TFE_OpGetAttrType(TFE_Op *op, const char *attr_name, unsigned char *is_list,
                                                    TF_Status *status);
/* The same for an op or function, given by its name. */
TF_CAPI_EXPORT extern TF_AttrType TFE_OpNameGetAttrType(TFE_Context *ctx, const char *op_or_function_name,
                                                        const char *attr_name, unsigned char *is_list,
                                                        TF_Status *status);

/* TFE_OpSetAttrString and the functions below set an attr to a value or to a list of num_values values. Those without a
 * status leave errors for TFE_Execute to report. */
TF_CAPI_EXPORT extern void TFE_OpSetAttrString(TFE_Op *op, const char *attr_name, const void *value, size_t length);
TF_CAPI_EXPORT extern void TFE_OpSetAttrInt(TFE_Op *op, const char *attr_name, int64_t value);
TF_CAPI_EXPORT extern void TFE_OpSetAttrFloat(TFE_Op *op, const char *attr_name, float value);
TF_CAPI_EXPORT extern void TFE_OpSetAttrBool(TFE_Op *op, const char *attr_name, unsigned char value);
TF_CAPI_EXPORT extern void TFE_OpSetAttrType(TFE_Op *op, const char *attr_name, TF_DataType value);
TF_CAPI_EXPORT extern void TFE_OpSetAttrShape(TFE_Op *op, const char *attr_name, const int64_t *dims,
                                              const int num_dims, TF_Status *out_status);
/* Sets an attr to the function that `value` names. Attrs of value are refused. */
TF_CAPI_EXPORT extern void TFE_OpSetAttrFunction(TFE_Op *op, const char *attr_name, const TFE_Op *value);
TF_CAPI_EXPORT extern void TFE_OpSetAttrFunctionName(TFE_Op *op, const char *attr_name, const char *data,
                                                     size_t length);
TF_CAPI_EXPORT extern void TFE_OpSetAttrTensor(TFE_Op *op, const char *attr_name, TF_Tensor *tensor, TF_Status *status);
TF_CAPI_EXPORT extern void TFE_OpSetAttrStringList(TFE_Op *op, const char *attr_name, const void *const *values,
                                                   const size_t *lengths, int num_values);
TF_CAPI_EXPORT extern void TFE_OpSetAttrIntList(TFE_Op *op, const char *attr_name, const int64_t *values,
                                                int num_values);
TF_CAPI_EXPORT extern void TFE_OpSetAttrFloatList(TFE_Op *op, const char *attr_name, const float *values,
                                                  int num_values);
TF_CAPI_EXPORT extern void TFE_OpSetAttrBoolList(TFE_Op *op, const char *attr_name, const unsigned char *values,
                                                 int num_values);
TF_CAPI_EXPORT extern void TFE_OpSetAttrTypeList(TFE_Op *op, const char *attr_name, const TF_DataType *values,
                                                 int num_values);
TF_CAPI_EXPORT extern void TFE_OpSetAttrShapeList(TFE_Op *op, const char *attr_name, const int64_t **dims,
                                                  const int *num_dims, int num_values, TF_Status *out_status);
TF_CAPI_EXPORT extern void TFE_OpSetAttrFunctionList(TFE_Op *op, const char *attr_name, const TFE_Op **value,
                                                     int num_values);

/* Returns how many tensors an input argument stands for, as far as inputs and attrs determine it. */
TF_CAPI_EXPORT extern int TFE_OpGetInputLength(TFE_Op *op, const char *input_name, TF_Status *status);
/* The same for an output argument. */
TF_CAPI_EXPORT extern int TFE_OpGetOutputLength(TFE_Op *op, const char *output_name, TF_Status *status);

/* Runs the op. *num_retvals is the size of retvals before the call and the number of results after it. The caller
 * deletes the results. After an error there are none. */
TF_CAPI_EXPORT extern void TFE_Execute(TFE_Op *op, TFE_TensorHandle **retvals, int *num_retvals, TF_Status *status);

#ifdef __cplusplus
}
#endif

#endif
