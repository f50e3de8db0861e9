/* tensorflow/c/ops.h -- defining new ops, with their shape functions, from C.
 *
 * An op is described to a builder in the words of TensorFlow's op definitions:
 *
 *     TF_OpDefinitionBuilder *b = TF_NewOpDefinitionBuilder("Twice");
 *     TF_OpDefinitionBuilderAddAttr(b, "T: {float, double}");
 *     TF_OpDefinitionBuilderAddInput(b, "x: T");
 *     TF_OpDefinitionBuilderAddOutput(b, "y: T");
 *     TF_OpDefinitionBuilderSetShapeInferenceFunction(b, twice_shape);
 *     TF_RegisterOpDefinition(b, status);
 *
 * kernels.h adds the code that runs. */
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

typedef struct TF_OpDefinitionBuilder TF_OpDefinitionBuilder;
typedef struct TF_ShapeInferenceContext TF_ShapeInferenceContext; /* lives for one shape function */

/* Shapes and sizes as a shape function sees them.  What New* or another function returns is
 * deleted by the caller; the shapes behind live as long as the context. */
typedef struct TF_ShapeHandle TF_ShapeHandle;
typedef struct TF_DimensionHandle TF_DimensionHandle;

/* ---- the definition ---- */

/* op_name is CamelCase and not yet taken.  The builder ends with TF_RegisterOpDefinition. */
TF_CAPI_EXPORT extern TF_OpDefinitionBuilder *TF_NewOpDefinitionBuilder(const char *op_name);

/* Makes the op known to all graphs and frees the builder, also on error. */
TF_CAPI_EXPORT extern void TF_RegisterOpDefinition(TF_OpDefinitionBuilder *builder,
                                                   TF_Status *status);

/* For a builder that is not registered.  NULL is fine. */
TF_CAPI_EXPORT extern void TF_DeleteOpDefinitionBuilder(TF_OpDefinitionBuilder *builder);

/* "name: type", "name: type = default", "name: {a, b}", "name: int >= 1", "name: list(type)". */
TF_CAPI_EXPORT extern void TF_OpDefinitionBuilderAddAttr(TF_OpDefinitionBuilder *builder,
                                                         const char *attr_spec);

/* "name: type", "name: T", "name: N * T", "name: list_attr", "name: Ref(T)".  Names are those of
 * attrs, which may be added before or after. */
TF_CAPI_EXPORT extern void TF_OpDefinitionBuilderAddInput(TF_OpDefinitionBuilder *builder,
                                                          const char *input_spec);
TF_CAPI_EXPORT extern void TF_OpDefinitionBuilderAddOutput(TF_OpDefinitionBuilder *builder,
                                                           const char *output_spec);

/* op(a, b) == op(b, a) for all inputs. */
TF_CAPI_EXPORT extern void TF_OpDefinitionBuilderSetIsCommutative(TF_OpDefinitionBuilder *builder,
                                                                  bool is_commutative);

/* Takes any number of inputs of one type and shape and yields the same; grouping is free. */
TF_CAPI_EXPORT extern void TF_OpDefinitionBuilderSetIsAggregate(TF_OpDefinitionBuilder *builder,
                                                                bool is_aggregate);

/* The op has state or effects: two equal nodes are not merged, nor is one folded away. */
TF_CAPI_EXPORT extern void TF_OpDefinitionBuilderSetIsStateful(TF_OpDefinitionBuilder *builder,
                                                               bool is_stateful);

/* The op may read a variable that holds no value yet, as Assign does. */
TF_CAPI_EXPORT extern void
TF_OpDefinitionBuilderSetAllowsUninitializedInput(TF_OpDefinitionBuilder *builder,
                                                  bool allows_uninitialized_input);

/* Refused in graphs of this version or newer; explanation says what to use instead. */
TF_CAPI_EXPORT extern void TF_OpDefinitionBuilderDeprecated(TF_OpDefinitionBuilder *builder,
                                                            int version, const char *explanation);

/* Called when an operation of this kind is built; an error in status fails the building. */
TF_CAPI_EXPORT extern void TF_OpDefinitionBuilderSetShapeInferenceFunction(
    TF_OpDefinitionBuilder *builder,
    void (*shape_inference_func)(TF_ShapeInferenceContext *ctx, TF_Status *status));

/* ---- inside a shape function ---- */

TF_CAPI_EXPORT extern int64_t TF_ShapeInferenceContextNumInputs(TF_ShapeInferenceContext *ctx);

/* A handle for results, of unknown rank.  The caller deletes it. */
TF_CAPI_EXPORT extern TF_ShapeHandle *TF_NewShapeHandle(void);

/* Sets handle to the shape of input i; INVALID_ARGUMENT when there is no such input. */
TF_CAPI_EXPORT extern void TF_ShapeInferenceContextGetInput(TF_ShapeInferenceContext *ctx, int i,
                                                            TF_ShapeHandle *handle,
                                                            TF_Status *status);

/* Sets the shape of output i; INVALID_ARGUMENT when there is no such output. */
TF_CAPI_EXPORT extern void TF_ShapeInferenceContextSetOutput(TF_ShapeInferenceContext *ctx, int i,
                                                             TF_ShapeHandle *handle,
                                                             TF_Status *status);

/* A new handle to the shape []; the caller deletes it. */
TF_CAPI_EXPORT extern TF_ShapeHandle *TF_ShapeInferenceContextScalar(TF_ShapeInferenceContext *ctx);

/* A new handle to the shape [size]; the caller deletes it. */
TF_CAPI_EXPORT extern TF_ShapeHandle *
TF_ShapeInferenceContextVectorFromSize(TF_ShapeInferenceContext *ctx, size_t size);

/* A handle for results, of unknown size.  The caller deletes it. */
TF_CAPI_EXPORT extern TF_DimensionHandle *TF_NewDimensionHandle(void);

/* The value of a type attr. */
TF_CAPI_EXPORT extern void TF_ShapeInferenceContext_GetAttrType(TF_ShapeInferenceContext *ctx,
                                                                const char *attr_name,
                                                                TF_DataType *val,
                                                                TF_Status *status);

/* The rank, -1 when unknown. */
TF_CAPI_EXPORT extern int64_t TF_ShapeInferenceContextRank(TF_ShapeInferenceContext *ctx,
                                                           TF_ShapeHandle *handle);

/* 1 when the rank is known, else 0. */
TF_CAPI_EXPORT extern int TF_ShapeInferenceContextRankKnown(TF_ShapeInferenceContext *ctx,
                                                            TF_ShapeHandle *handle);

/* Sets result to the shape of handle with this rank; INVALID_ARGUMENT when its rank is another.
 * Result and handle may be the same, here and below. */
TF_CAPI_EXPORT extern void TF_ShapeInferenceContextWithRank(TF_ShapeInferenceContext *ctx,
                                                            TF_ShapeHandle *handle, int64_t rank,
                                                            TF_ShapeHandle *result,
                                                            TF_Status *status);
TF_CAPI_EXPORT extern void
TF_ShapeInferenceContextWithRankAtLeast(TF_ShapeInferenceContext *ctx, TF_ShapeHandle *handle,
                                        int64_t rank, TF_ShapeHandle *result, TF_Status *status);
TF_CAPI_EXPORT extern void
TF_ShapeInferenceContextWithRankAtMost(TF_ShapeInferenceContext *ctx, TF_ShapeHandle *handle,
                                       int64_t rank, TF_ShapeHandle *result, TF_Status *status);

/* Sets result to dimension i, counted from the end when negative; unknown when the rank is. */
TF_CAPI_EXPORT extern void TF_ShapeInferenceContextDim(TF_ShapeInferenceContext *ctx,
                                                       TF_ShapeHandle *shape_handle, int64_t i,
                                                       TF_DimensionHandle *result);

/* Sets result to the dimensions start..end-1; negative numbers count from the end, end beyond the
 * rank means the rank. */
TF_CAPI_EXPORT extern void TF_ShapeInferenceContextSubshape(TF_ShapeInferenceContext *ctx,
                                                            TF_ShapeHandle *shape_handle,
                                                            int64_t start, int64_t end,
                                                            TF_ShapeHandle *result,
                                                            TF_Status *status);

/* Every output gets unknown rank. */
TF_CAPI_EXPORT extern void TF_ShapeInferenceContextSetUnknownShape(TF_ShapeInferenceContext *ctx,
                                                                   TF_Status *status);

/* 1 when the size is known, else 0. */
TF_CAPI_EXPORT extern int TF_DimensionHandleValueKnown(TF_DimensionHandle *dim_handle);

/* The size, -1 when unknown. */
TF_CAPI_EXPORT extern int64_t TF_DimensionHandleValue(TF_DimensionHandle *dim_handle);

/* Sets result to the dimensions of first, then those of second. */
TF_CAPI_EXPORT extern void TF_ShapeInferenceContextConcatenateShapes(TF_ShapeInferenceContext *ctx,
                                                                     TF_ShapeHandle *first,
                                                                     TF_ShapeHandle *second,
                                                                     TF_ShapeHandle *result,
                                                                     TF_Status *status);

/* NULL is fine for both. */
TF_CAPI_EXPORT extern void TF_DeleteShapeHandle(TF_ShapeHandle *handle);
TF_CAPI_EXPORT extern void TF_DeleteDimensionHandle(TF_DimensionHandle *handle);

#ifdef __cplusplus
}
#endif

#endif
