/* ops/control/send.c -- an edge between two devices: _Send puts a value into the step's rendezvous, _Recv waits for
 * it there.
 *
 * Both run even if they are dead: the deadness is sent with the value, otherwise the other side would wait for
 * ever. The owner of the step ends a waiting _Recv by aborting the rendezvous. */
#include "base/clock.h"
#include "base/memory.h"
#include "graph/infer.h"
#include "run/run.h"

static mr_status *key_init(mr_make *m, void *state)
{
    mr_sv name, src, dst;
    int64_t incarnation;
    MR_TRY(mr_node_get_str(m->node, "tensor_name", &name));
    MR_TRY(mr_node_get_str(m->node, "send_device", &src));
    MR_TRY(mr_node_get_str(m->node, "recv_device", &dst));
    MR_TRY(mr_node_get_int(m->node, "send_device_incarnation", &incarnation));
    return mr_rendezvous_key_make(src, (uint64_t)incarnation, dst, name, state);
}

static void key_deinit(void *state) { mr_rendezvous_key_deinit(state); }

static mr_status *run_send(mr_run *r)
{
    if (!r->step->rendezvous)
        return mr_error(MR_INTERNAL, "Op kernel context needs to provide a rendezvous.");
    mr_tensor *t = r->dead ? NULL : mr_tensor_ref(mr_in(r, 0));
    if (MR_UNLIKELY(r->began_ns)) /* the receiver may run inside the call below: its time does not belong to this op */
        r->ended_ns = mr_now_ns();
    return mr_rendezvous_send(r->step->rendezvous, r->state, r->frame, r->iteration, t, r->dead);
}

typedef struct receive {
    mr_recv w;
    mr_run *run;
} receive;

/* A received value is in host memory. Numbers are copied to a device with separate memory, once for all consumers;
 * shapes and similar values are used on the host. */
static bool goes_to_device(const mr_run *r, const mr_tensor *t)
{
    return r->step->device->accel && t->dtype == MR_FLOAT && mr_tensor_on_host(t) && !mr_node_is(r->node, "_HostRecv");
}

static void end_copy(void *arg, mr_status *st) { mr_run_done(arg, st); }

static void copy_in(mr_run *r, mr_tensor *host)
{
    mr_device *d = r->step->device;
    mr_tensor *t = NULL;
    mr_status *st = mr_tensor_new(d->alloc, host->dtype, host->rank, host->dims, &t);
    if (st) {
        mr_run_done(r, st);
    } else {
        mr_run_set(r, 0, t);
        d->type->copy_in(d, host, t, end_copy, r);
    }
    mr_tensor_unref(host);
}

static void end_receive(mr_recv *w, mr_status *st, mr_tensor *t, bool dead)
{
    mr_run *r = ((receive *)w)->run;
    mr_small_free(w, sizeof(receive));
    if (!st && !dead && t && goes_to_device(r, t)) {
        copy_in(r, t);
        return;
    }
    if (dead)
        mr_run_set_dead(r, 0);
    else if (t)
        mr_run_set(r, 0, t);
    mr_run_done(r, st);
}

static void run_recv(mr_run *r)
{
    if (!r->step->rendezvous) {
        mr_run_done(r, mr_error(MR_INTERNAL, "Op kernel context needs to provide a rendezvous."));
        return;
    }
    receive *v = mr_small_alloc(sizeof(receive));
    *v = (receive){{end_receive, r->state, r->frame, r->iteration, NULL}, r};
    mr_rendezvous_recv(r->step->rendezvous, &v->w);
}

#define SEND_ATTRS                                                                        \
    "T: type; tensor_name: string; send_device: string; send_device_incarnation: int; "   \
    "recv_device: string; client_terminated: bool = false"
#define RECV_ATTRS                                                                        \
    "tensor_type: type; tensor_name: string; send_device: string; "                       \
    "send_device_incarnation: int; recv_device: string; client_terminated: bool = false"
#define KEYED .state_bytes = sizeof(mr_rendezvous_key), .init = key_init, .deinit = key_deinit

MR_OP(_Send,
    .doc     = "sends a tensor to recv_device",
    .sig     = "tensor: T ->",
    .attrs   = SEND_ATTRS,
    .flags   = MR_STATEFUL | MR_NO_FOLD | MR_CHEAP | MR_HOST_ONLY,
    .shape   = mr_shape_none,
    KEYED,
    .kernels = MR_KERNELS({.device = "CPU", .run = run_send, .host_in = 1},));

MR_OP(_HostSend,
    .doc     = "_Send from host memory",
    .sig     = "tensor: T ->",
    .attrs   = SEND_ATTRS,
    .flags   = MR_STATEFUL | MR_NO_FOLD | MR_CHEAP | MR_HOST_ONLY,
    .shape   = mr_shape_none,
    KEYED,
    .kernels = MR_KERNELS({.device = "CPU", .run = run_send, .host_in = 1},));

MR_OP(_Recv,
    .doc     = "receives the tensor that send_device sent under tensor_name",
    .sig     = "-> tensor: tensor_type",
    .attrs   = RECV_ATTRS,
    .flags   = MR_STATEFUL | MR_DISTCOMM | MR_NO_FOLD | MR_HOST_ONLY,
    .shape   = mr_shape_unknown,
    KEYED,
    .kernels = MR_KERNELS(MR_CPU_ASYNC(run_recv)));

MR_OP(_HostRecv,
    .doc     = "_Recv into host memory",
    .sig     = "-> tensor: tensor_type",
    .attrs   = RECV_ATTRS,
    .flags   = MR_STATEFUL | MR_DISTCOMM | MR_NO_FOLD | MR_HOST_ONLY,
    .shape   = mr_shape_unknown,
    KEYED,
    .kernels = MR_KERNELS(MR_CPU_ASYNC(run_recv)));
