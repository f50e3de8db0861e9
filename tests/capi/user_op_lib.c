/* tests/capi/user_op_lib.c -- a library of ops as somebody else would write it: loaded with TF_LoadLibrary,
 * it registers an op and its kernel from a constructor. */
#include <stdlib.h>

#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"

static void negate_shape(TF_ShapeInferenceContext *ctx, TF_Status *status)
{
    TF_ShapeHandle *h = TF_NewShapeHandle();
    TF_ShapeInferenceContextGetInput(ctx, 0, h, status);
    if (TF_GetCode(status) == TF_OK)
        TF_ShapeInferenceContextSetOutput(ctx, 0, h, status);
    TF_DeleteShapeHandle(h);
}

static void negate(void *kernel, TF_OpKernelContext *ctx)
{
    (void)kernel;
    TF_Status *s = TF_NewStatus();
    TF_Tensor *x = NULL, *y = NULL;
    int64_t dims[8];
    TF_GetInput(ctx, 0, &x, s);
    for (int i = 0; i < TF_NumDims(x) && i < 8; i++)
        dims[i] = TF_Dim(x, i);
    y = TF_AllocateOutput(ctx, 0, TF_FLOAT, dims, TF_NumDims(x), TF_TensorByteSize(x), s);
    if (TF_GetCode(s) != TF_OK)
        TF_OpKernelContext_Failure(ctx, s);
    for (int64_t i = 0; y && i < TF_TensorElementCount(y); i++)
        ((float *)TF_TensorData(y))[i] = -((const float *)TF_TensorData(x))[i];
    TF_DeleteTensor(x);
    TF_DeleteTensor(y);
    TF_DeleteStatus(s);
}

__attribute__((constructor)) static void register_all(void)
{
    TF_Status *s = TF_NewStatus();
    TF_OpDefinitionBuilder *op = TF_NewOpDefinitionBuilder("LibraryNegate");
    TF_OpDefinitionBuilderAddInput(op, "x: float");
    TF_OpDefinitionBuilderAddOutput(op, "y: float");
    TF_OpDefinitionBuilderSetShapeInferenceFunction(op, negate_shape);
    TF_RegisterOpDefinition(op, s);
    TF_KernelBuilder *k = TF_NewKernelBuilder("LibraryNegate", "CPU", NULL, negate, NULL);
    TF_RegisterKernelBuilder("LibraryNegate", k, s);
    TF_DeleteStatus(s);
}
