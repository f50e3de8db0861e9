/* example_device.c -- a type of devices that Millrace does not know: EXAMPLE, in a library of its own.
 *
 *     TF_LoadLibrary("libexample_device.so", status), or MILLRACE_DEVICES=path/to/libexample_device.so
 *
 * The device has memory of its own, one arena a device.  Addresses in it are no addresses of this process: whoever looks
 * behind one that alloc gave is stopped at once, so what runs with this device runs with any other that has its own memory.
 * It has kernels for MatMul, BiasAdd, Relu and ReluGrad of floats; all the rest it borrows from the CPU. */
#include <millrace/device.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <tensorflow/c/kernels.h>

/* ---- memory: one block, first fit ---- */

#define ARENA_BYTES ((size_t)512 << 20)
#define FIRST ((uintptr_t)1 << 62) /* what the arena's first byte is called */
#define ALIGNED(n) (((n) + 63) / 64 * 64)

typedef struct gap { /* free bytes, in the order of their addresses */
    size_t at, bytes;
    struct gap *next;
} gap;

typedef struct device {
    char *arena;
    pthread_mutex_t mu;
    gap *gaps;
} device;

static char *place(const device *d, const void *address) { return d->arena + ((uintptr_t)address - FIRST); }

static void *device_alloc(void *dev, size_t bytes)
{
    device *d = dev;
    size_t at = 0, need = ALIGNED(bytes ? bytes : 1);
    int found = 0;
    if (need < bytes)
        return NULL;
    pthread_mutex_lock(&d->mu);
    for (gap **g = &d->gaps; *g && !found; g = found ? g : &(*g)->next) {
        if ((*g)->bytes < need)
            continue;
        gap *used = *g;
        at = used->at;
        found = 1;
        used->at += need;
        used->bytes -= need;
        if (!used->bytes) {
            *g = used->next;
            free(used);
        }
    }
    pthread_mutex_unlock(&d->mu);
    return found ? (void *)(FIRST + at) : NULL;
}

static void device_free(void *dev, void *address, size_t bytes)
{
    device *d = dev;
    gap *back = malloc(sizeof *back), **g = &d->gaps;
    if (!back)
        return; /* so much is lost until the device closes */
    *back = (gap){(uintptr_t)address - FIRST, ALIGNED(bytes ? bytes : 1), NULL};
    pthread_mutex_lock(&d->mu);
    gap *before = NULL;
    for (; *g && (*g)->at < back->at; g = &(*g)->next)
        before = *g;
    back->next = *g;
    *g = back;
    if (back->next && back->at + back->bytes == back->next->at) {
        gap *after = back->next;
        back->bytes += after->bytes;
        back->next = after->next;
        free(after);
    }
    if (before && before->at + before->bytes == back->at) {
        before->bytes += back->bytes;
        before->next = back->next;
        free(back);
    }
    pthread_mutex_unlock(&d->mu);
}

static void copy_in(void *dev, void *dst, const void *host, size_t bytes, TF_Status *status)
{
    (void)status;
    memcpy(place(dev, dst), host, bytes);
}

static void copy_out(void *dev, void *host, const void *src, size_t bytes, TF_Status *status)
{
    (void)status;
    memcpy(host, place(dev, src), bytes);
}

static void copy_within(void *dev, void *dst, const void *src, size_t bytes, TF_Status *status)
{
    (void)status;
    memmove(place(dev, dst), place(dev, src), bytes);
}

static int64_t memory_bytes(void *dev)
{
    (void)dev;
    return ARENA_BYTES;
}

/* ---- devices ---- */

static void *device_open(void *user, int id, TF_Status *status)
{
    (void)user, (void)id;
    device *d = calloc(1, sizeof *d);
    gap *all = calloc(1, sizeof *all);
    char *arena = malloc(ARENA_BYTES); /* pages come as they are used */
    if (!d || !all || !arena) {
        free(d);
        free(all);
        free(arena);
        TF_SetStatus(status, TF_RESOURCE_EXHAUSTED, "no memory for the arena of an example device");
        return NULL;
    }
    *all = (gap){0, ARENA_BYTES, NULL};
    pthread_mutex_init(&d->mu, NULL);
    d->arena = arena;
    d->gaps = all;
    return d;
}

static void device_close(void *dev)
{
    device *d = dev;
    for (gap *g = d->gaps, *next; g; g = next) {
        next = g->next;
        free(g);
    }
    pthread_mutex_destroy(&d->mu);
    free(d->arena);
    free(d);
}

/* What ran, for whoever wants to know: with a kernel of ours, or a borrowed one. */
static _Atomic long n_own, n_borrowed;
long example_device_runs(int own);
long example_device_runs(int own) { return atomic_load(own ? &n_own : &n_borrowed); }

static void start(void *dev, const char *node, const char *op, unsigned char own, void (*run)(void *arg), void *arg)
{
    (void)dev, (void)node, (void)op;
    atomic_fetch_add(own ? &n_own : &n_borrowed, 1);
    run(arg); /* a device with a queue of its own would put (run, arg) there */
}

/* ---- kernels ---- */

typedef struct call { /* the arguments of one run */
    TF_OpKernelContext *ctx;
    TF_Status *status;
    TF_Tensor *in[2], *out;
    const float *x, *y;
    float *z;
} call;

static const float *input(call *c, int i)
{
    TF_GetInput(c->ctx, i, &c->in[i], c->status);
    return TF_GetCode(c->status) == TF_OK ? (const float *)place(mr_kernel_device(c->ctx), TF_TensorData(c->in[i])) : NULL;
}

static call begin(TF_OpKernelContext *ctx, int two)
{
    call c = {.ctx = ctx, .status = TF_NewStatus()};
    c.x = input(&c, 0);
    c.y = two && c.x ? input(&c, 1) : NULL;
    return c;
}

static int is_good(const call *c) { return TF_GetCode(c->status) == TF_OK; }

static void refuse(call *c, const char *why) { TF_SetStatus(c->status, TF_INVALID_ARGUMENT, why); }

static void output(call *c, const int64_t *dims, int rank)
{
    c->out = TF_AllocateOutput(c->ctx, 0, TF_FLOAT, dims, rank, 0, c->status);
    c->z = is_good(c) ? (float *)place(mr_kernel_device(c->ctx), TF_TensorData(c->out)) : NULL;
}

/* As large as the first input. */
static void output_like(call *c)
{
    int64_t dims[8];
    int rank = TF_NumDims(c->in[0]);
    if (rank > 8) {
        refuse(c, "more than 8 dimensions");
        return;
    }
    for (int i = 0; i < rank; i++)
        dims[i] = TF_Dim(c->in[0], i);
    output(c, dims, rank);
}

static void end(call *c)
{
    if (!is_good(c))
        TF_OpKernelContext_Failure(c->ctx, c->status);
    for (int i = 0; i < 2; i++)
        TF_DeleteTensor(c->in[i]);
    TF_DeleteTensor(c->out);
    TF_DeleteStatus(c->status);
}

static void relu(void *state, TF_OpKernelContext *ctx)
{
    (void)state;
    call c = begin(ctx, 0);
    if (is_good(&c))
        output_like(&c);
    for (int64_t i = 0; c.z && i < TF_TensorElementCount(c.out); i++)
        c.z[i] = c.x[i] < 0 ? 0 : c.x[i]; /* a NaN stays one */
    end(&c);
}

static void relu_grad(void *state, TF_OpKernelContext *ctx)
{
    (void)state;
    call c = begin(ctx, 1);
    if (is_good(&c) && TF_TensorElementCount(c.in[0]) != TF_TensorElementCount(c.in[1]))
        refuse(&c, "gradients and features differ in size");
    if (is_good(&c))
        output_like(&c);
    for (int64_t i = 0; c.z && i < TF_TensorElementCount(c.out); i++)
        c.z[i] = c.y[i] > 0 ? c.x[i] : 0;
    end(&c);
}

static void bias_add(void *state, TF_OpKernelContext *ctx)
{
    (void)state;
    call c = begin(ctx, 1);
    int rank = is_good(&c) ? TF_NumDims(c.in[0]) : 0;
    int64_t n = rank > 1 ? TF_Dim(c.in[0], rank - 1) : 0;
    if (is_good(&c) && (rank < 2 || TF_NumDims(c.in[1]) != 1 || TF_Dim(c.in[1], 0) != n))
        refuse(&c, "one bias for each of the last dimension");
    if (is_good(&c))
        output_like(&c);
    for (int64_t i = 0; c.z && i < TF_TensorElementCount(c.out); i++)
        c.z[i] = c.x[i] + c.y[i % n];
    end(&c);
}

typedef struct product { /* the attrs of a MatMul, read once */
    unsigned char transpose_a, transpose_b;
} product;

static void *matmul_new(TF_OpKernelConstruction *ctx)
{
    TF_Status *s = TF_NewStatus();
    product *p = calloc(1, sizeof *p);
    TF_OpKernelConstruction_GetAttrBool(ctx, "transpose_a", &p->transpose_a, s);
    if (TF_GetCode(s) == TF_OK)
        TF_OpKernelConstruction_GetAttrBool(ctx, "transpose_b", &p->transpose_b, s);
    if (TF_GetCode(s) != TF_OK)
        TF_OpKernelConstruction_Failure(ctx, s);
    TF_DeleteStatus(s);
    return p;
}

static void multiply(const product *p, call *c, int64_t m, int64_t n, int64_t k)
{
    memset(c->z, 0, (size_t)(m * n) * sizeof(float));
    for (int64_t i = 0; i < m; i++)
        for (int64_t l = 0; l < k; l++) {
            float a = p->transpose_a ? c->x[l * m + i] : c->x[i * k + l], *row = c->z + i * n;
            const float *b = p->transpose_b ? c->y + l : c->y + l * n;
            for (int64_t j = 0; j < n; j++)
                row[j] += a * (p->transpose_b ? b[j * k] : b[j]);
        }
}

static void matmul(void *state, TF_OpKernelContext *ctx)
{
    const product *p = state;
    call c = begin(ctx, 1);
    if (is_good(&c) && (TF_NumDims(c.in[0]) != 2 || TF_NumDims(c.in[1]) != 2 ||
                        TF_Dim(c.in[0], !p->transpose_a) != TF_Dim(c.in[1], p->transpose_b)))
        refuse(&c, "two matrices that fit each other");
    if (is_good(&c)) {
        int64_t m = TF_Dim(c.in[0], p->transpose_a), n = TF_Dim(c.in[1], !p->transpose_b);
        output(&c, (int64_t[]){m, n}, 2);
        if (c.z)
            multiply(p, &c, m, n, TF_Dim(c.in[0], !p->transpose_a));
    }
    end(&c);
}

/* ---- registering ---- */

static void add_kernel(const char *op, void *(*make)(TF_OpKernelConstruction *), void (*compute)(void *, TF_OpKernelContext *),
                       void (*destroy)(void *), TF_Status *s)
{
    TF_KernelBuilder *b = TF_NewKernelBuilder(op, "EXAMPLE", make, compute, destroy);
    TF_KernelBuilder_TypeConstraint(b, "T", TF_FLOAT, s);
    TF_RegisterKernelBuilder(op, b, s);
}

__attribute__((constructor)) static void register_all(void)
{
    TF_Status *s = TF_NewStatus();
    mr_device_plugin p = {.struct_size = sizeof p,
                          .version = MR_DEVICE_PLUGIN_VERSION,
                          .type = "EXAMPLE",
                          .borrow = 1,
                          .open = device_open,
                          .close = device_close,
                          .alloc = device_alloc,
                          .free = device_free,
                          .copy_in = copy_in,
                          .copy_out = copy_out,
                          .copy_within = copy_within,
                          .memory_bytes = memory_bytes,
                          .start = start};
    mr_register_device(&p, s);
    add_kernel("MatMul", matmul_new, matmul, free, s);
    add_kernel("BiasAdd", NULL, bias_add, NULL, s);
    add_kernel("Relu", NULL, relu, NULL, s);
    add_kernel("ReluGrad", NULL, relu_grad, NULL, s);
    TF_DeleteStatus(s);
}
