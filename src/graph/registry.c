/* graph/registry.c -- all ops by name, and the kernels of each.
 *
 * Built-in ops are one sorted table with a parallel array of parsed definitions, which is filled when ops are first
 * looked up, so startup costs nothing and lookup of a known op takes no lock. Ops and kernels registered later are in
 * maps, protected by the lock. Nothing is ever removed, so returned pointers stay valid.
 *
 * A definition that does not parse is treated as unknown and reported in the log: mr_op_check_all, which the tests run,
 * gives the reason.
 *
 * Lock: `registry.mu`, innermost but for the log; no callback runs under it. */
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/map.h"
#include "base/thread.h"
#include "graph/graph.h"

typedef struct kernel_link { /* kernels are only ever added, at the end */
    mr_kernel k;
    struct kernel_link *_Atomic next;
} kernel_link;

typedef struct kernel_list {
    kernel_link *_Atomic first;
    kernel_link *last; /* protected by the lock */
} kernel_list;

static struct registry {
    mr_mutex mu;
    const mr_op *const *builtin; /* sorted by name; set once before use */
    mr_op_def *_Atomic *parsed;  /* per builtin; NULL: not looked up yet */
    int n_builtin;
    mr_arena arena MR_GUARDED_BY(mu);
    mr_map ops MR_GUARDED_BY(mu);     /* name -> mr_op_def *, registered ones */
    mr_map kernels MR_GUARDED_BY(mu); /* op name -> kernel_list * */
} registry = {.mu = {PTHREAD_MUTEX_INITIALIZER}, .arena = {.block_bytes = 16384}};

/* ---- the table ---- */

void mr_registry_set_builtin(const mr_op *const *ops, int n)
{
    mr_lock(&registry.mu);
    registry.builtin = ops;
    registry.parsed = mr_calloc((size_t)n + 1, sizeof(*registry.parsed));
    registry.n_builtin = n;
    mr_unlock(&registry.mu);
    for (int i = 1; i < n; i++)
        MR_ASSERT(strcmp(ops[i - 1]->name, ops[i]->name) < 0);
}

static int compare_name(mr_sv name, const char *z)
{
    size_t n = strlen(z);
    int c = memcmp(name.p, z, MR_MIN(name.n, n));
    return c ? c : (name.n > n) - (name.n < n);
}

static int builtin_index(mr_sv name)
{
    int low = 0, high = registry.n_builtin;
    while (low < high) {
        int mid = low + (high - low) / 2, c = compare_name(name, registry.builtin[mid]->name);
        if (c == 0)
            return mid;
        if (c < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return -1;
}

static mr_status *parse_locked(const mr_op *op, mr_op_def **out) MR_REQUIRES(registry.mu)
{
    mr_op_def *d = mr_arena_new(&registry.arena, mr_op_def);
    MR_TRY(mr_op_def_parse(&registry.arena, op, d));
    *out = d;
    return NULL;
}

/* The definition of a built-in op, parsed by the first thread that needs it. */
static mr_status *builtin_def(int i, const mr_op_def **out)
{
    mr_status *st = NULL;
    mr_op_def *d = atomic_load_explicit(&registry.parsed[i], memory_order_acquire);
    if (!d) {
        mr_lock(&registry.mu);
        d = atomic_load_explicit(&registry.parsed[i], memory_order_relaxed);
        if (!d && !(st = parse_locked(registry.builtin[i], &d)))
            atomic_store_explicit(&registry.parsed[i], d, memory_order_release);
        mr_unlock(&registry.mu);
    }
    *out = d;
    return st;
}

mr_status *mr_op_unknown(mr_sv name)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    return mr_error(MR_NOT_FOUND,
                    "Op type not registered '%.*s' in binary running on %s. Make sure the Op and Kernel are registered in the binary "
                    "running in this process.",
                    MR_SV_ARG(name), host);
}

const mr_op_def *mr_op_find(mr_sv name)
{
    const mr_op_def *d;
    int i = builtin_index(name);
    if (i < 0) {
        mr_lock(&registry.mu);
        d = mr_map_get(&registry.ops, name);
        mr_unlock(&registry.mu);
        return d;
    }
    mr_status *st = builtin_def(i, &d);
    if (st) {
        mr_warn("%s", mr_status_message(st));
        mr_status_free(st);
        return NULL;
    }
    return d;
}

mr_status *mr_op_check_all(void)
{
    const mr_op_def *d;
    for (int i = 0; i < registry.n_builtin; i++)
        MR_TRY(builtin_def(i, &d));
    return NULL;
}

/* ---- registered ops ---- */

/* CamelCase, perhaps in namespaces (A>B); a leading '_' marks ops of the runtime itself. */
static bool op_name_valid(const char *name)
{
    bool start = true; /* of the name, or of a part after '>' */
    if (!name || !name[0])
        return false;
    for (const char *p = name + (name[0] == '_'); *p || start; p++) {
        bool letter = (*p >= 'A' && *p <= 'Z') || (!start && *p >= 'a' && *p <= 'z');
        bool other = !start && ((*p >= '0' && *p <= '9') || *p == '_');
        if (!letter && !other && (start || *p != '>'))
            return false;
        start = *p == '>';
    }
    return true;
}

mr_status *mr_op_register(const mr_op *op)
{
    mr_status *st = NULL;
    mr_op_def *d = NULL;
    if (!op_name_valid(op->name))
        return mr_invalid("Invalid name: %s (Did you use CamelCase?)", op->name ? op->name : "");
    mr_lock(&registry.mu);
    if (builtin_index(mr_sv_of(op->name)) >= 0 || mr_map_getz(&registry.ops, op->name))
        st = mr_error(MR_ALREADY_EXISTS, "Op with name %s", op->name);
    if (!st)
        st = parse_locked(op, &d);
    if (!st)
        mr_map_putz(&registry.ops, op->name, d);
    mr_unlock(&registry.mu);
    return st;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const mr_op_def *const *)a)->name, (*(const mr_op_def *const *)b)->name);
}

const mr_op_def **mr_op_all(int *n)
{
    MR_VEC(const mr_op_def *) all = {0};
    uint32_t pos = 0;
    mr_sv name;
    void *d;
    for (int i = 0; i < registry.n_builtin; i++) {
        const mr_op_def *b = mr_op_find(mr_sv_of(registry.builtin[i]->name));
        if (b)
            mr_vec_push(&all, b);
    }
    mr_lock(&registry.mu);
    while (mr_map_next(&registry.ops, &pos, &name, &d))
        mr_vec_push(&all, d);
    mr_unlock(&registry.mu);
    if (all.n)
        qsort(all.p, (size_t)all.n, sizeof(all.p[0]), by_name);
    *n = all.n;
    return all.p;
}

/* ---- kernels ---- */

mr_status *mr_kernel_register(const char *op_name, const mr_kernel *k)
{
    if (!k->device || (!k->run && !k->run_async))
        return mr_invalid("A kernel of '%s' lacks a device or a function", op_name);
    kernel_link *link = mr_new(kernel_link);
    link->k = *k;
    mr_lock(&registry.mu);
    kernel_list *list = mr_map_getz(&registry.kernels, op_name);
    if (!list) {
        list = mr_new(kernel_list);
        mr_map_putz(&registry.kernels, op_name, list);
    }
    /* Readers walk the list without the lock: the link must be complete before it becomes visible. */
    if (list->last)
        atomic_store_explicit(&list->last->next, link, memory_order_release);
    else
        atomic_store_explicit(&list->first, link, memory_order_release);
    list->last = link;
    mr_unlock(&registry.mu);
    return NULL;
}

void mr_kernel_each(const mr_op_def *d, void (*fn)(void *ctx, const mr_kernel *k), void *ctx)
{
    for (const mr_kernel *k = d->op ? d->op->kernels : NULL; k && k->device; k++)
        fn(ctx, k);
    mr_lock(&registry.mu);
    kernel_list *list = mr_map_getz(&registry.kernels, d->name);
    mr_unlock(&registry.mu);
    kernel_link *link = list ? atomic_load_explicit(&list->first, memory_order_acquire) : NULL;
    for (; link; link = atomic_load_explicit(&link->next, memory_order_acquire))
        fn(ctx, &link->k);
}

typedef struct choice {
    const mr_node *node;
    const char *device;
    int type;    /* of the key attr; 0: none */
    mr_sv label; /* attr _kernel, "" if absent */
    const mr_kernel *best;
} choice;

static bool is_allowed(int type, const mr_attr *v)
{
    for (int i = 0; v->is_list && i < v->n; i++)
        if (v->types[i] == type)
            return true;
    return !v->is_list && v->type == type;
}

/* If the attr is a list, every type in it must be allowed. */
static bool constraint_holds(const mr_attr *have, const mr_attr *v)
{
    if (!have || have->kind != MR_ATTR_TYPE || v->kind != MR_ATTR_TYPE)
        return have && mr_attr_eq(have, v);
    for (int i = 0; have->is_list && i < have->n; i++)
        if (!is_allowed(have->types[i], v))
            return false;
    return have->is_list || is_allowed(have->type, v);
}

/* A kernel of the C API may ask for several type attrs at once. */
static bool constraints_hold(const mr_node *n, const mr_named_attr *c)
{
    for (; c && c->name; c++)
        if (!constraint_holds(mr_node_attr(n, c->name), &c->v))
            return false;
    return true;
}

/* The highest priority wins, then the kernel for exactly this type, then the one registered first. */
static void consider_kernel(void *ctx, const mr_kernel *k)
{
    choice *c = ctx;
    if (strcmp(k->device, c->device) != 0 || (k->type && k->type != c->type) ||
        !mr_sv_is(c->label, k->label ? k->label : "") || !constraints_hold(c->node, k->constraints))
        return;
    const mr_kernel *b = c->best;
    if (!b || k->priority > b->priority || (k->priority == b->priority && k->type && !b->type))
        c->best = k;
}

const mr_kernel *mr_kernel_find(const mr_node *n, const char *device_type)
{
    const mr_op_def *d = n->def;
    const mr_attr *key = d->key ? mr_node_attr(n, d->key->name) : NULL;
    const mr_attr *label = mr_node_attr(n, "_kernel");
    choice c = {.node = n, .device = device_type, .type = key && !key->is_list ? key->type : 0};
    if (label && label->kind == MR_ATTR_STRING && !label->is_list)
        c.label = label->s;
    mr_kernel_each(d, consider_kernel, &c);
    if (!c.best && (d->flags & MR_HOST_ONLY) && strcmp(device_type, "CPU") != 0) {
        c.device = "CPU";
        mr_kernel_each(d, consider_kernel, &c);
    }
    return c.best;
}
