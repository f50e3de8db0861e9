/* ops/state/session_tensor.c -- tensors that a session keeps between its steps, under handles that the client gets.
 *
 * Each device of a session has one store among its resources.  A handle is the text NODE;NUMBER;DEVICE, which
 * TensorFlow's clients parse, or a resource of that name. */
#include "base/map.h"
#include "base/memory.h"
#include "graph/infer.h"
#include "run/run.h"

typedef struct store {
    mr_object base;
    mr_mutex mu;
    int64_t next MR_GUARDED_BY(mu);
    mr_map tensors MR_GUARDED_BY(mu); /* handle -> mr_tensor * */
} store;

static void store_free(mr_object *o)
{
    store *s = (store *)o;
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    while (mr_map_next(&s->tensors, &pos, &key, &v))
        mr_tensor_unref(v);
    mr_map_deinit(&s->tensors);
    mr_mutex_deinit(&s->mu);
    mr_free(s);
}

static const mr_object_type store_type = {"millrace::SessionTensors", store_free};
#define STORE_NAME MR_SV("session_tensors")

static mr_status *make_store(void *ctx, mr_object **out)
{
    (void)ctx;
    store *s = mr_new(store);
    mr_object_init(&s->base, &store_type);
    mr_mutex_init(&s->mu);
    *out = &s->base;
    return NULL;
}

static mr_status *open_store(const mr_run *r, store **out)
{
    return mr_resources_find_or_make(r->step->device->resources, MR_SV(""), STORE_NAME, &store_type, make_store, NULL,
                                     (mr_object **)out);
}

/* Stores input 0 and returns its handle in *handle, which the caller frees. */
static mr_status *keep_tensor(mr_run *r, char **handle)
{
    store *s;
    MR_TRY(open_store(r, &s));
    mr_lock(&s->mu);
    char *key = mr_printf("%s;%lld;%s", r->node->name, (long long)s->next++, r->step->device->name);
    mr_map_putz(&s->tensors, key, mr_tensor_ref(mr_in(r, 0)));
    mr_unlock(&s->mu);
    *handle = key;
    mr_object_unref(&s->base);
    return NULL;
}

static mr_status *get_handle(mr_run *r)
{
    char *handle;
    mr_tensor *y;
    MR_TRY(mr_run_output(r, 0, 0, NULL, &y));
    MR_TRY(keep_tensor(r, &handle));
    mr_status *st = mr_tensor_set_str(y, 0, mr_sv_of(handle));
    mr_free(handle);
    return st;
}

static mr_status *get_handle_v2(mr_run *r)
{
    char *name;
    mr_tensor *y;
    const mr_device *d = r->step->device;
    MR_TRY(keep_tensor(r, &name));
    mr_handle *h = mr_handle_new(d->name, mr_resources_default(d->resources), name, "TensorHandle", 0, NULL);
    mr_free(name);
    MR_TRY(mr_handle_tensor(h, &y));
    mr_run_set(r, 0, y);
    return NULL;
}

static mr_status *not_there(mr_sv handle)
{
    return mr_invalid("The tensor with handle '%.*s' is not in the session store.", MR_SV_ARG(handle));
}

static mr_status *read_handle(const mr_run *r, mr_sv *out)
{
    if (mr_in(r, 0)->rank != 0)
        return mr_invalid("handle must be a scalar, not of shape %s", MR_TENSOR_SHAPE(mr_in(r, 0)));
    *out = mr_tensor_str_at(mr_in(r, 0), 0);
    return NULL;
}

static mr_status *get_tensor(mr_run *r)
{
    store *s;
    mr_sv handle;
    MR_TRY(read_handle(r, &handle));
    MR_TRY(open_store(r, &s));
    mr_lock(&s->mu);
    mr_tensor *t = mr_tensor_ref(mr_map_get(&s->tensors, handle));
    mr_unlock(&s->mu);
    mr_object_unref(&s->base);
    if (!t)
        return not_there(handle);
    if (t->dtype == mr_out_dtype(r, 0)) {
        mr_run_set(r, 0, t);
        return NULL;
    }
    mr_status *st = mr_invalid("The tensor with handle '%.*s' is of type %s, not %s", MR_SV_ARG(handle), mr_dtype_name(t->dtype),
                               mr_dtype_name(mr_out_dtype(r, 0)));
    mr_tensor_unref(t);
    return st;
}

static mr_status *delete_tensor(mr_run *r)
{
    store *s;
    mr_sv handle;
    MR_TRY(read_handle(r, &handle));
    MR_TRY(open_store(r, &s));
    mr_lock(&s->mu);
    mr_tensor *t = mr_map_remove(&s->tensors, handle);
    mr_unlock(&s->mu);
    mr_object_unref(&s->base);
    mr_status *st = t ? NULL : not_there(handle);
    mr_tensor_unref(t);
    return st;
}

MR_OP(GetSessionHandle,
    .doc      = "keeps a tensor in the session and returns its handle",
    .sig      = "value: T -> handle: string",
    .attrs    = "T: type",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_scalar,
    .kernels  = MR_KERNELS(MR_CPU_ANY(get_handle)),
    .examples = MR_EXAMPLES("[1, 2] -> shape()"));

MR_OP(GetSessionHandleV2,
    .doc      = "keeps a tensor in the session and returns its handle as a resource",
    .sig      = "value: T -> handle: resource",
    .attrs    = "T: type",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_scalar,
    .kernels  = MR_KERNELS(MR_CPU_ANY(get_handle_v2)),
    .examples = MR_EXAMPLES("[1, 2] -> shape()"));

static mr_status *tensor_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    return mr_infer_rank(c, c->in[0], 0, &ignored);
}

MR_OP(GetSessionTensor,
    .doc      = "the tensor that a session keeps under a handle",
    .sig      = "handle: string -> value: dtype",
    .attrs    = "dtype: type",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = tensor_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(get_tensor)),
    .examples = MR_EXAMPLES("h = GetSessionHandle T=$T: [1, 2]; dtype=$T: h -> [1, 2]",
                            "h = GetSessionHandle T=int32: [1, 2]; dtype=float: h -> !INVALID_ARGUMENT of type int32",
                            "dtype=float: \"nothing\" -> !INVALID_ARGUMENT not in the session store",
                            "dtype=float: [\"a\"] -> !INVALID_ARGUMENT"));

MR_OP(DeleteSessionTensor,
    .doc      = "deletes the tensor that a session keeps under a handle",
    .sig      = "handle: string ->",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = tensor_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(delete_tensor)),
    .examples = MR_EXAMPLES("h = GetSessionHandle T=float: [1, 2]; : h ->",
                            "h = GetSessionHandle T=float: [1, 2]; DeleteSessionTensor: h; : h -> !INVALID_ARGUMENT not in the"));
