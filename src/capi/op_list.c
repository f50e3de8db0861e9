/* capi/op_list.c -- what there is: all ops, all kernels, as serialized lists. */
#include "capi/kernels.h"
#include "wire/pb.h"

/* ---- ops ---- */

void mr_capi_put_op(mr_pb_writer *w, const mr_op_def *d)
{
    mr_str bytes = {0};
    mr_op_def_encode(d, &bytes);
    mr_pb_put_bytes(w, 1, mr_str_view(&bytes));
    mr_str_deinit(&bytes);
}

TF_Buffer *TF_GetAllOpList(void)
{
    mr_str bytes = {0};
    mr_pb_writer w;
    int n;
    mr_capi_init();
    mr_pb_writer_init(&w, &bytes);
    const mr_op_def **all = mr_op_all(&n);
    for (int i = 0; i < n; i++)
        mr_capi_put_op(&w, all[i]);
    mr_free(all);
    return mr_capi_buffer_new(&bytes);
}

/* ---- kernels: fields of KernelDef ---- */

enum { OP = 1, DEVICE_TYPE = 2, CONSTRAINT = 3, HOST_MEMORY_ARG = 4, LABEL = 5, PRIORITY = 6 };

typedef struct lister {
    mr_pb_writer w;
    const mr_op_def *def;
    mr_str bytes;
} lister;

/* { name, allowed_values: a list of types } */
static void put_constraint(lister *l, const char *attr, const int *types, int n)
{
    mr_str value = {0};
    mr_attr v = mr_a_types(n, types);
    mr_status *st = mr_attr_encode(&v, &value);
    mr_status_free(st); /* a list of types can always be encoded */
    size_t mark = mr_pb_begin(&l->w, CONSTRAINT);
    mr_pb_put_bytes(&l->w, 1, mr_sv_of(attr));
    mr_pb_put_bytes(&l->w, 2, mr_str_view(&value));
    mr_pb_end(&l->w, mark);
    mr_str_deinit(&value);
}

static void put_constraints(lister *l, const mr_kernel *k)
{
    if (k->type && l->def->key)
        put_constraint(l, l->def->key->name, &k->type, 1);
    for (const mr_named_attr *c = k->constraints; c && c->name; c++) {
        if (c->v.kind == MR_ATTR_TYPE && c->v.is_list)
            put_constraint(l, c->name, c->v.types, c->v.n);
        else if (c->v.kind == MR_ATTR_TYPE)
            put_constraint(l, c->name, &c->v.type, 1);
    }
}

static void put_kernel(void *ctx, const mr_kernel *k)
{
    lister *l = ctx;
    const TF_KernelBuilder *b = mr_capi_kernel_builder(k);
    size_t mark = mr_pb_begin(&l->w, 1);
    mr_pb_put_bytes(&l->w, OP, mr_sv_of(l->def->name));
    mr_pb_put_bytes(&l->w, DEVICE_TYPE, mr_sv_of(k->device));
    put_constraints(l, k);
    for (int i = 0; b && i < b->host_args.n; i++)
        mr_pb_put_bytes(&l->w, HOST_MEMORY_ARG, mr_sv_of(b->host_args.p[i]));
    mr_pb_opt_bytes(&l->w, LABEL, mr_sv_of(k->label));
    mr_pb_opt_varint(&l->w, PRIORITY, (uint64_t)(int64_t)k->priority);
    mr_pb_end(&l->w, mark);
}

static TF_Buffer *finish_list(lister *l, TF_Status *status)
{
    mr_status *st = mr_pb_writer_status(&l->w, "KernelList");
    mr_capi_set_status(status, st);
    if (!st)
        return mr_capi_buffer_new(&l->bytes);
    mr_str_deinit(&l->bytes);
    return NULL;
}

TF_Buffer *TF_GetAllRegisteredKernels(TF_Status *status)
{
    lister l = {0};
    int n;
    mr_capi_init();
    mr_pb_writer_init(&l.w, &l.bytes);
    const mr_op_def **all = mr_op_all(&n);
    for (int i = 0; i < n; i++) {
        l.def = all[i];
        mr_kernel_each(all[i], put_kernel, &l);
    }
    mr_free(all);
    return finish_list(&l, status);
}

TF_Buffer *TF_GetRegisteredKernelsForOp(const char *name, TF_Status *status)
{
    lister l = {0};
    mr_capi_init();
    mr_pb_writer_init(&l.w, &l.bytes);
    l.def = name ? mr_op_find(mr_sv_of(name)) : NULL;
    if (l.def)
        mr_kernel_each(l.def, put_kernel, &l);
    return finish_list(&l, status);
}
