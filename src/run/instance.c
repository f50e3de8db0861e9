/* run/instance.c -- a kernel with its state, made for one node.
 *
 * The state is zeroed before init runs, and deinit must accept a state that init left half done: whatever is
 * not set is zero. */
#include "base/memory.h"
#include "run/run.h"

/* Attrs that begin with '_' are notes to the runtime and are left out. */
static void print_attrs(mr_str *out, const mr_node *n)
{
    mr_str_appendc(out, '[');
    for (int i = 0, shown = 0; i < n->n_attrs; i++) {
        if (n->attrs[i].name[0] == '_')
            continue;
        mr_str_printf(out, "%s%s=", shown++ ? ", " : "", n->attrs[i].name);
        mr_attr_print(out, &n->attrs[i].v);
    }
    mr_str_appendc(out, ']');
}

/* Called for each kernel of the op. */
static void print_kernel(void *ctx, const mr_kernel *k)
{
    mr_str_printf(ctx, "\n  device='%s'", k->device);
    if (k->type)
        mr_str_printf(ctx, "; %s", mr_dtype_enum_name(k->type));
}

/* TensorFlow's text; lists every kernel of the op. */
static mr_status *no_kernel(const mr_make *m)
{
    mr_str attrs = {0}, kernels = {0};
    print_attrs(&attrs, m->node);
    mr_kernel_each(m->node->def, print_kernel, &kernels);
    mr_status *st = mr_error(
        MR_NOT_FOUND,
        "No OpKernel was registered to support Op '%s' used by {{node %s}} with these attrs: %s\n"
        "Registered devices: [%s]\nRegistered kernels:%s\n",
        m->node->def->name, m->node->name, mr_str_z(&attrs), m->device->type->name,
        kernels.n ? mr_str_z(&kernels) : "\n  <no registered kernels>");
    mr_str_deinit(&attrs);
    mr_str_deinit(&kernels);
    return st;
}

/* ---- a node whose op is a function of the library: a call of it ---- */

static void call_function(mr_run *r)
{
    mr_run_call(r, &(mr_func_ref){r->node->def->name, r->node->n_attrs, r->node->attrs});
}

static const mr_kernel function_kernel = {.device = "", .run_async = call_function};
static const mr_op function_op = {.name = "a function"};

/* ---- making ---- */

/* A node whose op is a function of the library gets the kernel that calls it. NULL if no kernel fits. */
static const mr_kernel *choose_kernel(const mr_make *m)
{
    if (m->kernel)
        return m->kernel;
    if (!m->node->def->op)
        return m->node->def->function ? &function_kernel : NULL;
    return mr_device_kernel(m->device, m->node);
}

/* The functions that make and free the state: those of the kernel if it has an init, else those of its op. */
typedef struct state_ops {
    size_t bytes;
    mr_status *(*init)(mr_make *m, void *state);
    void (*deinit)(void *state);
} state_ops;

/* The same answer when the state is made and when it is freed: it depends only on the kernel and its op. */
static state_ops state_ops_of(const mr_instance *k)
{
    const mr_kernel *own = k->kernel->init ? k->kernel : NULL;
    return own ? (state_ops){own->state_bytes, own->init, own->deinit}
               : (state_ops){k->op->state_bytes, k->op->init, k->op->deinit};
}

/* Errors name the node. On failure nothing is kept. */
mr_status *mr_instance_new(const mr_make *m, mr_instance **out)
{
    mr_make made = *m;
    *out = NULL;
    made.kernel = choose_kernel(m);
    if (!made.kernel)
        return no_kernel(m);
    mr_instance *k = mr_new(mr_instance);
    mr_refs_init(&k->refs);
    k->kernel = made.kernel;
    MR_ASSERT(k->kernel->run || k->kernel->run_async);
    k->op = m->node->def->op ? m->node->def->op : &function_op;
    state_ops s = state_ops_of(k);
    k->state = s.bytes ? mr_calloc(1, s.bytes) : NULL;
    mr_status *st = s.init ? s.init(&made, k->state) : NULL;
    if (st) {
        mr_status_append(st, "\n\t [[{{node %s}}]]", m->node->name);
        mr_instance_unref(k);
        return st;
    }
    *out = k;
    return NULL;
}

/* The kernels of a plan and the session's cache may share one instance; the last reference frees the state. */
void mr_instance_unref(mr_instance *k)
{
    if (!k || !mr_refs_drop(&k->refs))
        return;
    state_ops s = state_ops_of(k);
    MR_ASSERT(k->state || !s.bytes);
    if (s.deinit)
        s.deinit(k->state);
    mr_free(k->state);
    mr_free(k);
}
