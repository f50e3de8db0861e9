/* capi/shape_and_type_list.c -- TF_ShapeAndTypeList, and the inference of shapes for an eager op that uses it. */
#include "capi/eager.h"
#include "graph/infer_op.h"
#include "tensorflow/c/c_api_experimental.h"

TF_ShapeAndTypeList *TF_NewShapeAndTypeList(int num_shapes)
{
    TF_ShapeAndTypeList *l = mr_new(TF_ShapeAndTypeList);
    l->num_items = MR_MAX(num_shapes, 0);
    l->items = mr_new_array(TF_ShapeAndType, l->num_items + 1);
    return l;
}

static TF_ShapeAndType *find_item(TF_ShapeAndTypeList *l, int i)
{
    return l && i >= 0 && i < l->num_items ? &l->items[i] : NULL;
}

void TF_ShapeAndTypeListSetShape(TF_ShapeAndTypeList *shape_list, int index, const int64_t *dims, int num_dims)
{
    TF_ShapeAndType *s = find_item(shape_list, index);
    if (!s || num_dims < 0 || (num_dims && !dims))
        return;
    mr_free(s->dims);
    s->num_dims = num_dims;
    s->dims = mr_new_array(int64_t, num_dims + 1);
    for (int i = 0; i < num_dims; i++)
        s->dims[i] = dims[i];
}

void TF_ShapeAndTypeListSetUnknownShape(TF_ShapeAndTypeList *shape_list, int index)
{
    TF_ShapeAndType *s = find_item(shape_list, index);
    if (!s)
        return;
    mr_free(s->dims);
    s->num_dims = -1;
    s->dims = NULL;
}

void TF_ShapeAndTypeListSetDtype(TF_ShapeAndTypeList *shape_list, int index, TF_DataType dtype)
{
    TF_ShapeAndType *s = find_item(shape_list, index);
    if (s)
        s->dtype = dtype;
}

void TF_DeleteShapeAndTypeList(TF_ShapeAndTypeList *shape_list)
{
    if (!shape_list)
        return;
    for (int i = 0; i < shape_list->num_items; i++)
        mr_free(shape_list->items[i].dims);
    mr_free(shape_list->items);
    mr_free(shape_list);
}

/* Frees the array too, as in TensorFlow. */
void TF_DeleteShapeAndTypeListArray(TF_ShapeAndTypeList **shape_list_array, int num_items)
{
    for (int i = 0; shape_list_array && i < num_items; i++)
        TF_DeleteShapeAndTypeList(shape_list_array[i]);
    mr_free(shape_list_array);
}

/* ---- inference ---- */

static mr_status *take_shape(mr_graph *g, const TF_ShapeAndType *s, const mr_pshape **out)
{
    *out = &mr_pshape_unknown;
    if (s->num_dims < 0)
        return NULL;
    if (s->num_dims > MR_MAX_RANK || (s->num_dims && !s->dims))
        return mr_invalid("A shape has %d dimensions; at most %d are possible, and dims must be set", s->num_dims, MR_MAX_RANK);
    for (int i = 0; i < s->num_dims; i++)
        if (s->dims[i] < -1)
            return mr_invalid("Invalid dimension %lld", (long long)s->dims[i]);
    *out = mr_pshape_of(&g->arena, s->num_dims, s->dims);
    return NULL;
}

static TF_ShapeAndTypeList *list_of(const mr_node *n)
{
    TF_ShapeAndTypeList *l = TF_NewShapeAndTypeList(n->n_out);
    for (int i = 0; i < n->n_out; i++) {
        const mr_pshape *s = n->out_shapes[i];
        if (s->rank < 0)
            TF_ShapeAndTypeListSetUnknownShape(l, i);
        else
            TF_ShapeAndTypeListSetShape(l, i, s->dims, s->rank);
        TF_ShapeAndTypeListSetDtype(l, i, (TF_DataType)n->out_types[i]);
    }
    return l;
}

/* Uses a temporary graph, so that nothing is left behind. */
static mr_status *infer_shapes(mr_node_builder *b, const TF_ShapeAndTypeList *in, TF_Tensor *const *tensors,
                               TF_ShapeAndTypeList **out)
{
    mr_status *st = NULL;
    mr_node *n = NULL;
    mr_graph *g = mr_graph_new();
    const mr_pshape **shapes = mr_new_array(const mr_pshape *, in->num_items + 1);
    mr_tensor **values = mr_new_array(mr_tensor *, in->num_items + 1);
    for (int i = 0; i < in->num_items; i++) {
        MR_GO(take_shape(g, &in->items[i], &shapes[i]));
        if (tensors && tensors[i])
            MR_GO(mr_capi_tensor_value(tensors[i], &values[i]));
    }
    MR_GO(mr_nb_infer(b, g, in->num_items, shapes, values, &n));
    if (out)
        *out = list_of(n);
out:
    for (int i = 0; i < in->num_items; i++)
        mr_tensor_unref(values[i]);
    mr_free(values);
    mr_free(shapes);
    mr_graph_unref(g);
    return st;
}

void TFE_InferShapes(TFE_Op *op, TF_ShapeAndTypeList *input_shapes, TF_Tensor **input_tensors,
                     TF_ShapeAndTypeList *input_tensor_as_shapes, TF_ShapeAndTypeList **input_resource_shapes_and_types,
                     TF_ShapeAndTypeList **output_shapes, TF_ShapeAndTypeList ***output_resource_shapes_and_types,
                     TF_Status *status)
{
    (void)input_tensor_as_shapes, (void)input_resource_shapes_and_types, (void)output_resource_shapes_and_types;
    TF_OperationDescription *d = op ? mr_eager_description(op) : NULL;
    mr_status *st = d && input_shapes ? NULL : mr_invalid("op or input_shapes is NULL");
    if (!st) {
        mr_lock(&d->graph->mu);
        st = infer_shapes(d->b, input_shapes, input_tensors, output_shapes);
        mr_unlock(&d->graph->mu);
    }
    mr_capi_set_status(status, st);
}

/* ---- scalars ---- */

TFE_TensorHandle *TFE_NewTensorHandleFromScalar(TF_DataType data_type, void *data, size_t len, TF_Status *status)
{
    mr_dtype t = (mr_dtype)data_type;
    bool fits = data && mr_dtype_is_plain(t) && mr_dtype_size(t) == len;
    mr_capi_set_status(status, fits ? NULL : mr_invalid("%zu bytes are not a scalar of type %s", len, mr_dtype_name(t)));
    return fits ? mr_eager_handle_new(mr_tensor_of(t, 0, NULL, data), "/job:localhost/replica:0/task:0/device:CPU:0") : NULL;
}
