/* net/grpc/server.c -- the gRPC transport's server side.
 *
 * The server's thread accepts calls; a few are requested in advance. A call then has up to three
 * operations under way: its request is read (first), its end is awaited (`close`, from the beginning),
 * its answer is sent. Each has a reference, and so has the handler until reply.
 *
 *     accept_one      requests a call from gRPC
 *     call_accepted   its headers are here: checks the token, starts `close` and `read`
 *     read_done       its message is here: calls the handler
 *     mr_grpc_reply   starts `sent`
 *     answer_sent     the answer is on its way, or lost
 *     call_closed     the call is over; a caller that left is reported to the handler
 *
 * gRPC is called without our lock, because it may drop pieces of bodies, and that may call anything; a
 * reference keeps the grpc_call meanwhile.
 *
 * Cancellation is as in the local transport: once `replied`, no callback begins, and reply waits for
 * one that runs. When the server has stopped, calls that were not answered lose their grpc_call
 * (`call` is NULL) and their replies are dropped.
 *
 * gRPC aborts the process if a batch starts on a completion queue that is shut down. Before the shutdown
 * `detached` is set: from then on nobody gets a grpc_call to start a batch on, and the server waits for
 * the callers that already have one (`n_starting`). A call accepted even later is dropped without a batch. */
#include "net/grpc/grpc.h"

#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/listen_check.h"
#include "net/message.h"
#include "net/task_name.h"

enum { IN_ADVANCE = 32 };
#define ARRIVAL_NS (60 * INT64_C(1000000000))

/* A call, from the moment it is requested from gRPC. Each mr_tag is that of one operation. */
typedef struct call {
    mr_net_call pub; /* first */
    mr_tag accepted, read, closed, sent, stop;
    mr_net_server *server;
    mr_refs refs;
    grpc_call *call; /* the server's lock; NULL: gone */
    grpc_call_details details;
    grpc_metadata_array metadata;
    grpc_byte_buffer *request, *answer;
    grpc_slice message;
    int was_cancelled; /* gRPC's, when closed */
    mr_str method, peer_name;
    /* the server's lock */
    struct call *next, *prev; /* all that have a grpc_call */
    bool cancelled, replied, running;
    bool arrived; /* its request */
    int64_t accepted_ns;
    pthread_t running_in;
} call;

struct mr_net_server {
    mr_refs refs; /* one for the user, one for each call */
    mr_net_listen o;
    const mr_net *net;
    grpc_server *server;
    mr_grpc_queue queue;
    mr_tag shut;
    mr_mutex mu;
    mr_cond changed;
    call *calls MR_GUARDED_BY(mu);
    int n_live MR_GUARDED_BY(mu);    /* that have a grpc_call */
    int n_telling MR_GUARDED_BY(mu); /* calls that are about to be cancelled because the server stops */
    int n_starting MR_GUARDED_BY(mu); /* batches that are about to start */
    bool stopping MR_GUARDED_BY(mu), detached MR_GUARDED_BY(mu), shut_down MR_GUARDED_BY(mu);
    int64_t arrival_ns;
    /* The server's thread: */
    int64_t late_ns;        /* when to look for late calls again */
    int64_t memory_ns;      /* when to look at memory again */
    int64_t least_resident; /* bytes of the process, since memory was last returned to the system */
    const char *token;      /* that every call must send; NULL: none */
};

#define OWNER(T, member, p) ((T *)((char *)(p)-offsetof(T, member)))

/* The last reference, of the user or of a call that is answered after stop, also lets gRPC be shut down. */
static void server_unref(mr_net_server *s)
{
    if (!mr_refs_drop(&s->refs))
        return;
    MR_ASSERT(!s->calls && s->n_live == 0 && s->n_starting == 0);
    mr_cond_deinit(&s->changed);
    mr_mutex_deinit(&s->mu);
    mr_free(s);
    mr_grpc_unuse();
}

/* ---- references, batches and answers of a call ---- */

/* Takes gRPC's part out of the call; the caller unrefs it without the lock. NULL: it is gone already. */
static grpc_call *detach_locked(mr_net_server *s, call *k) MR_REQUIRES(s->mu)
{
    MR_ASSERT(k->server == s);
    grpc_call *g = k->call;
    if (!g)
        return NULL;
    k->call = NULL;
    *(k->prev ? &k->prev->next : &s->calls) = k->next;
    if (k->next)
        k->next->prev = k->prev;
    MR_ASSERT(s->n_live > 0);
    s->n_live--;
    mr_cond_broadcast(&s->changed);
    return g;
}

/* The last reference is dropped under the lock, so that a thread that finds the call in the list can take
 * one. */
static void call_unref(call *k)
{
    mr_net_server *s = k->server;
    mr_lock(&s->mu);
    bool last = mr_refs_drop(&k->refs);
    grpc_call *g = last ? detach_locked(s, k) : NULL;
    mr_unlock(&s->mu);
    if (!last)
        return;
    if (g)
        grpc_call_unref(g);
    if (k->request)
        grpc_byte_buffer_destroy(k->request);
    if (k->answer)
        grpc_byte_buffer_destroy(k->answer);
    grpc_slice_unref(k->message);
    grpc_call_details_destroy(&k->details);
    grpc_metadata_array_destroy(&k->metadata);
    mr_bytes_deinit(&k->pub.body);
    mr_str_deinit(&k->method);
    mr_str_deinit(&k->peer_name);
    mr_free(k);
    server_unref(s);
}

/* Starts operations of a call, which hold a reference until their tag is told. */
static void start_batch(call *k, grpc_call *g, const grpc_op *ops, int n, mr_tag *tag)
{
    mr_refs_take(&k->refs);
    MR_GIVE(tag);
    grpc_call_error e = grpc_call_start_batch(g, ops, (size_t)n, tag, NULL);
    MR_ASSERT(e == GRPC_CALL_OK);
    (void)e;
}

/* gRPC's part with a reference; NULL: it is gone. */
static grpc_call *get_call_locked(mr_net_server *s, call *k) MR_REQUIRES(s->mu)
{
    MR_ASSERT(k->server == s);
    (void)s;
    if (k->call)
        grpc_call_ref(k->call);
    return k->call;
}

/* The same for a caller that starts batches on it and then calls end_batches. */
static grpc_call *begin_batches_locked(mr_net_server *s, call *k) MR_REQUIRES(s->mu)
{
    grpc_call *g = get_call_locked(s, k);
    MR_ASSERT(!g || !s->detached);
    s->n_starting += g != NULL;
    return g;
}

/* The counterpart of begin_batches_locked: drops its reference and, if the server detaches its calls, wakes it. */
static void end_batches(mr_net_server *s, grpc_call *g)
{
    grpc_call_unref(g);
    mr_lock(&s->mu);
    MR_ASSERT(s->n_starting > 0);
    if (--s->n_starting == 0 && s->detached)
        mr_cond_broadcast(&s->changed);
    mr_unlock(&s->mu);
}

/* Sends an answer. Takes st, the body and g, which comes from begin_batches_locked. */
static void send_answer(call *k, grpc_call *g, mr_status *st, mr_bytes *body)
{
    mr_str memory = {0};
    mr_sv text = mr_net_message(st, &memory);
    k->message = grpc_slice_from_copied_buffer(text.p, text.n);
    if (!st)
        k->answer = mr_body_to_grpc(body);
    grpc_op ops[] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA},
        {.op = GRPC_OP_SEND_STATUS_FROM_SERVER,
         .data.send_status_from_server = {.status = (grpc_status_code)mr_status_code(st),
                                          .status_details = &k->message}},
        {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = k->answer}};
    start_batch(k, g, ops, st ? 2 : 3, &k->sent);
    end_batches(k->server, g);
    mr_str_deinit(&memory);
    mr_status_free(st);
}

/* The answer's batch is over, sent or not. */
static void answer_sent(mr_tag *t, bool ok)
{
    (void)ok;
    call_unref(OWNER(call, sent, t));
}

/* ---- cancellation ---- */

/* false: the call is cancelled already, and fn will not be called. */
bool mr_grpc_on_cancel(mr_net_call *c, void (*fn)(void *arg, mr_net_call *c), void *arg)
{
    call *k = (call *)c;
    mr_lock(&k->server->mu);
    bool ok = !k->cancelled;
    if (ok) {
        c->cancelled = fn;
        c->cancelled_arg = arg;
    }
    mr_unlock(&k->server->mu);
    return ok;
}

/* Marks the call as cancelled and calls back, unless it is replied. In the server's thread. */
static void cancel_call(call *k)
{
    mr_net_server *s = k->server;
    mr_lock(&s->mu);
    bool first = !k->cancelled && !k->replied;
    k->cancelled = true;
    void (*fn)(void *, mr_net_call *) = first ? k->pub.cancelled : NULL;
    k->running = fn != NULL;
    k->running_in = pthread_self();
    mr_unlock(&s->mu);
    if (!fn)
        return;
    fn(k->pub.cancelled_arg, &k->pub);
    mr_lock(&s->mu);
    k->running = false;
    mr_cond_broadcast(&s->changed);
    mr_unlock(&s->mu);
}

/* The call is over: answered, or nobody waits for its answer any more. */
static void call_closed(mr_tag *t, bool ok)
{
    call *k = OWNER(call, closed, t);
    if (!ok || k->was_cancelled)
        cancel_call(k);
    call_unref(k);
}

/* Waits for a cancellation callback that runs in another thread. If the server has stopped meanwhile (g is NULL), the
 * answer is dropped. Drops the handler's reference, so the call may be freed here. */
void mr_grpc_reply(mr_net_call *c, mr_status *st, mr_bytes *body)
{
    call *k = (call *)c;
    mr_net_server *s = k->server;
    mr_lock(&s->mu);
    MR_ASSERT(!k->replied);
    while (k->running && !pthread_equal(k->running_in, pthread_self()))
        mr_cond_wait(&s->changed, &s->mu);
    k->replied = true;
    grpc_call *g = begin_batches_locked(s, k);
    mr_unlock(&s->mu);
    if (g)
        send_answer(k, g, st, body);
    else
        mr_status_free(st);
    if (body)
        mr_bytes_deinit(body);
    call_unref(k);
}

/* ---- accepting ---- */

static void accept_one(mr_net_server *s);

/* Finds the name of the peer in its certificate: the first of its names that is a task's; "" without
 * one. */
static void find_peer_name(call *k)
{
    grpc_auth_context *ctx = grpc_call_auth_context(k->call);
    if (!ctx)
        return;
    grpc_auth_property_iterator it =
        grpc_auth_context_find_properties_by_name(ctx, GRPC_X509_SAN_PROPERTY_NAME);
    for (const grpc_auth_property *p; (p = grpc_auth_property_iterator_next(&it));) {
        mr_str name = {0};
        if (k->peer_name.n == 0 && mr_task_name_decode((mr_sv){p->value, p->value_length}, &name))
            mr_str_appendz(&k->peer_name, mr_str_z(&name));
        mr_str_deinit(&name);
    }
    grpc_auth_context_release(ctx);
}

/* Compares in constant time, so that a wrong token cannot be guessed byte by byte. */
static bool has_token(const call *k, const char *token)
{
    size_t n = strlen(token);
    for (size_t i = 0; i < k->metadata.count; i++) {
        mr_sv key = mr_slice_view(&k->metadata.metadata[i].key), value = mr_slice_view(&k->metadata.metadata[i].value);
        if (!mr_sv_is(key, MR_GRPC_TOKEN) || value.n != n)
            continue;
        unsigned char differ = 0;
        for (size_t c = 0; c < n; c++)
            differ |= (unsigned char)(value.p[c] ^ token[c]);
        return differ == 0;
    }
    return false;
}

/* Without keys any user of the host can connect, so the caller must send the job's token. */
static mr_status *check_token(const call *k)
{
    const char *token = k->server->token;
    if (!token || has_token(k, token))
        return NULL;
    return mr_error(MR_UNAUTHENTICATED, "this task is part of a job, and the caller did not send the job's token "
                                        "(the file `token` in the folder MILLRACE_TLS_DIR of the job's tasks)");
}

/* The call's deadline by our clock; 0: none, or so far away that it does not matter. */
static int64_t deadline_of(const call *k)
{
    gpr_timespec at = k->details.deadline;
    if (gpr_time_cmp(at, gpr_inf_future(at.clock_type)) == 0)
        return 0;
    gpr_timespec left = gpr_time_sub(at, gpr_now(at.clock_type));
    double ns = (double)left.tv_sec * 1e9 + left.tv_nsec;
    return ns > 1e17 ? 0 : mr_now_ns() + (int64_t)MR_MAX(ns, -1e17);
}

/* The request has arrived: hands the call to the handler, or refuses it. */
static void read_done(mr_tag *t, bool ok)
{
    call *k = OWNER(call, read, t);
    mr_net_server *s = k->server;
    grpc_byte_buffer *request = k->request;
    k->request = NULL;
    mr_status *st = NULL;
    /* The body refers to gRPC's memory; nothing is copied. */
    if (!ok || !request)
        st = mr_invalid("%s: the call ended before its request had arrived", k->pub.method);
    else
        st = mr_body_from_grpc(request, &k->pub.body);
    mr_lock(&s->mu);
    k->arrived = true;
    if (s->stopping) { /* also if that is why the request did not arrive */
        mr_status_free(st);
        st = mr_error(MR_UNAVAILABLE, "the server is shutting down");
    }
    k->replied = st != NULL;
    grpc_call *g = st ? begin_batches_locked(s, k) : NULL;
    mr_unlock(&s->mu);
    if (!st) {
        mr_refs_take(&k->refs); /* for the handler */
        s->o.handle(s->o.arg, &k->pub);
    } else if (g) {
        send_answer(k, g, st, NULL);
    } else {
        mr_status_free(st);
    }
    call_unref(k);
}

/* A call has begun: its headers are here. A caller without the token is answered at once, and its
 * request, which may be large, is not read. */
static void call_accepted(mr_tag *t, bool ok)
{
    call *k = OWNER(call, accepted, t);
    mr_net_server *s = k->server;
    if (!ok) { /* the server is shutting down */
        k->call = NULL;
        call_unref(k);
        return;
    }
    /* The number of calls that are requested in advance stays the same. */
    mr_lock(&s->mu);
    bool stopping = s->stopping;
    mr_unlock(&s->mu);
    if (!stopping)
        accept_one(s);
    mr_sv method = mr_slice_view(&k->details.method);
    mr_str_append(&k->method, method.p, method.n);
    find_peer_name(k);
    k->pub.method = mr_str_z(&k->method);
    k->pub.peer_name = mr_str_z(&k->peer_name);
    k->pub.deadline_ns = deadline_of(k);
    k->accepted_ns = mr_now_ns();
    mr_status *refused = check_token(k);
    /* Too late for a batch: the completion queue is about to be shut down. */
    mr_lock(&s->mu);
    if (s->detached) {
        grpc_call *late = k->call;
        k->call = NULL;
        mr_unlock(&s->mu);
        mr_status_free(refused);
        grpc_call_cancel_with_status(late, GRPC_STATUS_UNAVAILABLE, "the server was stopped", NULL);
        grpc_call_unref(late);
        call_unref(k);
        return;
    }
    k->next = s->calls;
    if (k->next)
        k->next->prev = k;
    s->calls = k;
    s->n_live++;
    /* A refused call counts as arrived and replied, so neither the sweep for late calls nor a cancellation touches
     * it. */
    k->arrived = k->replied = refused != NULL;
    grpc_call *g = begin_batches_locked(s, k);
    mr_unlock(&s->mu);
    grpc_op close = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
                     .data.recv_close_on_server.cancelled = &k->was_cancelled};
    grpc_op read = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &k->request};
    start_batch(k, g, &close, 1, &k->closed);
    if (refused) {
        send_answer(k, g, refused, NULL);
    } else {
        start_batch(k, g, &read, 1, &k->read);
        end_batches(s, g);
    }
    call_unref(k); /* of accept_one */
}

/* Requests one more call from gRPC. */
static void accept_one(mr_net_server *s)
{
    call *k = mr_new(call);
    mr_refs_init(&k->refs);
    mr_refs_take(&s->refs);
    k->server = s;
    k->pub.net = s->net;
    k->accepted.fn = call_accepted;
    k->read.fn = read_done;
    k->closed.fn = call_closed;
    k->sent.fn = answer_sent;
    k->message = grpc_empty_slice();
    grpc_call_details_init(&k->details);
    grpc_metadata_array_init(&k->metadata);
    MR_GIVE(&k->accepted);
    grpc_call_error e = grpc_server_request_call(s->server, &k->call, &k->details, &k->metadata,
                                                 s->queue.cq, s->queue.cq, &k->accepted);
    if (e != GRPC_CALL_OK) {
        k->call = NULL;
        call_unref(k);
    }
}

/* ---- requests that do not arrive ---- */

/* A call whose request did not arrive in time, or has not arrived when the server stops; each is found
 * once. */
static grpc_call *find_late_locked(mr_net_server *s) MR_REQUIRES(s->mu)
{
    int64_t now = mr_now_ns();
    for (call *k = s->calls; k; k = k->next)
        if (!k->arrived && (s->stopping || now - k->accepted_ns > s->arrival_ns)) {
            k->arrived = true; /* so that it is not found again */
            return get_call_locked(s, k);
        }
    return NULL;
}

/* gRPC collects headers until the last of them has arrived, however many there are, and the memory that it then frees
 * stays with the process: a peer that sends 45 MB of them would leave 150 MB.  That much is returned to the system.
 *
 * To find out what is free, and to return it, the C library locks its heaps and visits every free block, which takes
 * long in a large process.  So it is asked only when the process has grown by GROWTH_BYTES, which costs one read of a
 * small file, and for at most a thousandth of the time. */
enum { GROWTH_BYTES = 32 << 20 };

/* The memory that the process has now; 0: unknown. */
static int64_t resident_bytes(void)
{
    long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f || fscanf(f, "%*d %lld", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

/* Runs now and then in the server's thread. Returns freed memory to the system if the process has grown much. */
static void give_memory_back(mr_net_server *s, int64_t now_ns)
{
    if (now_ns < s->memory_ns)
        return;
    int64_t resident = resident_bytes();
    s->least_resident = MR_MIN(s->least_resident, resident);
    if (resident - s->least_resident < GROWTH_BYTES)
        return;
#if __GLIBC_PREREQ(2, 33)
    if (mallinfo2().fordblks > GROWTH_BYTES) { /* otherwise it is in use, and may be freed later */
        malloc_trim(0);
        s->least_resident = resident_bytes();
    }
#endif
    s->memory_ns = now_ns + 1000 * (mr_now_ns() - now_ns);
}

/* Cancels them one at a time, without the lock. */
static void end_late_calls(mr_net_server *s)
{
    for (;;) {
        mr_lock(&s->mu);
        grpc_call *g = find_late_locked(s);
        bool stopping = s->stopping;
        mr_unlock(&s->mu);
        if (!g)
            return;
        grpc_call_cancel_with_status(g, stopping ? GRPC_STATUS_UNAVAILABLE : GRPC_STATUS_DEADLINE_EXCEEDED,
                                     stopping ? "the server is shutting down" : "the request did not arrive in time",
                                     NULL);
        grpc_call_unref(g);
    }
}

#define TICK_NS (5 * INT64_C(1000000000))

/* Runs now and then in the server's thread. A peer could send its request byte by byte for ever. */
static void look_around(void *arg)
{
    mr_net_server *s = arg;
    int64_t now = mr_now_ns();
    give_memory_back(s, now);
    if (now < s->late_ns)
        return;
    end_late_calls(s);
    s->late_ns = now + s->arrival_ns / 2;
}

/* ---- listening ---- */

/* gRPC's server is shut down: all calls have ended, and none is accepted any more. */
static void server_shut(mr_tag *t, bool ok)
{
    mr_net_server *s = OWNER(mr_net_server, shut, t);
    (void)ok;
    mr_lock(&s->mu);
    s->shut_down = true;
    mr_cond_broadcast(&s->changed);
    mr_unlock(&s->mu);
}

/* Binds the port. gRPC reports only that it could not, and logs a page about it; mr_listen_check finds
 * the cause. */
static mr_status *bind_port(mr_net_server *s, const char *address, int *port)
{
    grpc_server_credentials *creds;
    MR_TRY(mr_grpc_server_credentials(s->o.keys, &creds));
    mr_grpc_hush(); /* mr_listen_check explains a failure in one line */
    *port = grpc_server_add_http2_port(s->server, address, creds);
    mr_grpc_unhush();
    grpc_server_credentials_release(creds);
    if (*port != 0)
        return NULL;
    mr_status *st = mr_listen_check(address, NULL);
    return st ? st
              : mr_error(
                    MR_UNKNOWN,
                    "Could not start gRPC server: cannot listen at %s: gRPC gives no reason, and another "
                    "attempt to listen there succeeded",
                    address);
}

/* Shuts gRPC's server down and waits for that. All calls have been answered or detached. */
static void shut_down(mr_net_server *s)
{
    MR_GIVE(&s->shut);
    grpc_server_shutdown_and_notify(s->server, s->queue.cq, &s->shut);
    grpc_server_cancel_all_calls(s->server);
    mr_lock(&s->mu);
    while (!s->shut_down)
        mr_cond_wait(&s->changed, &s->mu);
    mr_unlock(&s->mu);
    grpc_server_destroy(s->server);
    mr_grpc_queue_deinit(&s->queue);
}

/* Binds the port and requests the first calls. A server that could not bind is started and shut down like any
 * other, so there is one way to end it. Address and keys are used only in this call; handle and arg until stop. */
mr_status *mr_grpc_listen(mr_net *n, const mr_net_listen *o, mr_net_server **out, int *port)
{
    mr_grpc_args args;
    mr_net_server *s = mr_new(mr_net_server);
    mr_grpc_use();
    mr_refs_init(&s->refs);
    mr_mutex_init(&s->mu);
    mr_cond_init(&s->changed);
    s->o = *o;
    s->net = n;
    s->shut.fn = server_shut;
    s->arrival_ns = n->arrival_ns ? n->arrival_ns : ARRIVAL_NS;
    s->least_resident = resident_bytes();
    s->token = !o->keys && n->token[0] ? n->token : NULL;
    s->queue.tick = look_around;
    s->queue.arg = s;
    s->queue.every_ns = MR_MIN(s->arrival_ns / 2, TICK_NS);
    mr_status *st = mr_grpc_queue_init(&s->queue, "mr-grpc-server");
    if (!st) {
        mr_grpc_server_args(&args, n->max_message);
        s->server = grpc_server_create(&args.list, NULL);
        grpc_server_register_completion_queue(s->server, s->queue.cq, NULL);
        st = bind_port(s, o->address, port);
        grpc_server_start(s->server);
        if (st)
            shut_down(s);
    }
    s->o.address = NULL; /* both belong to the caller */
    s->o.keys = NULL;
    if (st) {
        server_unref(s);
        return st;
    }
    for (int i = 0; i < IN_ADVANCE; i++)
        accept_one(s);
    *out = s;
    return NULL;
}

/* ---- stopping ---- */

/* In the server's thread, where all cancellation callbacks run: cancels a call because the server stops. */
static void stop_call(mr_tag *t, bool ok)
{
    call *k = OWNER(call, stop, t);
    mr_net_server *s = k->server;
    (void)ok;
    cancel_call(k);
    mr_lock(&s->mu);
    MR_ASSERT(s->n_telling > 0);
    s->n_telling--;
    mr_cond_broadcast(&s->changed);
    mr_unlock(&s->mu);
    call_unref(k);
}

/* Lets the server's thread cancel all calls that run: an empty batch makes it call stop_call. Calls
 * whose request has not arrived are ended directly, because no handler would answer them. */
static void cancel_all(mr_net_server *s)
{
    MR_VEC(call *) calls = {0};
    mr_lock(&s->mu);
    MR_ASSERT(!s->stopping && s->n_telling == 0);
    s->stopping = true;
    for (call *k = s->calls; k; k = k->next) {
        mr_refs_take(&k->refs);
        mr_vec_push(&calls, k);
    }
    s->n_telling = calls.n;
    mr_unlock(&s->mu);
    end_late_calls(s);
    /* Callbacks run in the server's thread only, so that they cannot overlap with those of call_closed. */
    for (int i = 0; i < calls.n; i++) {
        call *k = calls.p[i];
        k->stop.fn = stop_call;
        start_batch(k, k->call, NULL, 0, &k->stop); /* the reference keeps its grpc_call attached */
        call_unref(k);
    }
    mr_vec_deinit(&calls);
}

/* Waits for all cancellation callbacks, however long they take, and then for the answers, until until_ns. */
static void wait_for_answers(mr_net_server *s, int64_t until_ns)
{
    mr_lock(&s->mu);
    while (s->n_telling)
        mr_cond_wait(&s->changed, &s->mu);
    while (s->n_live && mr_cond_wait_until(&s->changed, &s->mu, until_ns))
        ;
    mr_unlock(&s->mu);
}

/* Calls that are not answered by now lose their grpc_call; their callers get UNAVAILABLE. After this no batch
 * starts, so the completion queue may be shut down. */
static void detach_all(mr_net_server *s)
{
    mr_lock(&s->mu);
    s->detached = true;
    while (s->calls) {
        grpc_call *g = detach_locked(s, s->calls);
        mr_unlock(&s->mu);
        grpc_call_cancel_with_status(g, GRPC_STATUS_UNAVAILABLE, "the server was stopped", NULL);
        grpc_call_unref(g);
        mr_lock(&s->mu);
    }
    while (s->n_starting > 0)
        mr_cond_wait(&s->changed, &s->mu);
    mr_unlock(&s->mu);
}

/* Four steps: cancel the calls that run, wait for their answers, take gRPC's part from those that are still open, and
 * shut gRPC's server down. */
void mr_grpc_stop(mr_net_server *s, int64_t grace_ns)
{
    if (!s)
        return;
    int64_t until;
    if (!mr_i64_add(mr_now_ns(), grace_ns, &until))
        until = INT64_MAX;
    cancel_all(s);
    wait_for_answers(s, until);
    detach_all(s);
    shut_down(s);
    server_unref(s);
}
