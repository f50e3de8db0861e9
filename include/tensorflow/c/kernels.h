/* tensorflow/c/kernels.h -- kernels written in C: the code that runs when an operation runs.
 *
 *     void *create(TF_OpKernelConstruction *ctx);             called once per node: reads attrs; may be NULL
 *     void compute(void *kernel, TF_OpKernelContext *ctx);    called for each run, by several threads at once
 *     void destroy(void *kernel);                             frees the result of create; may be NULL
 *
 *     TF_KernelBuilder *b = TF_NewKernelBuilder("Twice", "CPU", create, compute, destroy);
 *     TF_KernelBuilder_TypeConstraint(b, "T", TF_FLOAT, status);
 *     TF_RegisterKernelBuilder("TwiceFloat", b, status);
 *
 * The kernel deletes the tensors that these functions return with TF_DeleteTensor. Their memory stays alive as long as
 * the runtime needs it. The rules of c_api.h apply. */
#ifndef TENSORFLOW_C_KERNELS_H_
#define TENSORFLOW_C_KERNELS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel that is being described. */
typedef struct TF_KernelBuilder TF_KernelBuilder;
/* The node for which a kernel is created. Valid during create. */
typedef struct TF_OpKernelConstruction TF_OpKernelConstruction;
/* One run of a kernel. Valid during compute; for an asynchronous kernel, until its done callback. */
typedef struct TF_OpKernelContext TF_OpKernelContext;
/* The end of an asynchronous run. */
typedef struct TF_AsyncOpKernelDoneCallback TF_AsyncOpKernelDoneCallback;
/* Locks on variables. */
typedef struct TF_VariableInputLockHolder TF_VariableInputLockHolder;

/* ---- registering kernels ---- */

/* Creates a builder for the kernel of an op on a type of device, for example "CPU". create_func and delete_func may be
 * NULL. TF_RegisterKernelBuilder consumes the builder. */
TF_CAPI_EXPORT extern TF_KernelBuilder *TF_NewKernelBuilder( const char *op_name, const char *device_name,
                                                            void *(*create_func)(TF_OpKernelConstruction *),
                                                            void (*compute_func)(void *, TF_OpKernelContext *),
                                                            void (*delete_func)(void *));

/* The same for an asynchronous kernel: compute_async_func may return before the work is done. The context stays valid
 * until TF_RunAsyncOpKernelDoneCallback(done) is called. */
TF_CAPI_EXPORT extern TF_KernelBuilder *TF_NewAsyncKernelBuilder( const char *op_name, const char *device_name,
                                                                 void *(*create_func)(TF_OpKernelConstruction *),
                                                                 void (*compute_async_func)(void *,
                                                                 TF_OpKernelContext *,
                                                                 TF_AsyncOpKernelDoneCallback *done),
                                                                 void (*delete_func)(void *));

/* Ends an asynchronous run. Call it exactly once, from any thread. The context and done are invalid afterwards. */
TF_CAPI_EXPORT extern void TF_RunAsyncOpKernelDoneCallback(TF_AsyncOpKernelDoneCallback *done);

/* Restricts the kernel to nodes whose type attr has this value. Several calls for one attr allow each of the types. */
TF_CAPI_EXPORT extern void TF_KernelBuilder_TypeConstraint(TF_KernelBuilder *kernel_builder, const char *attr_name,
                                                           const TF_DataType type, TF_Status *status);

/* Requests this input or output in host memory, even on another device. */
TF_CAPI_EXPORT extern void TF_KernelBuilder_HostMemory(TF_KernelBuilder *kernel_builder, const char *arg_name);

/* Sets the priority: if several kernels match a node, the one with the highest number runs. */
TF_CAPI_EXPORT extern void TF_KernelBuilder_Priority(TF_KernelBuilder *kernel_builder, int32_t priority_number);

/* Restricts the kernel to nodes whose attr _kernel has this value. */
TF_CAPI_EXPORT extern void TF_KernelBuilder_Label(TF_KernelBuilder *kernel_builder, const char *label);

/* Registers the kernel and frees the builder, even after an error. kernel_name appears in messages. */
TF_CAPI_EXPORT extern void TF_RegisterKernelBuilder(const char *kernel_name, TF_KernelBuilder *builder,
                                                    TF_Status *status);

/* The same, with the op, device, constraints, host memory, label and priority of a serialized KernelDef instead of
 * those of the builder. The message must end with a NUL. */
TF_CAPI_EXPORT extern void TF_RegisterKernelBuilderWithKernelDef(const char *serialized_kernel_def, const char *name,
                                                                 TF_KernelBuilder *builder, TF_Status *status);

/* Deletes a builder that was not registered. NULL is allowed. */
TF_CAPI_EXPORT extern void TF_DeleteKernelBuilder(TF_KernelBuilder *builder);

/* ---- in create: attrs of the node ----
 *
 * A missing attr is TF_NOT_FOUND or TF_INVALID_ARGUMENT; an attr of another type is TF_INVALID_ARGUMENT. */

/* Makes create fail with this error, which is copied. */
TF_CAPI_EXPORT extern void TF_OpKernelConstruction_Failure(TF_OpKernelConstruction *ctx, TF_Status *status);

/* Stores the sizes that the functions below need, as in TF_AttrMetadata: list_size is -1 for a single value; total_size
 * is the number of bytes of strings, the rank of shapes, and otherwise -1. */
TF_CAPI_EXPORT extern void TF_OpKernelConstruction_GetAttrSize(TF_OpKernelConstruction *ctx, const char *attr_name,
                                                               int32_t *list_size, int32_t *total_size,
                                                               TF_Status *status);

/* Stores the value of a type attr. */
TF_CAPI_EXPORT extern void TF_OpKernelConstruction_GetAttrType(TF_OpKernelConstruction *ctx, const char *attr_name,
                                                               TF_DataType *val, TF_Status *status);
/* Stores the value of an int attr. Fails with TF_INVALID_ARGUMENT if it does not fit into 32 bits. */
TF_CAPI_EXPORT extern void TF_OpKernelConstruction_GetAttrInt32(TF_OpKernelConstruction *ctx, const char *attr_name,
                                                                int32_t *val, TF_Status *status);
/* Stores the value of an int attr. */
TF_CAPI_EXPORT extern void TF_OpKernelConstruction_GetAttrInt64(TF_OpKernelConstruction *ctx, const char *attr_name,
                                                                int64_t *val, TF_Status *status);
/* Stores the value of a float attr. */
TF_CAPI_EXPORT extern void TF_OpKernelConstruction_GetAttrFloat(TF_OpKernelConstruction *ctx, const char *attr_name,
                                                                float *val, TF_Status *status);
/* Stores the value of a bool attr. */
TF_CAPI_EXPORT extern void TF_OpKernelConstruction_GetAttrBool(TF_OpKernelConstruction *ctx, const char *attr_name,
                                                               TF_Bool *val, TF_Status *status);

/* Copies at most max_length bytes of a string attr, without adding a NUL. */
TF_CAPI_EXPORT extern void TF_OpKernelConstruction_GetAttrString(TF_OpKernelConstruction *ctx, const char *attr_name,
                                                                 char *val, size_t max_length, TF_Status *status);

/* Stores the value of a tensor attr as a new tensor, which the caller deletes. */
TF_CAPI_EXPORT extern void TF_OpKernelConstruction_GetAttrTensor(TF_OpKernelConstruction *ctx, const char *attr_name,
                                                                 TF_Tensor **val, TF_Status *status);

/* Stores at most num_dims dimensions of a shape attr, -1 for unknown ones; nothing if the rank is unknown. */
TF_CAPI_EXPORT extern void TF_OpKernelConstruction_GetAttrTensorShape(TF_OpKernelConstruction *ctx,
                                                                      const char *attr_name, int64_t *dims,
                                                                      size_t num_dims, TF_Status *status);

/* TF_OpKernelConstruction_GetAttrTypeList to TF_OpKernelConstruction_GetAttrBoolList store the first max_vals elements
 * of a list attr, or all if there are fewer. */
TF_CAPI_EXPORT extern void TF_OpKernelConstruction_GetAttrTypeList(TF_OpKernelConstruction *ctx, const char *attr_name,
                                                                   TF_DataType *vals, int max_vals, TF_Status *status);
TF_CAPI_EXPORT extern void TF_OpKernelConstruction_GetAttrInt32List(TF_OpKernelConstruction *ctx, const char *attr_name,
                                                                    int32_t *vals, int max_vals, TF_Status *status);
TF_CAPI_EXPORT extern void TF_OpKernelConstruction_GetAttrInt64List(TF_OpKernelConstruction *ctx, const char *attr_name,
                                                                    int64_t *vals, int max_vals, TF_Status *status);
TF_CAPI_EXPORT extern void TF_OpKernelConstruction_GetAttrFloatList(TF_OpKernelConstruction *ctx, const char *attr_name,
                                                                    float *vals, int max_vals, TF_Status *status);
TF_CAPI_EXPORT extern void TF_OpKernelConstruction_GetAttrBoolList(TF_OpKernelConstruction *ctx, const char *attr_name,
                                                                   TF_Bool *vals, int max_vals, TF_Status *status);

/* Copies the strings of a list attr into storage and makes vals[i] point to string i, which has no NUL. storage needs
 * total_size bytes (TF_OpKernelConstruction_GetAttrSize); TF_INVALID_ARGUMENT if it is too small. */
TF_CAPI_EXPORT extern void TF_OpKernelConstruction_GetAttrStringList(TF_OpKernelConstruction *ctx,
                                                                     const char *attr_name, char **vals,
                                                                     size_t *lengths, int max_values, void *storage,
                                                                     size_t storage_size, TF_Status *status);

/* Stores the elements of a tensor list attr as new tensors, which the caller deletes. */
TF_CAPI_EXPORT extern void TF_OpKernelConstruction_GetAttrTensorList(TF_OpKernelConstruction *ctx,
                                                                     const char *attr_name, TF_Tensor **vals,
                                                                     int max_values, TF_Status *status);

/* Returns whether the node has an attr with this name. */
TF_CAPI_EXPORT extern bool TF_OpKernelConstruction_HasAttr(TF_OpKernelConstruction *ctx, const char *attr_name,
                                                           TF_Status *status);

/* Returns the name of the node. It is valid as long as ctx. */
TF_CAPI_EXPORT extern TF_StringView TF_OpKernelConstruction_GetName(TF_OpKernelConstruction *ctx);

/* Returns a function attr as a serialized NameAttrList, in a new buffer that the kernel deletes. NULL after an
 * error. */
TF_CAPI_EXPORT extern TF_Buffer * TF_OpKernelConstruction_GetAttrFunction(TF_OpKernelConstruction *ctx,
    const char *attr_name, TF_Status *status);
/* Returns the serialized NodeDef of the node, in a new buffer that the kernel deletes. NULL after an error. */
TF_CAPI_EXPORT extern TF_Buffer *TF_OpKernelConstruction_GetNodeDef(TF_OpKernelConstruction *ctx, TF_Status *status);

/* ---- in compute: inputs and outputs ---- */

/* Returns the number of inputs. */
TF_CAPI_EXPORT extern int TF_NumInputs(TF_OpKernelContext *ctx);
/* Returns the number of outputs. */
TF_CAPI_EXPORT extern int TF_NumOutputs(TF_OpKernelContext *ctx);

/* Stores a new tensor that shares the memory of input i. The kernel deletes it. Fails with TF_OUT_OF_RANGE if there is
 * no such input. */
TF_CAPI_EXPORT extern void TF_GetInput(TF_OpKernelContext *ctx, int i, TF_Tensor **tensor, TF_Status *status);

/* The same by the name of the argument in the op definition. Fails with TF_INVALID_ARGUMENT for lists and unknown
 * names. */
TF_CAPI_EXPORT extern void TF_GetInputByName(TF_OpKernelContext *ctx, const char *inputName, TF_Tensor **tensor,
                                             TF_Status *status);

/* Arguments and results of TF_InputRange. */
typedef struct TF_InputRange_Args {
    size_t struct_size; /* TF_InputRange_Args_STRUCT_SIZE */
    void *priv;         /* not used */
    int start;          /* result: the first input */
    int stop;           /* result: one past the last input */
    TF_Status *status;  /* set by the caller; receives the status of the call */
} TF_InputRange_Args;
/* The value for struct_size. */
#define TF_InputRange_Args_STRUCT_SIZE (offsetof(TF_InputRange_Args, status) + sizeof(TF_Status *))
/* Finds the inputs that an argument of the op stands for. */
TF_CAPI_EXPORT extern void TF_InputRange(TF_OpKernelContext *ctx, const char *name, TF_InputRange_Args *args);

/* Returns whether the kernel requested input i in host memory. */
TF_CAPI_EXPORT extern bool TF_IsHostMemoryInput(TF_OpKernelContext *ctx, int i, TF_Status *status);
/* Returns whether the kernel requested output i in host memory. */
TF_CAPI_EXPORT extern bool TF_IsHostMemoryOutput(TF_OpKernelContext *ctx, int i, TF_Status *status);

/* Stores the resource handle in input i in a buffer, as a serialized ResourceHandleProto. */
TF_CAPI_EXPORT extern void TF_GetSerializedResourceHandleProto(TF_OpKernelContext *ctx, int i,
                                                               TF_Buffer *serialized_resource_handle_proto,
                                                               TF_Status *status);

/* Stores the functions that the graph of the node knows in a buffer, as a serialized FunctionDefLibrary. */
TF_CAPI_EXPORT extern void TF_GetSerializedFunctionDefLibrary(TF_OpKernelContext *ctx,
                                                              TF_Buffer *serialized_function_def_library,
                                                              TF_Status *status);

/* Returns the type of an input, 0 if there is no such input. */
TF_CAPI_EXPORT extern TF_DataType TF_InputDatatype(TF_OpKernelContext *ctx, int index);

/* Returns whether input i is a reference to a variable. */
TF_CAPI_EXPORT extern bool TF_IsRefInput(TF_OpKernelContext *ctx, int i, TF_Status *status);

/* Sets output i. The kernel still deletes its tensor. */
TF_CAPI_EXPORT extern void TF_SetOutput(TF_OpKernelContext *ctx, int i, const TF_Tensor *tensor, TF_Status *status);

/* Returns a new tensor that shares the memory of output i as set so far, for writing. The kernel deletes it. NULL and
 * TF_FAILED_PRECONDITION if the output is not set yet. */
TF_CAPI_EXPORT extern TF_Tensor *TF_GetMutableOutput(TF_OpKernelContext *ctx, int i, TF_Status *status);

/* Returns the type that output i must have, 0 if there is no such output. */
TF_CAPI_EXPORT extern TF_DataType TF_ExpectedOutputDataType(TF_OpKernelContext *ctx, int i);

/* Makes compute fail with this error, which is copied. */
TF_CAPI_EXPORT extern void TF_OpKernelContext_Failure(TF_OpKernelContext *ctx, TF_Status *status);

/* Allocates len bytes for an output and sets the output. The kernel fills the returned tensor and deletes it. NULL
 * after an error. */
TF_CAPI_EXPORT extern TF_Tensor *TF_AllocateOutput(TF_OpKernelContext *context, int index, TF_DataType dtype,
                                                   const int64_t *dims, int num_dims, size_t len, TF_Status *status);

/* Returns an output that reuses the memory of one of the candidate inputs, if that input has the right type and size
 * and nothing else needs it; otherwise it allocates memory. *forwarded_input, which may be NULL, becomes the number of
 * that input, -1 for none. The kernel deletes the tensor. NULL after an error. */
TF_CAPI_EXPORT extern TF_Tensor * TF_ForwardInputOrAllocateOutput(TF_OpKernelContext *context,
                                                                  const int *candidate_input_indices,
                                                                  int num_candidate_input_indices, int output_index,
                                                                  const int64_t *output_dims, int output_num_dims,
                                                                  int *forwarded_input, TF_Status *status);

/* Allocates a tensor for temporary use. The kernel deletes it. alloc_attrs may be NULL. */
TF_CAPI_EXPORT extern TF_Tensor *TF_AllocateTemp(TF_OpKernelContext *context, TF_DataType dtype, const int64_t *dims,
                                                 int num_dims, TF_AllocatorAttributes *alloc_attrs, TF_Status *status);

/* ---- in compute: step, loop, device and node ----
 *
 * String views are valid as long as ctx. */

/* Returns the id of the step. */
TF_CAPI_EXPORT extern int64_t TF_StepId(TF_OpKernelContext *ctx);
/* Returns the id of the step. This is the newer name of TF_StepId. */
TF_CAPI_EXPORT extern int64_t TF_GetStepId(TF_OpKernelContext *ctx); /* newer name of the same */

/* Returns an id of the loop in which the kernel runs, 0 outside of loops. */
TF_CAPI_EXPORT extern uint64_t TF_GetFrameId(TF_OpKernelContext *ctx);
/* Returns the iteration of that loop, 0 outside of loops. */
TF_CAPI_EXPORT extern int64_t TF_GetIterId(TF_OpKernelContext *ctx);

/* Returns the number of the device among those of its type. */
TF_CAPI_EXPORT extern int TF_GetDeviceId(TF_OpKernelContext *ctx);
/* Returns the name of the device. */
TF_CAPI_EXPORT extern TF_StringView TF_GetDeviceName(TF_OpKernelContext *ctx);

/* Returns the producer version of the graph. */
TF_CAPI_EXPORT extern int TF_GetGraphDefVersion(TF_OpKernelContext *ctx);

/* Returns the name of the node. */
TF_CAPI_EXPORT extern TF_StringView TF_GetOpKernelName(TF_OpKernelContext *ctx);

/* Returns the name of the node that input `index` reads, "" if there is no such input. */
TF_CAPI_EXPORT extern TF_StringView TF_GetOpKernelRequestedInput(TF_OpKernelContext *ctx, size_t index);

/* Returns the name of the container for resources that name none. */
TF_CAPI_EXPORT extern TF_StringView TF_GetResourceMgrDefaultContainerName(TF_OpKernelContext *ctx);

/* ---- in compute: variables ----
 *
 * copyFunc(ctx, source, dest) copies a tensor on the device of the kernel. It is called when a value that others still
 * read must not be overwritten. */

/* Assigns input value_index to the variable in resource input input_index. */
TF_CAPI_EXPORT extern void TF_AssignVariable(TF_OpKernelContext *ctx, int input_index, int value_index,
                                             void (*copyFunc)(TF_OpKernelContext *ctx, TF_Tensor *source,
                                             TF_Tensor *dest), TF_Status *status);

/* Updates the variable by calling updateFunc(ctx, tensor of the variable, value, Op), which adds, subtracts and so
 * on. */
TF_CAPI_EXPORT extern void TF_AssignUpdateVariable( TF_OpKernelContext *ctx, int input_index, int value_index, int Op,
                                                   int isVariantType, void (*copyFunc)(TF_OpKernelContext *ctx,
                                                   TF_Tensor *source, TF_Tensor *dest),
                                                   void (*updateFunc)(TF_OpKernelContext *ctx, TF_Tensor *tensor,
                                                   TF_Tensor *value, int Op), TF_Status *status);

/* Locks the variables in these inputs, in an order that avoids deadlocks; with do_lock false, locks nothing.
 * *lockHolder must be freed with TF_ReleaseVariableInputLockHolder. */
TF_CAPI_EXPORT extern void TF_MaybeLockVariableInputMutexesInOrder( TF_OpKernelContext *ctx, bool do_lock, bool sparse,
                                                                   const int *const inputs, size_t len,
                                                                   void (*copyFunc)(TF_OpKernelContext *ctx,
                                                                   TF_Tensor *source, TF_Tensor *dest),
                                                                   TF_VariableInputLockHolder **lockHolder,
                                                                   TF_Status *status);

/* Unlocks the variables and frees the holder. NULL is allowed. */
TF_CAPI_EXPORT extern void TF_ReleaseVariableInputLockHolder(TF_VariableInputLockHolder *lockHolder);

/* Stores a new tensor that shares the value of the variable in input `input`, for reading and, while it is locked, for
 * writing. The kernel deletes it. */
TF_CAPI_EXPORT extern void TF_GetInputTensorFromVariable( TF_OpKernelContext *ctx, int input, bool lock_held,
                                                         bool isVariantType, bool sparse,
                                                         void (*copyFunc)(TF_OpKernelContext *ctx, TF_Tensor *source,
                                                         TF_Tensor *dest), TF_Tensor **out, TF_Status *status);

/* Passes a reference input on as a reference output. Does nothing for other inputs. */
TF_CAPI_EXPORT extern void TF_OpKernelContext_ForwardRefInputToRefOutput(TF_OpKernelContext *ctx, int32_t input_index,
    int32_t output_index);

#ifdef __cplusplus
}
#endif

#endif
