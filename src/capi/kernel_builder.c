/* capi/kernel_builder.c -- registers, creates and runs kernels that clients write in C.
 *
 * A registered builder becomes a kernel of ours whose functions are those below; they find the
 * client's in mr_kernel.user. The object that the client's create returned is the state of the
 * kernel, made once per node and shared by all its runs. */
#include "capi/kernels.h"
#include "wire/pb.h"

typedef struct state {
    const TF_KernelBuilder *k;
    void *object; /* what create returned */
    bool made;
} state;

/* ---- making and running ---- */

static mr_status *init_state(mr_make *m, void *p)
{
    state *s = p;
    s->k = m->kernel->user;
    TF_OpKernelConstruction ctx = {.make = m};
    if (s->k->create)
        s->object = s->k->create(&ctx);
    s->made = true;
    return ctx.st;
}

static void deinit_state(void *p)
{
    state *s = p;
    if (s->made && s->k->destroy)
        s->k->destroy(s->object);
}

static mr_status *run_kernel(mr_run *r)
{
    const state *s = r->state;
    TF_OpKernelContext ctx = {.run = r};
    s->k->compute(s->object, &ctx);
    return ctx.st;
}

/* The context must live until done is called, so it is allocated from a cache of small blocks. */
static void run_async(mr_run *r)
{
    const state *s = r->state;
    TF_OpKernelContext *ctx = mr_small_alloc(sizeof *ctx);
    *ctx = (TF_OpKernelContext){.run = r, .done = {ctx}};
    s->k->compute_async(s->object, ctx, &ctx->done);
}

void TF_RunAsyncOpKernelDoneCallback(TF_AsyncOpKernelDoneCallback *done)
{
    if (!done)
        return;
    TF_OpKernelContext *ctx = done->ctx;
    mr_run *r = ctx->run;
    mr_status *st = ctx->st;
    mr_small_free(ctx, sizeof *ctx);
    mr_run_done(r, st);
}

const TF_KernelBuilder *mr_capi_kernel_builder(const mr_kernel *k)
{
    return k->run == run_kernel || k->run_async == run_async ? k->user : NULL;
}

/* ---- builders ---- */

static TF_KernelBuilder *new_builder(const char *op, const char *device,
                                     void *(*create)(TF_OpKernelConstruction *),
                                     void (*destroy)(void *))
{
    TF_KernelBuilder *b = mr_new(TF_KernelBuilder);
    b->op = mr_strdup(op ? op : "");
    b->device = mr_strdup(device ? device : "");
    b->create = create;
    b->destroy = destroy;
    return b;
}

TF_KernelBuilder *TF_NewKernelBuilder(const char *op_name, const char *device_name,
                                      void *(*create_func)(TF_OpKernelConstruction *),
                                      void (*compute_func)(void *, TF_OpKernelContext *),
                                      void (*delete_func)(void *))
{
    TF_KernelBuilder *b = new_builder(op_name, device_name, create_func, delete_func);
    b->compute = compute_func;
    return b;
}

TF_KernelBuilder *TF_NewAsyncKernelBuilder(
    const char *op_name, const char *device_name, void *(*create_func)(TF_OpKernelConstruction *),
    void (*compute_async_func)(void *, TF_OpKernelContext *, TF_AsyncOpKernelDoneCallback *done),
    void (*delete_func)(void *))
{
    TF_KernelBuilder *b = new_builder(op_name, device_name, create_func, delete_func);
    b->compute_async = compute_async_func;
    return b;
}

void TF_DeleteKernelBuilder(TF_KernelBuilder *builder)
{
    if (!builder)
        return;
    for (int i = 0; i < builder->constraints.n; i++) {
        mr_free((char *)(uintptr_t)builder->constraints.p[i].name);
        mr_free((int *)(uintptr_t)builder->constraints.p[i].v.types);
    }
    for (int i = 0; i < builder->host_args.n; i++)
        mr_free(builder->host_args.p[i]);
    mr_vec_deinit(&builder->constraints);
    mr_vec_deinit(&builder->host_args);
    mr_free(builder->op);
    mr_free(builder->device);
    mr_free(builder->label);
    mr_free(builder);
}

/* The constraint on an attr, made when it is the first. */
static mr_attr *constraint_on(TF_KernelBuilder *b, const char *attr)
{
    for (int i = 0; i < b->constraints.n; i++)
        if (strcmp(b->constraints.p[i].name, attr) == 0)
            return &b->constraints.p[i].v;
    mr_vec_push(&b->constraints, (mr_named_attr){mr_strdup(attr), {MR_ATTR_TYPE, .is_list = true}});
    return &mr_vec_last(&b->constraints).v;
}

void TF_KernelBuilder_TypeConstraint(TF_KernelBuilder *kernel_builder, const char *attr_name,
                                     const TF_DataType type, TF_Status *status)
{
    mr_status *st = NULL;
    if (!kernel_builder || !attr_name)
        st = mr_invalid("kernel_builder or attr_name is NULL");
    else if (!mr_dtype_valid((int)type))
        st = mr_error(MR_UNIMPLEMENTED, "Unexpected type %d", (int)type);
    if (!st) {
        mr_attr *v = constraint_on(kernel_builder, attr_name);
        int *types = mr_realloc((int *)(uintptr_t)v->types, ((size_t)v->n + 1) * sizeof(int));
        types[v->n++] = (int)type;
        v->types = types;
    }
    mr_capi_set_status(status, st);
}

void TF_KernelBuilder_HostMemory(TF_KernelBuilder *kernel_builder, const char *arg_name)
{
    if (kernel_builder && arg_name)
        mr_vec_push(&kernel_builder->host_args, mr_strdup(arg_name));
}

void TF_KernelBuilder_Priority(TF_KernelBuilder *kernel_builder, int32_t priority_number)
{
    if (kernel_builder)
        kernel_builder->priority = priority_number;
}

void TF_KernelBuilder_Label(TF_KernelBuilder *kernel_builder, const char *label)
{
    if (!kernel_builder)
        return;
    mr_free(kernel_builder->label);
    kernel_builder->label = label && label[0] ? mr_strdup(label) : NULL;
}

/* Arguments in host memory, as bits.  Of an op that is not registered yet nothing is known. */
static mr_status *find_host_args(const TF_KernelBuilder *b, mr_kernel *k)
{
    const mr_op_def *d = mr_op_find(mr_sv_of(b->op));
    for (int i = 0; d && i < b->host_args.n; i++) {
        int in = mr_op_def_input(d, b->host_args.p[i]), out = mr_op_def_output(d, b->host_args.p[i]);
        if ((in < 0 && out < 0) || in >= 32 || out >= 32)
            return mr_invalid("HostMemory arg '%s' is not an argument of op '%s'", b->host_args.p[i], b->op);
        k->host_in |= in >= 0 ? UINT32_C(1) << in : 0;
        k->host_out |= out >= 0 ? UINT32_C(1) << out : 0;
    }
    return NULL;
}

static mr_status *check_builder(const TF_KernelBuilder *b, const char *kernel_name)
{
    if (!b)
        return mr_invalid("The kernel builder is NULL");
    if (!b->op[0] || !b->device[0] || (!b->compute && !b->compute_async))
        return mr_invalid("Kernel '%s' needs an op name, a device name and a compute function",
                          kernel_name ? kernel_name : "");
    return NULL;
}

void TF_RegisterKernelBuilder(const char *kernel_name, TF_KernelBuilder *builder, TF_Status *status)
{
    mr_status *st = check_builder(builder, kernel_name);
    if (!st) {
        mr_capi_init();
        mr_vec_push(&builder->constraints, (mr_named_attr){NULL}); /* ends the list */
        builder->constraints.n--;
        mr_kernel k = {
            .device = builder->device,
            .run = builder->compute ? run_kernel : NULL,
            .run_async = builder->compute ? NULL : run_async,
            .priority = builder->priority,
            .user = builder,
            .constraints = builder->constraints.p,
            .label = builder->label,
            .state_bytes = sizeof(state),
            .init = init_state,
            .deinit = deinit_state,
            .blocks = true, /* nothing is known of it: two of them may wait for each other */
        };
        st = find_host_args(builder, &k);
        if (!st)
            st = mr_kernel_register(builder->op, &k);
    }
    if (st)
        TF_DeleteKernelBuilder(builder);
    mr_capi_set_status(status, st);
}

/* ---- from a KernelDef ---- */

/* One constraint: 1 the attr, 2 the values it may have, as an AttrValue. */
static mr_status *take_constraint(TF_KernelBuilder *b, mr_sv bytes)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv name = MR_SV(""), value = MR_SV("");
    mr_arena a;
    mr_attr v;
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire)) {
        if (field == 1 && wire == MR_WIRE_BYTES)
            name = mr_pb_bytes(&r);
        else if (field == 2 && wire == MR_WIRE_BYTES)
            value = mr_pb_bytes(&r);
        else
            mr_pb_skip(&r);
    }
    mr_arena_init(&a, 0);
    mr_status *st = mr_attr_decode(&a, value, &v);
    char *attr = mr_strndup(name.p, name.n);
    if (!st && v.kind != MR_ATTR_TYPE)
        st = mr_error(MR_UNIMPLEMENTED, "Constraints on types only are supported, not on attr '%s'", attr);
    TF_Status *told = TF_NewStatus();
    for (int i = 0; !st && i < (v.is_list ? v.n : 1); i++) {
        TF_KernelBuilder_TypeConstraint(b, attr, (TF_DataType)(v.is_list ? v.types[i] : v.type), told);
        st = mr_capi_status_copy(told);
    }
    TF_DeleteStatus(told);
    mr_free(attr);
    mr_arena_deinit(&a);
    return st;
}

static void take_text(char **to, mr_sv s)
{
    mr_free(*to);
    *to = mr_strndup(s.p, s.n);
}

/* KernelDef: 1 op, 2 device_type, 3 constraints, 4 host_memory_arg, 5 label, 6 priority. */
static mr_status *take_kernel_def(TF_KernelBuilder *b, mr_sv bytes)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire)) {
        if (field == 6 && wire == MR_WIRE_VARINT) {
            b->priority = mr_pb_int32(&r);
            continue;
        }
        if (wire != MR_WIRE_BYTES || field > 5) {
            mr_pb_skip(&r);
            continue;
        }
        mr_sv v = mr_pb_bytes(&r);
        if (field == 1)
            take_text(&b->op, v);
        else if (field == 2)
            take_text(&b->device, v);
        else if (field == 3)
            MR_TRY(take_constraint(b, v));
        else if (field == 4)
            mr_vec_push(&b->host_args, mr_strndup(v.p, v.n));
        else if (field == 5)
            take_text(&b->label, v);
    }
    mr_status *st = mr_pb_reader_status(&r, "KernelDef");
    if (!st)
        return NULL;
    mr_status_free(st);
    return mr_invalid("Error parsing serialized KernelDef.");
}

void TF_RegisterKernelBuilderWithKernelDef(const char *serialized_kernel_def, const char *name, TF_KernelBuilder *builder,
                                           TF_Status *status)
{
    mr_status *st = builder && serialized_kernel_def ? take_kernel_def(builder, mr_sv_of(serialized_kernel_def))
                                                     : mr_invalid("The kernel builder is NULL");
    if (!st) {
        TF_RegisterKernelBuilder(name, builder, status);
        return;
    }
    TF_DeleteKernelBuilder(builder);
    mr_capi_set_status(status, st);
}
