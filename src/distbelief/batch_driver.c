/* distbelief/batch_driver.c -- a driver that sends out parameters and collects gradients.
 *
 * Messages of workers arrive as turns of the work session (coordinator_service.h); the thread that
 * makes steps waits until every partition has been counted once. A partition is given to one worker at
 * a time, and becomes free again when that worker is lost. The fields up to `iteration` are used in
 * turns only, except between two iterations, when no message changes them.
 *
 * Invariants: a partition is GIVEN exactly if one worker has it in this iteration; `counted` is the
 * number of COUNTED partitions; `iteration` is 0 between two steps. */
#include "distbelief/batch_driver.h"

#include <string.h>

#include "base/clock.h"
#include "base/deterministic.h"
#include "base/long_wait.h"
#include "base/thread.h"
#include "distbelief/coordinator_service.h"
#include "wire/pb.h"

typedef struct hired { /* a worker */
    int64_t id;
    int partition; /* the one it computes; -1: idle */
    int64_t iteration; /* of its partition; results of an abandoned iteration do not count */
} hired;

typedef enum part_state { FREE, GIVEN, COUNTED } part_state;

struct mr_batch_driver {
    mr_batch_driver_options o;
    int64_t n;
    float *w, *sum;
    float *kept;    /* deterministic: gradients by partition, to be added in order; else NULL */
    double *losses; /* by partition */
    mr_coordinator_service *service;
    MR_VEC(hired) workers; /* used in turns, like the next two */
    part_state *parts;
    int64_t iteration; /* the present one; 0: none */
    mr_mutex mu;
    mr_cond changed;
    int counted MR_GUARDED_BY(mu);
    int64_t heard_ns MR_GUARDED_BY(mu);
    int64_t iterations, lost MR_GUARDED_BY(mu);
};

/* ---- orders ---- */

/* Sends a partition to a worker. If memory is out, nothing happens, and the next tick tries again. */
static void send_order(mr_batch_driver *d, hired *h, int part)
{
    MR_ASSERT(h->partition < 0 && d->parts[part] == FREE);
    MR_ASSERT(d->iteration > 0);
    mr_str head = {0};
    mr_bytes bytes = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &head);
    mr_pb_put_varint(&w, 1, (uint64_t)d->iteration);
    mr_pb_put_varint(&w, 2, (uint64_t)part);
    mr_pb_put_varint(&w, 3, (uint64_t)d->o.partitions);
    mr_pb_put_bytes(&w, 4, (mr_sv){(const char *)d->w, (size_t)d->n * sizeof(float)});
    mr_status *st = mr_pb_writer_status(&w, "order");
    if (!st) {
        h->partition = part;
        h->iteration = d->iteration;
        d->parts[part] = GIVEN;
        mr_bytes_add_str(&bytes, &head);
        mr_coordinator_service_order(d->service, h->id, &bytes);
    }
    mr_status_free(st);
    mr_str_deinit(&head);
}

/* Gives free partitions to idle workers. */
static void give_out(mr_batch_driver *d)
{
    int next = 0;
    for (int i = 0; i < d->workers.n && d->iteration; i++) {
        while (next < d->o.partitions && d->parts[next] != FREE)
            next++;
        if (next < d->o.partitions && d->workers.p[i].partition < 0)
            send_order(d, &d->workers.p[i], next);
    }
}

/* ---- turns of the work session ---- */

/* Extends the deadline and wakes the driver's thread. */
static void note_message(mr_batch_driver *d)
{
    mr_lock(&d->mu);
    d->heard_ns = mr_now_ns();
    mr_cond_broadcast(&d->changed);
    mr_unlock(&d->mu);
}

/* A worker joins. Its hello is the number of its parameters, which must be the driver's. */
static mr_status *worker_joined(void *arg, int64_t worker, mr_sv hello)
{
    mr_batch_driver *d = arg;
    int64_t n;
    if (hello.n != sizeof n)
        return mr_invalid("The hello of a batch worker has %zu bytes, expected 8", hello.n);
    memcpy(&n, hello.p, sizeof n);
    if (n != d->n)
        return mr_invalid("The driver has %lld parameters, but the model of this worker has %lld", (long long)d->n,
                          (long long)n);
    mr_vec_push(&d->workers, (hired){.id = worker, .partition = -1});
    give_out(d);
    note_message(d);
    return NULL;
}

typedef struct result {
    int64_t iteration, partition;
    double loss;
    mr_sv gradient;
} result;

/* Reads a report. Its gradient must have the size of the model; it is a view into the bytes. */
static mr_status *read_result(mr_sv bytes, int64_t n, result *out)
{
    mr_pb_reader r;
    uint32_t field, wire;
    *out = (result){.gradient = MR_SV("")};
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1: out->iteration = mr_pb_int64(&r); break;
        case 2: out->partition = mr_pb_int64(&r); break;
        case 3: out->loss = mr_pb_double(&r); break;
        case 4: out->gradient = mr_pb_bytes(&r); break;
        default: mr_pb_skip(&r);
        }
    MR_TRY(mr_pb_reader_status(&r, "report"));
    return out->gradient.n == (size_t)n * sizeof(float)
               ? NULL
               : mr_invalid("A gradient has %zu bytes, expected %zu", out->gradient.n, (size_t)n * sizeof(float));
}

/* Counts a partition: adds its gradient to the sum, or keeps it to be added in order. */
static void add_result(mr_batch_driver *d, const result *r)
{
    MR_ASSERT(r->partition >= 0 && r->partition < d->o.partitions && d->parts[r->partition] == GIVEN);
    if (d->kept)
        memcpy(d->kept + r->partition * d->n, r->gradient.p, r->gradient.n);
    for (int64_t i = 0; i < d->n && !d->kept; i++) {
        float g;
        memcpy(&g, r->gradient.p + (size_t)i * sizeof g, sizeof g);
        d->sum[i] += g;
    }
    d->parts[r->partition] = COUNTED;
    d->losses[r->partition] = r->loss;
    mr_lock(&d->mu);
    d->counted++;
    mr_unlock(&d->mu);
}

/* NULL if the worker has left. */
static hired *find_worker(mr_batch_driver *d, int64_t worker)
{
    for (int i = 0; i < d->workers.n; i++)
        if (d->workers.p[i].id == worker)
            return &d->workers.p[i];
    return NULL;
}

/* Handles a result. An invalid one frees its partition, to be computed again. A result of an earlier
 * iteration is ignored. */
static void worker_reported(void *arg, int64_t worker, mr_sv bytes)
{
    mr_batch_driver *d = arg;
    hired *h = find_worker(d, worker);
    result r;
    if (!h || h->partition < 0)
        return;
    int part = h->partition;
    mr_status *st = read_result(bytes, d->n, &r);
    /* The worker is idle again in any case; only a report on its present order counts. */
    h->partition = -1;
    if (h->iteration == d->iteration) {
        if (!st && r.iteration == d->iteration && r.partition == part)
            add_result(d, &r);
        else
            d->parts[part] = FREE;
    }
    mr_status_free(st);
    give_out(d);
    note_message(d);
}

/* A worker is lost: its partition is given to another one. */
static void worker_lost(void *arg, int64_t worker)
{
    mr_batch_driver *d = arg;
    hired *h = find_worker(d, worker);
    if (!h)
        return;
    if (h->partition >= 0 && h->iteration == d->iteration)
        d->parts[h->partition] = FREE;
    mr_vec_remove_swap(&d->workers, h - d->workers.p);
    mr_lock(&d->mu);
    d->lost++;
    mr_unlock(&d->mu);
    give_out(d);
}

static void retry_orders(void *arg) { give_out(arg); }

/* ---- iterations ---- */

/* Begins an iteration: all partitions are free. In a turn. */
static void begin_iteration(void *arg)
{
    mr_batch_driver *d = arg;
    MR_ASSERT(d->iteration == 0);
    mr_lock(&d->mu);
    d->counted = 0;
    d->heard_ns = mr_now_ns();
    d->iteration = ++d->iterations;
    mr_unlock(&d->mu);
    memset(d->sum, 0, (size_t)d->n * sizeof(float));
    for (int i = 0; i < d->o.partitions; i++)
        d->parts[i] = FREE;
    give_out(d);
}

/* In a turn: from now on reports are ignored until the next iteration. */
static void end_iteration(void *arg) { ((mr_batch_driver *)arg)->iteration = 0; }

/* Waits until all partitions are counted. The deadline is extended whenever a worker reports. */
static mr_status *wait_for_all(mr_batch_driver *d)
{
    mr_status *st = NULL;
    mr_long_wait wait;
    mr_long_wait_begin(&wait, mr_now_ns());
    mr_lock(&d->mu);
    while (d->counted < d->o.partitions && !st) {
        mr_long_wait_cond(&wait, &d->changed, &d->mu, d->heard_ns + d->o.deadline_ms * 1000000,
                          "the workers: %d of %d partitions are complete", d->counted, d->o.partitions);
        if (d->counted < d->o.partitions && mr_now_ns() >= d->heard_ns + d->o.deadline_ms * 1000000)
            st = mr_error(MR_DEADLINE_EXCEEDED, "No worker has reported for %lld ms; %d of %d partitions are complete",
                          (long long)d->o.deadline_ms, d->counted, d->o.partitions);
    }
    mr_unlock(&d->mu);
    return st;
}

/* One iteration and its step. With determinism the gradients are added in the order of partitions. */
mr_status *mr_batch_driver_step(mr_batch_driver *d, double *loss)
{
    mr_coordinator_service_turn(d->service, begin_iteration, d);
    mr_status *st = wait_for_all(d);
    mr_coordinator_service_turn(d->service, end_iteration, d);
    if (st)
        return st;
    /* No turn uses the vectors now: iteration is 0. */
    float by = d->o.rate / (float)d->o.partitions;
    *loss = 0;
    for (int k = 0; k < d->o.partitions; k++) {
        *loss += d->losses[k] / d->o.partitions;
        for (int64_t i = 0; i < d->n && d->kept; i++)
            d->sum[i] += d->kept[k * d->n + i];
    }
    for (int64_t i = 0; i < d->n; i++)
        d->w[i] -= by * d->sum[i];
    return NULL;
}

/* ---- beginning and end ---- */

/* Allocates the vectors. In deterministic mode the gradients of all partitions are kept, to be added in order. */
static mr_status *allocate_vectors(mr_batch_driver *d, size_t bytes, size_t kept_bytes)
{
    d->w = mr_try_alloc(bytes);
    d->sum = mr_try_alloc(bytes);
    bool keep = mr_deterministic();
    d->kept = keep ? mr_try_alloc(kept_bytes) : NULL;
    if (d->w && d->sum && (d->kept || !keep))
        return NULL;
    return mr_error(MR_RESOURCE_EXHAUSTED, "Out of memory: cannot allocate %lld parameters", (long long)d->n);
}

/* The service is opened last: workers may join before this returns. */
mr_status *mr_batch_driver_new(const mr_batch_driver_options *o, const float *parameters, int64_t n, mr_batch_driver **out)
{
    size_t bytes, kept_bytes;
    if (o->partitions < 1 || o->partitions > 1 << 20 || n < 1 || !mr_size_mul((size_t)n, sizeof(float), &bytes) ||
        !mr_size_mul(bytes, (size_t)o->partitions, &kept_bytes))
        return mr_invalid("A batch driver needs 1 to %d partitions and at least 1 parameter, not %d and %lld", 1 << 20,
                          o->partitions, (long long)n);
    mr_batch_driver *d = mr_new(mr_batch_driver);
    d->o = *o;
    d->o.deadline_ms = o->deadline_ms > 0 ? o->deadline_ms : 60000;
    d->n = n;
    mr_mutex_init(&d->mu);
    mr_cond_init(&d->changed);
    d->parts = mr_new_array(part_state, o->partitions);
    d->losses = mr_new_array(double, o->partitions);
    mr_status *st = allocate_vectors(d, bytes, kept_bytes);
    if (!st)
        memcpy(d->w, parameters, bytes);
    if (!st)
        st = mr_coordinator_service_open(
            &(mr_coordinator_service_rules){o->address, d, worker_joined, worker_reported, worker_lost, retry_orders},
            &d->service);
    if (st)
        mr_batch_driver_free(d);
    else
        *out = d;
    return st;
}

/* Also frees a driver that was made in part. Closing the service ends all turns first. */
void mr_batch_driver_free(mr_batch_driver *d)
{
    if (!d)
        return;
    mr_coordinator_service_close(d->service);
    mr_vec_deinit(&d->workers);
    mr_free(d->parts);
    mr_free(d->w);
    mr_free(d->sum);
    mr_free(d->kept);
    mr_free(d->losses);
    mr_cond_deinit(&d->changed);
    mr_mutex_deinit(&d->mu);
    mr_free(d);
}

const char *mr_batch_driver_address(const mr_batch_driver *d) { return mr_coordinator_service_address(d->service); }

const float *mr_batch_driver_parameters(const mr_batch_driver *d) { return d->w; }

/* Iterations count when they begin. */
void mr_batch_driver_count(mr_batch_driver *d, mr_batch_driver_stats *out)
{
    mr_lock(&d->mu);
    *out = (mr_batch_driver_stats){.iterations = d->iterations, .lost = d->lost};
    mr_unlock(&d->mu);
    mr_coordinator_service_count(d->service, &out->sent, &out->received);
}

/* ---- a worker ---- */

typedef struct task { /* an order */
    int64_t iteration, partition, partitions;
    mr_sv parameters;
} task;

/* Reads an order. It comes from another process, so partition and size are checked. */
static mr_status *read_task(mr_sv bytes, int64_t n, task *out)
{
    mr_pb_reader r;
    uint32_t field, wire;
    *out = (task){.parameters = MR_SV("")};
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1: out->iteration = mr_pb_int64(&r); break;
        case 2: out->partition = mr_pb_int64(&r); break;
        case 3: out->partitions = mr_pb_int64(&r); break;
        case 4: out->parameters = mr_pb_bytes(&r); break;
        default: mr_pb_skip(&r);
        }
    MR_TRY(mr_pb_reader_status(&r, "order"));
    bool sensible = out->partition >= 0 && out->partition < out->partitions && out->parameters.n == (size_t)n * sizeof(float);
    return sensible ? NULL : mr_invalid("Invalid order: partition %lld of %lld with %zu bytes of parameters",
                                        (long long)out->partition, (long long)out->partitions, out->parameters.n);
}

/* The gradient is copied into the message. */
static mr_status *put_result(const task *t, double loss, const float *gradient, int64_t n, mr_bytes *out)
{
    mr_str text = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &text);
    mr_pb_put_varint(&w, 1, (uint64_t)t->iteration);
    mr_pb_put_varint(&w, 2, (uint64_t)t->partition);
    mr_pb_put_double(&w, 3, loss);
    mr_pb_put_bytes(&w, 4, (mr_sv){(const char *)gradient, (size_t)n * sizeof(float)});
    mr_status *st = mr_pb_writer_status(&w, "report");
    if (!st)
        mr_bytes_add_str(out, &text);
    mr_str_deinit(&text);
    return st;
}

typedef struct bench { /* the buffers of a worker; reused for each task */
    const mr_batch_worker *w;
    mr_mirror_values v;
    mr_tensor **in, **gradients;
} bench;

/* Installs the parameters, runs one partition and writes the report. */
static mr_status *compute_partition(bench *b, const task *t, mr_bytes *report)
{
    const mr_mirror *m = b->w->mirror;
    float loss = 0;
    memcpy(b->v.vector, t->parameters.p, t->parameters.n);
    MR_TRY(mr_mirror_install(m, b->w->session, &b->v));
    MR_TRY(b->w->partition(b->w->arg, t->iteration, t->partition, t->partitions, b->in));
    mr_status *st = mr_mirror_run(
        m, b->w->session, &(mr_run_args){.feeds = b->w->inputs, .feed_values = b->in, .n_feeds = b->w->n_inputs}, NULL,
        b->gradients, &loss);
    for (int i = 0; i < b->w->n_inputs; i++) {
        mr_tensor_unref(b->in[i]);
        b->in[i] = NULL;
    }
    MR_TRY(st);
    /* The vector held the parameters; from here on it collects the gradient. */
    memset(b->v.vector, 0, t->parameters.n);
    st = mr_mirror_add(m, b->gradients, 1, &b->v, NULL);
    mr_mirror_drop(m, b->gradients);
    return st ? st : put_result(t, loss, b->v.vector, m->n, report);
}

/* Asks for orders and carries them out until an error. */
static mr_status *carry_out_orders(bench *b, mr_coordinator_client *h)
{
    mr_bytes report = {0};
    for (;;) {
        mr_bytes bytes = {0};
        mr_sv flat;
        task t;
        mr_status *st = mr_coordinator_client_ask(h, &report, &bytes);
        if (!st)
            st = mr_bytes_flat(&bytes, &flat);
        if (!st)
            st = read_task(flat, b->w->mirror->n, &t);
        if (!st)
            st = compute_partition(b, &t, &report);
        mr_bytes_deinit(&bytes);
        MR_TRY(st);
    }
}

/* A driver that has finished reports UNAVAILABLE; that is the normal end of a worker, so it is not an
 * error. */
mr_status *mr_batch_worker_run(const mr_batch_worker *w)
{
    bench b = {.w = w};
    mr_coordinator_client *h = NULL;
    mr_sv hello = {(const char *)&w->mirror->n, sizeof w->mirror->n};
    b.in = mr_new_array(mr_tensor *, w->n_inputs + 1);
    b.gradients = mr_new_array(mr_tensor *, 2 * w->mirror->parts.n + 1);
    mr_status *st = mr_mirror_values_init(w->mirror, &b.v);
    if (!st)
        st = mr_coordinator_client_join(&(mr_coordinator_client_rules){w->driver, hello, 60000}, &h);
    if (!st)
        st = carry_out_orders(&b, h);
    if (mr_status_code(st) == MR_UNAVAILABLE) {
        mr_status_free(st);
        st = NULL;
    }
    mr_coordinator_client_leave(h);
    mr_mirror_values_deinit(w->mirror, &b.v);
    mr_free(b.in);
    mr_free(b.gradients);
    return st;
}
