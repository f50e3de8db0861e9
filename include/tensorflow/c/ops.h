/* tensorflow/c/ops.h -- defining new ops and their shape functions in C.
 *
 * An op is described to a builder in the notation of TensorFlow's op definitions:
 *
 *     TF_OpDefinitionBuilder *b = TF_NewOpDefinitionBuilder("Twice");
 *     TF_OpDefinitionBuilderAddAttr(b, "T: {float, double}");
 *     TF_OpDefinitionBuilderAddInput(b, "x: T");
 *     TF_OpDefinitionBuilderAddOutput(b, "y: T");
 *     TF_OpDefinitionBuilderSetShapeInferenceFunction(b, twice_shape);
 *     TF_RegisterOpDefinition(b, status);
 *
 * kernels.h adds the code that runs. The rules of c_api.h apply. */
#ifndef TENSORFLOW_C_OPS_H_
#define TENSORFLOW_C_OPS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensorflow/c/c_api_macros.h"
#include "tensorflow/c/tf_datatype.h"
#include "tensorflow/c/tf_status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An op that is being defined. */
typedef struct TF_OpDefinitionBuilder TF_OpDefinitionBuilder;
/* The node whose shapes are inferred. Valid during the shape function. */
typedef struct TF_ShapeInferenceContext TF_ShapeInferenceContext;

/* A shape in a shape function. The caller deletes handles that functions return; the shapes themselves live as long as
 * the context. */
typedef struct TF_ShapeHandle TF_ShapeHandle;
/* A dimension in a shape function. The caller deletes it. */
typedef struct TF_DimensionHandle TF_DimensionHandle;

/* ---- defining an op ---- */

/* Creates a builder. op_name is in CamelCase and not used yet. TF_RegisterOpDefinition consumes the builder. */
TF_CAPI_EXPORT extern TF_OpDefinitionBuilder *TF_NewOpDefinitionBuilder(const char *op_name);

/* Registers the op for all graphs and frees the builder, even after an error. */
TF_CAPI_EXPORT extern void TF_RegisterOpDefinition(TF_OpDefinitionBuilder *builder, TF_Status *status);

/* Deletes a builder that was not registered. NULL is allowed. */
TF_CAPI_EXPORT extern void TF_DeleteOpDefinitionBuilder(TF_OpDefinitionBuilder *builder);

/* Adds an attr: "name: type", "name: type = default", "name: {a, b}", "name: int >= 1" or "name: list(type)". */
TF_CAPI_EXPORT extern void TF_OpDefinitionBuilderAddAttr(TF_OpDefinitionBuilder *builder, const char *attr_spec);

/* Adds an input: "name: type", "name: T", "name: N * T", "name: list_attr" or "name: Ref(T)". T, N and list_attr are
 * attrs, which may be added before or after. */
TF_CAPI_EXPORT extern void TF_OpDefinitionBuilderAddInput(TF_OpDefinitionBuilder *builder, const char *input_spec);
/* Adds an output, in the same notation. */
TF_CAPI_EXPORT extern void TF_OpDefinitionBuilderAddOutput(TF_OpDefinitionBuilder *builder, const char *output_spec);

/* Declares that op(a, b) == op(b, a) for all inputs. */
TF_CAPI_EXPORT extern void TF_OpDefinitionBuilderSetIsCommutative(TF_OpDefinitionBuilder *builder, bool is_commutative);

/* Declares that the op combines any number of inputs of one type and shape into a result of the same type and shape,
 * and that they can be grouped in any way. */
TF_CAPI_EXPORT extern void TF_OpDefinitionBuilderSetIsAggregate(TF_OpDefinitionBuilder *builder, bool is_aggregate);

/* Declares that the op has state or side effects. Equal nodes are then not merged, and none is evaluated in advance. */
TF_CAPI_EXPORT extern void TF_OpDefinitionBuilderSetIsStateful(TF_OpDefinitionBuilder *builder, bool is_stateful);

/* Declares that the op may take a variable that has no value yet, as Assign does. */
TF_CAPI_EXPORT extern void TF_OpDefinitionBuilderSetAllowsUninitializedInput(TF_OpDefinitionBuilder *builder,
    bool allows_uninitialized_input);

/* Declares that the op is refused in graphs of this version or newer. The explanation says what to use instead. */
TF_CAPI_EXPORT extern void TF_OpDefinitionBuilderDeprecated(TF_OpDefinitionBuilder *builder, int version,
                                                            const char *explanation);

/* Sets the shape function, which is called when an operation of this op is built. An error that it sets in status makes
 * the building fail. */
TF_CAPI_EXPORT extern void TF_OpDefinitionBuilderSetShapeInferenceFunction( TF_OpDefinitionBuilder *builder,
    void (*shape_inference_func)(TF_ShapeInferenceContext *ctx, TF_Status *status));

/* ---- in a shape function ---- */

/* Returns the number of inputs. */
TF_CAPI_EXPORT extern int64_t TF_ShapeInferenceContextNumInputs(TF_ShapeInferenceContext *ctx);

/* Creates a handle to a shape of unknown rank, for results. The caller deletes it. */
TF_CAPI_EXPORT extern TF_ShapeHandle *TF_NewShapeHandle(void);

/* Sets handle to the shape of input i. Fails with TF_INVALID_ARGUMENT if there is no such input. */
TF_CAPI_EXPORT extern void TF_ShapeInferenceContextGetInput(TF_ShapeInferenceContext *ctx, int i,
                                                            TF_ShapeHandle *handle, TF_Status *status);

/* Sets the shape of output i. Fails with TF_INVALID_ARGUMENT if there is no such output. */
TF_CAPI_EXPORT extern void TF_ShapeInferenceContextSetOutput(TF_ShapeInferenceContext *ctx, int i,
                                                             TF_ShapeHandle *handle, TF_Status *status);

/* Returns a new handle to the shape [], which the caller deletes. */
TF_CAPI_EXPORT extern TF_ShapeHandle *TF_ShapeInferenceContextScalar(TF_ShapeInferenceContext *ctx);

/* Returns a new handle to the shape [size], which the caller deletes. */
TF_CAPI_EXPORT extern TF_ShapeHandle * TF_ShapeInferenceContextVectorFromSize(TF_ShapeInferenceContext *ctx,
    size_t size);

/* Creates a handle to a dimension of unknown size, for results. The caller deletes it. */
TF_CAPI_EXPORT extern TF_DimensionHandle *TF_NewDimensionHandle(void);

/* Stores the value of a type attr. */
TF_CAPI_EXPORT extern void TF_ShapeInferenceContext_GetAttrType(TF_ShapeInferenceContext *ctx, const char *attr_name,
                                                                TF_DataType *val, TF_Status *status);

/* Returns the rank, -1 if it is unknown. */
TF_CAPI_EXPORT extern int64_t TF_ShapeInferenceContextRank(TF_ShapeInferenceContext *ctx, TF_ShapeHandle *handle);

/* Returns 1 if the rank is known, otherwise 0. */
TF_CAPI_EXPORT extern int TF_ShapeInferenceContextRankKnown(TF_ShapeInferenceContext *ctx, TF_ShapeHandle *handle);

/* Sets result to the shape of handle with this rank. Fails with TF_INVALID_ARGUMENT if the shape has another rank. In
 * this function and those below, result and handle may be the same. */
TF_CAPI_EXPORT extern void TF_ShapeInferenceContextWithRank(TF_ShapeInferenceContext *ctx, TF_ShapeHandle *handle,
                                                            int64_t rank, TF_ShapeHandle *result, TF_Status *status);
/* Sets result to the shape of handle. Fails with TF_INVALID_ARGUMENT if its rank is lower. */
TF_CAPI_EXPORT extern void TF_ShapeInferenceContextWithRankAtLeast(TF_ShapeInferenceContext *ctx,
                                                                   TF_ShapeHandle *handle, int64_t rank,
                                                                   TF_ShapeHandle *result, TF_Status *status);
/* Sets result to the shape of handle. Fails with TF_INVALID_ARGUMENT if its rank is higher. */
TF_CAPI_EXPORT extern void TF_ShapeInferenceContextWithRankAtMost(TF_ShapeInferenceContext *ctx, TF_ShapeHandle *handle,
                                                                  int64_t rank, TF_ShapeHandle *result,
                                                                  TF_Status *status);

/* Sets result to dimension i, counted from the end if i is negative. It is unknown if the rank is unknown. */
TF_CAPI_EXPORT extern void TF_ShapeInferenceContextDim(TF_ShapeInferenceContext *ctx, TF_ShapeHandle *shape_handle,
                                                       int64_t i, TF_DimensionHandle *result);

/* Sets result to the dimensions start .. end - 1. Negative numbers count from the end; an end beyond the rank means the
 * rank. */
TF_CAPI_EXPORT extern void TF_ShapeInferenceContextSubshape(TF_ShapeInferenceContext *ctx, TF_ShapeHandle *shape_handle,
                                                            int64_t start, int64_t end, TF_ShapeHandle *result,
                                                            TF_Status *status);

/* Sets all outputs to unknown rank. */
TF_CAPI_EXPORT extern void TF_ShapeInferenceContextSetUnknownShape(TF_ShapeInferenceContext *ctx, TF_Status *status);

/* Returns 1 if the size is known, otherwise 0. */
TF_CAPI_EXPORT extern int TF_DimensionHandleValueKnown(TF_DimensionHandle *dim_handle);

/* Returns the size, -1 if it is unknown. */
TF_CAPI_EXPORT extern int64_t TF_DimensionHandleValue(TF_DimensionHandle *dim_handle);

/* Sets result to the dimensions of first followed by those of second. */
TF_CAPI_EXPORT extern void TF_ShapeInferenceContextConcatenateShapes(TF_ShapeInferenceContext *ctx,
                                                                     TF_ShapeHandle *first, TF_ShapeHandle *second,
                                                                     TF_ShapeHandle *result, TF_Status *status);

/* Deletes the handle. NULL is allowed. */
TF_CAPI_EXPORT extern void TF_DeleteShapeHandle(TF_ShapeHandle *handle);
/* Deletes the handle. NULL is allowed. */
TF_CAPI_EXPORT extern void TF_DeleteDimensionHandle(TF_DimensionHandle *handle);

#ifdef __cplusplus
}
#endif

#endif
