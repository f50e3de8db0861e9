/* tensorflow/c/kernels.h -- kernels written in C: what runs when an op runs.
 *
 *     void *create(TF_OpKernelConstruction *ctx);             once a node: reads attrs, may be NULL
 *     void compute(void *kernel, TF_OpKernelContext *ctx);    once a run, from many threads at once
 *     void destroy(void *kernel);                             frees what create returned
 *
 *     TF_KernelBuilder *b = TF_NewKernelBuilder("Twice", "CPU", create, compute, destroy);
 *     TF_KernelBuilder_TypeConstraint(b, "T", TF_FLOAT, status);
 *     TF_RegisterKernelBuilder("TwiceFloat", b, status);
 *
 * Tensors that these functions hand out are deleted by the kernel with TF_DeleteTensor; the memory
 * behind lives on where the runtime still needs it. */
#ifndef TENSORFLOW_C_KERNELS_H_
#define TENSORFLOW_C_KERNELS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TF_KernelBuilder TF_KernelBuilder;
typedef struct TF_OpKernelConstruction TF_OpKernelConstruction; /* lives for one create */
typedef struct TF_OpKernelContext TF_OpKernelContext;           /* lives for one compute */
typedef struct TF_AsyncOpKernelDoneCallback TF_AsyncOpKernelDoneCallback;
typedef struct TF_VariableInputLockHolder TF_VariableInputLockHolder;

/* ---- registering ---- */

/* A builder for the kernel of one op on one type of device ("CPU").  create_func and delete_func
 * may be NULL.  The builder ends with TF_RegisterKernelBuilder. */
TF_CAPI_EXPORT extern TF_KernelBuilder *TF_NewKernelBuilder(
    const char *op_name, const char *device_name, void *(*create_func)(TF_OpKernelConstruction *),
    void (*compute_func)(void *, TF_OpKernelContext *), void (*delete_func)(void *));

/* The same for a kernel that finishes later: compute_async_func returns at once and ctx stays
 * valid until somebody calls TF_RunAsyncOpKernelDoneCallback(done). */
TF_CAPI_EXPORT extern TF_KernelBuilder *TF_NewAsyncKernelBuilder(
    const char *op_name, const char *device_name, void *(*create_func)(TF_OpKernelConstruction *),
    void (*compute_async_func)(void *, TF_OpKernelContext *, TF_AsyncOpKernelDoneCallback *done),
    void (*delete_func)(void *));

/* Ends an asynchronous compute, on any thread, exactly once; ctx and done are gone afterwards. */
TF_CAPI_EXPORT extern void TF_RunAsyncOpKernelDoneCallback(TF_AsyncOpKernelDoneCallback *done);

/* The kernel serves nodes whose type attr has this value; several calls for one attr allow each
 * of the types. */
TF_CAPI_EXPORT extern void TF_KernelBuilder_TypeConstraint(TF_KernelBuilder *kernel_builder,
                                                           const char *attr_name,
                                                           const TF_DataType type,
                                                           TF_Status *status);

/* This input or output lies in host memory even on another device. */
TF_CAPI_EXPORT extern void TF_KernelBuilder_HostMemory(TF_KernelBuilder *kernel_builder,
                                                       const char *arg_name);

/* Where several kernels fit a node, the one with the higher number runs. */
TF_CAPI_EXPORT extern void TF_KernelBuilder_Priority(TF_KernelBuilder *kernel_builder,
                                                     int32_t priority_number);

/* The kernel serves only nodes whose attr _kernel has this value. */
TF_CAPI_EXPORT extern void TF_KernelBuilder_Label(TF_KernelBuilder *kernel_builder,
                                                  const char *label);

/* Makes the kernel known and takes the builder, also on error.  kernel_name is for messages. */
TF_CAPI_EXPORT extern void TF_RegisterKernelBuilder(const char *kernel_name,
                                                    TF_KernelBuilder *builder, TF_Status *status);

/* The same, with all that a serialized KernelDef says of the kernel (op, device, constraints, host memory, label, priority)
 * in place of what the builder was told.  The message ends with a NUL. */
TF_CAPI_EXPORT extern void TF_RegisterKernelBuilderWithKernelDef(const char *serialized_kernel_def,
                                                                 const char *name,
                                                                 TF_KernelBuilder *builder,
                                                                 TF_Status *status);

/* For a builder that is not registered.  NULL is fine. */
TF_CAPI_EXPORT extern void TF_DeleteKernelBuilder(TF_KernelBuilder *builder);

/* ---- inside create: attrs of the node ----
 *
 * A missing attr gives NOT_FOUND or INVALID_ARGUMENT, one of another type INVALID_ARGUMENT. */

/* Makes create fail with this error (copied). */
TF_CAPI_EXPORT extern void TF_OpKernelConstruction_Failure(TF_OpKernelConstruction *ctx,
                                                           TF_Status *status);

/* The sizes that the getters below need, as in TF_AttrMetadata: list_size is -1 for a single
 * value; total_size counts the bytes of strings and the rank of shapes, else -1. */
TF_CAPI_EXPORT extern void
TF_OpKernelConstruction_GetAttrSize(TF_OpKernelConstruction *ctx, const char *attr_name,
                                    int32_t *list_size, int32_t *total_size, TF_Status *status);

TF_CAPI_EXPORT extern void TF_OpKernelConstruction_GetAttrType(TF_OpKernelConstruction *ctx,
                                                               const char *attr_name,
                                                               TF_DataType *val, TF_Status *status);
/* INVALID_ARGUMENT when the value does not fit 32 bits. */
TF_CAPI_EXPORT extern void TF_OpKernelConstruction_GetAttrInt32(TF_OpKernelConstruction *ctx,
                                                                const char *attr_name, int32_t *val,
                                                                TF_Status *status);
TF_CAPI_EXPORT extern void TF_OpKernelConstruction_GetAttrInt64(TF_OpKernelConstruction *ctx,
                                                                const char *attr_name, int64_t *val,
                                                                TF_Status *status);
TF_CAPI_EXPORT extern void TF_OpKernelConstruction_GetAttrFloat(TF_OpKernelConstruction *ctx,
                                                                const char *attr_name, float *val,
                                                                TF_Status *status);
TF_CAPI_EXPORT extern void TF_OpKernelConstruction_GetAttrBool(TF_OpKernelConstruction *ctx,
                                                               const char *attr_name, TF_Bool *val,
                                                               TF_Status *status);

/* Copies at most max_length bytes; adds no NUL. */
TF_CAPI_EXPORT extern void TF_OpKernelConstruction_GetAttrString(TF_OpKernelConstruction *ctx,
                                                                 const char *attr_name, char *val,
                                                                 size_t max_length,
                                                                 TF_Status *status);

/* A new tensor; the caller deletes it. */
TF_CAPI_EXPORT extern void TF_OpKernelConstruction_GetAttrTensor(TF_OpKernelConstruction *ctx,
                                                                 const char *attr_name,
                                                                 TF_Tensor **val,
                                                                 TF_Status *status);

/* Writes at most num_dims sizes, -1 for unknown ones; nothing when the rank is unknown. */
TF_CAPI_EXPORT extern void
TF_OpKernelConstruction_GetAttrTensorShape(TF_OpKernelConstruction *ctx, const char *attr_name,
                                           int64_t *dims, size_t num_dims, TF_Status *status);

/* The list forms write the first max_vals elements, or all when there are fewer. */
TF_CAPI_EXPORT extern void TF_OpKernelConstruction_GetAttrTypeList(TF_OpKernelConstruction *ctx,
                                                                   const char *attr_name,
                                                                   TF_DataType *vals, int max_vals,
                                                                   TF_Status *status);
TF_CAPI_EXPORT extern void TF_OpKernelConstruction_GetAttrInt32List(TF_OpKernelConstruction *ctx,
                                                                    const char *attr_name,
                                                                    int32_t *vals, int max_vals,
                                                                    TF_Status *status);
TF_CAPI_EXPORT extern void TF_OpKernelConstruction_GetAttrInt64List(TF_OpKernelConstruction *ctx,
                                                                    const char *attr_name,
                                                                    int64_t *vals, int max_vals,
                                                                    TF_Status *status);
TF_CAPI_EXPORT extern void TF_OpKernelConstruction_GetAttrFloatList(TF_OpKernelConstruction *ctx,
                                                                    const char *attr_name,
                                                                    float *vals, int max_vals,
                                                                    TF_Status *status);
TF_CAPI_EXPORT extern void TF_OpKernelConstruction_GetAttrBoolList(TF_OpKernelConstruction *ctx,
                                                                   const char *attr_name,
                                                                   TF_Bool *vals, int max_vals,
                                                                   TF_Status *status);

/* The bytes go to storage (total_size of TF_OpKernelConstruction_GetAttrSize); vals point into it,
 * without NULs.  INVALID_ARGUMENT when storage is too small. */
TF_CAPI_EXPORT extern void
TF_OpKernelConstruction_GetAttrStringList(TF_OpKernelConstruction *ctx, const char *attr_name,
                                          char **vals, size_t *lengths, int max_values,
                                          void *storage, size_t storage_size, TF_Status *status);

/* New tensors; the caller deletes each. */
TF_CAPI_EXPORT extern void
TF_OpKernelConstruction_GetAttrTensorList(TF_OpKernelConstruction *ctx, const char *attr_name,
                                          TF_Tensor **vals, int max_values, TF_Status *status);

TF_CAPI_EXPORT extern bool TF_OpKernelConstruction_HasAttr(TF_OpKernelConstruction *ctx,
                                                           const char *attr_name,
                                                           TF_Status *status);

/* The name of the node; lives as long as ctx. */
TF_CAPI_EXPORT extern TF_StringView TF_OpKernelConstruction_GetName(TF_OpKernelConstruction *ctx);

/* A function attr as a serialized NameAttrList, and the whole node as a NodeDef; the kernel deletes the buffer.  NULL on
 * error. */
TF_CAPI_EXPORT extern TF_Buffer *
TF_OpKernelConstruction_GetAttrFunction(TF_OpKernelConstruction *ctx, const char *attr_name,
                                        TF_Status *status);
TF_CAPI_EXPORT extern TF_Buffer *TF_OpKernelConstruction_GetNodeDef(TF_OpKernelConstruction *ctx,
                                                                    TF_Status *status);

/* ---- inside compute: inputs and outputs ---- */

TF_CAPI_EXPORT extern int TF_NumInputs(TF_OpKernelContext *ctx);
TF_CAPI_EXPORT extern int TF_NumOutputs(TF_OpKernelContext *ctx);

/* A new tensor sharing input i; the kernel deletes it.  OUT_OF_RANGE when there is none. */
TF_CAPI_EXPORT extern void TF_GetInput(TF_OpKernelContext *ctx, int i, TF_Tensor **tensor,
                                       TF_Status *status);

/* The same by the name the op definition gives it; INVALID_ARGUMENT for lists and unknown names. */
TF_CAPI_EXPORT extern void TF_GetInputByName(TF_OpKernelContext *ctx, const char *inputName,
                                             TF_Tensor **tensor, TF_Status *status);

typedef struct TF_InputRange_Args {
    size_t struct_size;
    void *priv;
    int start, stop;   /* set: the inputs from start up to stop, which is none of them */
    TF_Status *status; /* set */
} TF_InputRange_Args;
#define TF_InputRange_Args_STRUCT_SIZE (offsetof(TF_InputRange_Args, status) + sizeof(TF_Status *))
/* The inputs that an argument of the op stands for. */
TF_CAPI_EXPORT extern void TF_InputRange(TF_OpKernelContext *ctx, const char *name,
                                         TF_InputRange_Args *args);

/* Whether the kernel asked for this input or output in host memory. */
TF_CAPI_EXPORT extern bool TF_IsHostMemoryInput(TF_OpKernelContext *ctx, int i, TF_Status *status);
TF_CAPI_EXPORT extern bool TF_IsHostMemoryOutput(TF_OpKernelContext *ctx, int i, TF_Status *status);

/* The handle that input i is, as a serialized ResourceHandleProto. */
TF_CAPI_EXPORT extern void
TF_GetSerializedResourceHandleProto(TF_OpKernelContext *ctx, int i,
                                    TF_Buffer *serialized_resource_handle_proto, TF_Status *status);

/* The functions that the node's graph knows, as a serialized FunctionDefLibrary. */
TF_CAPI_EXPORT extern void
TF_GetSerializedFunctionDefLibrary(TF_OpKernelContext *ctx,
                                   TF_Buffer *serialized_function_def_library, TF_Status *status);

/* The type of an input, without taking it; 0 when there is no such input. */
TF_CAPI_EXPORT extern TF_DataType TF_InputDatatype(TF_OpKernelContext *ctx, int index);

/* Whether input i is a reference to a variable. */
TF_CAPI_EXPORT extern bool TF_IsRefInput(TF_OpKernelContext *ctx, int i, TF_Status *status);

/* Makes tensor output i; the kernel still deletes its own handle. */
TF_CAPI_EXPORT extern void TF_SetOutput(TF_OpKernelContext *ctx, int i, const TF_Tensor *tensor,
                                        TF_Status *status);

/* A new handle to output i as set so far, for writing; the kernel deletes it. */
TF_CAPI_EXPORT extern TF_Tensor *TF_GetMutableOutput(TF_OpKernelContext *ctx, int i,
                                                     TF_Status *status);

/* The type output i must have; 0 when there is no such output. */
TF_CAPI_EXPORT extern TF_DataType TF_ExpectedOutputDataType(TF_OpKernelContext *ctx, int i);

/* Makes compute fail with this error (copied). */
TF_CAPI_EXPORT extern void TF_OpKernelContext_Failure(TF_OpKernelContext *ctx, TF_Status *status);

/* Fresh memory of len bytes for an output; it is set already, the kernel fills it and deletes its
 * handle.  NULL on error. */
TF_CAPI_EXPORT extern TF_Tensor *TF_AllocateOutput(TF_OpKernelContext *context, int index,
                                                   TF_DataType dtype, const int64_t *dims,
                                                   int num_dims, size_t len, TF_Status *status);

/* An output in the memory of one of the candidate inputs, when that input has the right type and
 * size and nobody else needs it; else fresh memory.  *forwarded_input (may be NULL) tells which
 * input, -1 for none. */
TF_CAPI_EXPORT extern TF_Tensor *
TF_ForwardInputOrAllocateOutput(TF_OpKernelContext *context, const int *candidate_input_indices,
                                int num_candidate_input_indices, int output_index,
                                const int64_t *output_dims, int output_num_dims,
                                int *forwarded_input, TF_Status *status);

/* Memory for the time of this call; the kernel deletes the tensor.  alloc_attrs may be NULL. */
TF_CAPI_EXPORT extern TF_Tensor *TF_AllocateTemp(TF_OpKernelContext *context, TF_DataType dtype,
                                                 const int64_t *dims, int num_dims,
                                                 TF_AllocatorAttributes *alloc_attrs,
                                                 TF_Status *status);

/* ---- inside compute: where we are; views live as long as ctx ---- */

TF_CAPI_EXPORT extern int64_t TF_StepId(TF_OpKernelContext *ctx);
TF_CAPI_EXPORT extern int64_t TF_GetStepId(TF_OpKernelContext *ctx); /* newer name of the same */

/* The loop this runs in and its iteration; 0 outside of loops. */
TF_CAPI_EXPORT extern uint64_t TF_GetFrameId(TF_OpKernelContext *ctx);
TF_CAPI_EXPORT extern int64_t TF_GetIterId(TF_OpKernelContext *ctx);

TF_CAPI_EXPORT extern int TF_GetDeviceId(TF_OpKernelContext *ctx);
TF_CAPI_EXPORT extern TF_StringView TF_GetDeviceName(TF_OpKernelContext *ctx);

/* The producer version of the graph. */
TF_CAPI_EXPORT extern int TF_GetGraphDefVersion(TF_OpKernelContext *ctx);

/* The name of the node. */
TF_CAPI_EXPORT extern TF_StringView TF_GetOpKernelName(TF_OpKernelContext *ctx);

/* What input `index` reads, by the name of its node; "" when there is no such input. */
TF_CAPI_EXPORT extern TF_StringView TF_GetOpKernelRequestedInput(TF_OpKernelContext *ctx,
                                                                 size_t index);

/* Where resources without a container are. */
TF_CAPI_EXPORT extern TF_StringView TF_GetResourceMgrDefaultContainerName(TF_OpKernelContext *ctx);

/* ---- inside compute: variables ----
 *
 * copyFunc(ctx, source, dest) copies a tensor on the kernel's device; it is called where a value
 * that others still read must not be written. */

/* Sets the variable in resource input input_index to the tensor of input value_index. */
TF_CAPI_EXPORT extern void
TF_AssignVariable(TF_OpKernelContext *ctx, int input_index, int value_index,
                  void (*copyFunc)(TF_OpKernelContext *ctx, TF_Tensor *source, TF_Tensor *dest),
                  TF_Status *status);

/* The same through updateFunc(ctx, variable's tensor, value, Op), which adds, subtracts, ... . */
TF_CAPI_EXPORT extern void TF_AssignUpdateVariable(
    TF_OpKernelContext *ctx, int input_index, int value_index, int Op, int isVariantType,
    void (*copyFunc)(TF_OpKernelContext *ctx, TF_Tensor *source, TF_Tensor *dest),
    void (*updateFunc)(TF_OpKernelContext *ctx, TF_Tensor *tensor, TF_Tensor *value, int Op),
    TF_Status *status);

/* Locks the variables of these inputs in an order that cannot deadlock (do_lock false: none) and
 * returns in *lockHolder what TF_ReleaseVariableInputLockHolder frees. */
TF_CAPI_EXPORT extern void TF_MaybeLockVariableInputMutexesInOrder(
    TF_OpKernelContext *ctx, bool do_lock, bool sparse, const int *const inputs, size_t len,
    void (*copyFunc)(TF_OpKernelContext *ctx, TF_Tensor *source, TF_Tensor *dest),
    TF_VariableInputLockHolder **lockHolder, TF_Status *status);

/* Unlocks and frees.  NULL is fine. */
TF_CAPI_EXPORT extern void
TF_ReleaseVariableInputLockHolder(TF_VariableInputLockHolder *lockHolder);

/* A new tensor sharing the value of the variable in input `input`, for reading and, under its
 * lock, for writing; the kernel deletes it. */
TF_CAPI_EXPORT extern void TF_GetInputTensorFromVariable(
    TF_OpKernelContext *ctx, int input, bool lock_held, bool isVariantType, bool sparse,
    void (*copyFunc)(TF_OpKernelContext *ctx, TF_Tensor *source, TF_Tensor *dest), TF_Tensor **out,
    TF_Status *status);

/* Passes a reference input on as a reference output; nothing happens for other inputs. */
TF_CAPI_EXPORT extern void TF_OpKernelContext_ForwardRefInputToRefOutput(TF_OpKernelContext *ctx,
                                                                         int32_t input_index,
                                                                         int32_t output_index);

#ifdef __cplusplus
}
#endif

#endif
