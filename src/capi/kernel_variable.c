/* capi/kernel_variable.c -- variables in kernels of clients: TF_AssignVariable and similar
 * functions.
 *
 * A kernel of a client writes to a variable through a handle. Before that, the variable gets a
 * value that no one else holds (readers keep the old one), copied with the client's copyFunc if
 * there is one, so that the copy is made on the device of the kernel. */
#include "capi/kernels.h"

typedef void copy_fn(TF_OpKernelContext *ctx, TF_Tensor *source, TF_Tensor *dest);

/* ---- finding the variable ---- */

static mr_status *make_variable(void *ctx, mr_object **out)
{
    const mr_handle *h = ctx;
    mr_dtype type = h->n_parts > 0 ? h->parts[0].dtype : MR_INVALID; /* set by the first value */
    *out = &mr_variable_new(false, type, h->name)->base;
    return NULL;
}

static mr_status *check_input(const mr_run *r, int i)
{
    if (i < 0 || i >= r->n_in)
        return mr_error(MR_OUT_OF_RANGE, "input index out of range");
    if (r->in[i].kind != MR_LIVE && r->in[i].kind != MR_REF)
        return mr_error(MR_FAILED_PRECONDITION, "Input %d of '%s' has no value, or its value was taken", i,
                        r->node->name);
    return NULL;
}

/* The variable that input i is or refers to; the caller owns the reference. With `make`, it is
 * created if it does not exist. */
static mr_status *find_variable(mr_run *r, int i, bool make, mr_variable **out)
{
    MR_TRY(check_input(r, i));
    if (r->in[i].kind == MR_REF) {
        *out = mr_variable_ref(mr_in_ref(r, i));
        return NULL;
    }
    mr_status *st = mr_run_variable(r, i, out);
    if (!make || mr_status_code(st) != MR_NOT_FOUND)
        return st;
    mr_status_free(st);
    mr_handle *h = *MR_DATA(mr_handle *, mr_in(r, i)); /* there: it was looked up just now */
    return mr_resources_find_or_make(r->step->device->resources, mr_sv_of(h->container),
                                     mr_sv_of(h->name), &mr_variable_type, make_variable, h,
                                     (mr_object **)out);
}

/* In host memory, where variables are on devices of all types. */
static mr_status *find_value(const mr_run *r, int i, mr_tensor **out)
{
    MR_TRY(check_input(r, i));
    if (r->in[i].kind != MR_LIVE)
        return mr_invalid("Input %d of '%s' is not a value", i, r->node->name);
    if (!mr_tensor_on_host(mr_in(r, i))) {
        mr_tensor *copy = NULL;
        MR_TRY(mr_tensor_copy(mr_cpu_allocator(), mr_in(r, i), &copy));
        mr_tensor_unref(mr_in(r, i));
        r->in[i].t = copy;
    }
    *out = mr_in(r, i);
    return NULL;
}

static mr_status *uninitialized_error(const mr_variable *v)
{
    return mr_error(MR_FAILED_PRECONDITION,
                    "Trying to assign to or read variable %s, which is uninitialized.", v->name);
}

/* ---- copies ---- */

static mr_status *copy_tensor(TF_OpKernelContext *ctx, mr_tensor *t, copy_fn *copy, mr_tensor **out)
{
    mr_allocator *a = mr_run_allocator(ctx->run);
    if (!copy)
        return mr_tensor_copy(a, t, out);
    MR_TRY(mr_tensor_new(a, (mr_dtype)t->dtype, t->rank, t->dims, out));
    TF_Tensor *from = mr_capi_share(t), *to = mr_capi_share(*out);
    copy(ctx, from, to);
    TF_DeleteTensor(from);
    TF_DeleteTensor(to);
    return NULL;
}

/* The variable's value, held by it alone. */
static mr_status *own_value_locked(TF_OpKernelContext *ctx, mr_variable *v, copy_fn *copy,
                                   mr_tensor **out) MR_REQUIRES(v->mu)
{
    mr_tensor *fresh;
    if (!v->t)
        return uninitialized_error(v);
    if (!mr_tensor_sole(v->t)) {
        MR_TRY(copy_tensor(ctx, v->t, copy, &fresh));
        mr_tensor_unref(v->t);
        v->t = fresh;
    }
    *out = v->t;
    return NULL;
}

/* ---- assigning ---- */

/* Assigns a value. The first value of a variable without a type sets its type. */
static mr_status *store_locked(TF_OpKernelContext *ctx, mr_variable *v, mr_tensor *value,
                               copy_fn *copy) MR_REQUIRES(v->mu)
{
    mr_tensor *t = NULL;
    if (v->dtype == MR_INVALID)
        v->dtype = (mr_dtype)value->dtype;
    if (v->dtype != value->dtype)
        return mr_invalid("Trying to assign variable with wrong dtype. Expected %s got %s",
                          mr_dtype_name(v->dtype), mr_dtype_name(value->dtype));
    /* Sparse updates write in place, so the value must not be shared. */
    if (v->copy_on_read)
        MR_TRY(copy_tensor(ctx, value, copy, &t));
    else
        t = mr_tensor_ref(value);
    mr_tensor_unref(v->t);
    v->t = t;
    return NULL;
}

void TF_AssignVariable(TF_OpKernelContext *ctx, int input_index, int value_index,
                       void (*copyFunc)(TF_OpKernelContext *ctx, TF_Tensor *source,
                                        TF_Tensor *dest),
                       TF_Status *status)
{
    mr_variable *v = NULL;
    mr_tensor *value;
    mr_status *st = find_value(ctx->run, value_index, &value);
    if (!st)
        st = find_variable(ctx->run, input_index, true, &v);
    if (!st) {
        mr_lock(&v->mu);
        st = store_locked(ctx, v, value, copyFunc);
        mr_unlock(&v->mu);
    }
    mr_variable_unref(v);
    mr_capi_set_status(status, st);
}

typedef void update_fn(TF_OpKernelContext *ctx, TF_Tensor *tensor, TF_Tensor *value, int Op);

/* Calls the update function of the client on a value that only the variable holds. v->mu is held during the call. */
static mr_status *update_locked(TF_OpKernelContext *ctx, mr_variable *v, mr_tensor *value, int op,
                                copy_fn *copy, update_fn *update) MR_REQUIRES(v->mu)
{
    mr_tensor *t;
    if (!v->t)
        return uninitialized_error(v);
    if (v->dtype != value->dtype || !mr_tensor_same_shape(v->t, value))
        return mr_invalid("Cannot update variable with shape %s using a Tensor with shape %s, "
                          "shapes must be equal.",
                          MR_TENSOR_SHAPE(v->t), MR_TENSOR_SHAPE(value));
    MR_TRY(own_value_locked(ctx, v, copy, &t));
    TF_Tensor *to = mr_capi_share(t), *from = mr_capi_share(value);
    update(ctx, to, from, op);
    TF_DeleteTensor(to);
    TF_DeleteTensor(from);
    return NULL;
}

void TF_AssignUpdateVariable(
    TF_OpKernelContext *ctx, int input_index, int value_index, int Op, int isVariantType,
    void (*copyFunc)(TF_OpKernelContext *ctx, TF_Tensor *source, TF_Tensor *dest),
    void (*updateFunc)(TF_OpKernelContext *ctx, TF_Tensor *tensor, TF_Tensor *value, int Op),
    TF_Status *status)
{
    (void)isVariantType; /* variants are copied like other values */
    mr_variable *v = NULL;
    mr_tensor *value;
    mr_status *st = updateFunc ? find_value(ctx->run, value_index, &value)
                               : mr_invalid("updateFunc is NULL");
    if (!st)
        st = find_variable(ctx->run, input_index, false, &v);
    if (!st) {
        mr_lock(&v->mu);
        st = update_locked(ctx, v, value, Op, copyFunc, updateFunc);
        mr_unlock(&v->mu);
    }
    mr_variable_unref(v);
    mr_capi_set_status(status, st);
}

/* ---- locking several ---- */

struct TF_VariableInputLockHolder {
    mr_variable **v; /* owned references */
    int n;
    bool locked;
};

void TF_ReleaseVariableInputLockHolder(TF_VariableInputLockHolder *lockHolder) MR_NO_TSA
{
    if (!lockHolder)
        return;
    if (lockHolder->locked)
        mr_variables_unlock(lockHolder->v, lockHolder->n);
    for (int i = 0; i < lockHolder->n; i++)
        mr_variable_unref(lockHolder->v[i]);
    mr_free(lockHolder->v);
    mr_free(lockHolder);
}

static mr_status *hold_variables(mr_run *r, const int *inputs, size_t n, TF_VariableInputLockHolder *h)
{
    if (n > (size_t)r->n_in || (n && !inputs))
        return mr_invalid("There are %zu inputs to lock, but the operation has %d inputs", n, r->n_in);
    h->v = mr_new_array(mr_variable *, n);
    for (; (size_t)h->n < n; h->n++)
        MR_TRY(find_variable(r, inputs[h->n], false, &h->v[h->n]));
    return NULL;
}

/* From now on readers get copies, because sparse updates write in place. */
static mr_status *prepare_sparse(TF_OpKernelContext *ctx, TF_VariableInputLockHolder *h,
                                 copy_fn *copy)
{
    mr_status *st = NULL;
    for (int i = 0; i < h->n && !st; i++) {
        mr_tensor *t;
        mr_variable *v = h->v[i];
        mr_lock(&v->mu);
        if (v->t && !v->is_ref)
            st = own_value_locked(ctx, v, copy, &t);
        v->copy_on_read = v->copy_on_read || !v->is_ref;
        mr_unlock(&v->mu);
    }
    return st;
}

/* The holder owns references to the variables, so they live until it is released, even without do_lock. */
void TF_MaybeLockVariableInputMutexesInOrder(
    TF_OpKernelContext *ctx, bool do_lock, bool sparse, const int *const inputs, size_t len,
    void (*copyFunc)(TF_OpKernelContext *ctx, TF_Tensor *source, TF_Tensor *dest),
    TF_VariableInputLockHolder **lockHolder, TF_Status *status) MR_NO_TSA
{
    TF_VariableInputLockHolder *h = mr_new(TF_VariableInputLockHolder);
    mr_status *st = hold_variables(ctx->run, inputs, len, h);
    if (!st && sparse)
        st = prepare_sparse(ctx, h, copyFunc);
    if (!st && do_lock) {
        mr_variables_lock(h->v, h->n);
        h->locked = true;
    }
    if (st) {
        TF_ReleaseVariableInputLockHolder(h);
        h = NULL;
    }
    *lockHolder = h;
    mr_capi_set_status(status, st);
}

/* ---- reading and writing one ---- */

static mr_status *share_value_locked(TF_OpKernelContext *ctx, mr_variable *v, bool sparse,
                                     copy_fn *copy, TF_Tensor **out) MR_REQUIRES(v->mu)
{
    mr_tensor *t;
    MR_TRY(own_value_locked(ctx, v, copy, &t));
    v->copy_on_read = v->copy_on_read || (sparse && !v->is_ref);
    *out = mr_capi_share(t);
    return NULL;
}

void TF_GetInputTensorFromVariable(TF_OpKernelContext *ctx, int input, bool lock_held,
                                   bool isVariantType, bool sparse,
                                   void (*copyFunc)(TF_OpKernelContext *ctx, TF_Tensor *source,
                                                    TF_Tensor *dest),
                                   TF_Tensor **out, TF_Status *status) MR_NO_TSA
{
    (void)isVariantType;
    mr_variable *v = NULL;
    TF_Tensor *t = NULL;
    mr_status *st = find_variable(ctx->run, input, false, &v);
    if (!st && !lock_held)
        mr_lock(&v->mu);
    if (!st)
        st = share_value_locked(ctx, v, sparse, copyFunc, &t);
    if (v && !lock_held)
        mr_unlock(&v->mu);
    mr_variable_unref(v);
    *out = t;
    mr_capi_set_status(status, st);
}

void TF_OpKernelContext_ForwardRefInputToRefOutput(TF_OpKernelContext *ctx, int32_t input_index,
                                                   int32_t output_index)
{
    mr_run *r = ctx->run;
    if (input_index < 0 || input_index >= r->n_in || output_index < 0 || output_index >= r->n_out)
        return;
    if (r->in[input_index].kind == MR_REF)
        mr_run_set_ref(r, output_index, mr_variable_ref(mr_in_ref(r, input_index)));
}
