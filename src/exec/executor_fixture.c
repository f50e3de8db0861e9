#include "exec/executor_fixture.h"

#include "base/clock.h"
#include "base/memory.h"
#include "graph/infer.h"

void mr_ops_register(void); /* ops/table.h, above this layer */

/* ---- ops ---- */

static int in_int(const mr_run *r, int i) { return *MR_DATA(int32_t, mr_in(r, i)); }

static mr_status *put_int(mr_run *r, int v)
{
    mr_tensor *t = NULL;
    MR_TRY(mr_run_output(r, 0, 0, NULL, &t));
    *MR_DATA(int32_t, t) = v;
    return NULL;
}

static mr_status *run_const(mr_run *r)
{
    int64_t v = 0;
    MR_TRY(mr_node_get_int(r->node, "value", &v));
    return put_int(r, (int)v);
}

static mr_status *run_add(mr_run *r) { return put_int(r, in_int(r, 0) + in_int(r, 1)); }

static mr_status *run_less(mr_run *r)
{
    mr_tensor *t = NULL;
    MR_TRY(mr_run_output(r, 0, 0, NULL, &t));
    *MR_DATA(bool, t) = in_int(r, 0) < in_int(r, 1);
    return NULL;
}

static mr_status *run_fail(mr_run *r)
{
    (void)r;
    return mr_error(MR_OUT_OF_RANGE, "test failure");
}

_Atomic int fixture_counter;

static mr_status *run_count(mr_run *r)
{
    atomic_fetch_add(&fixture_counter, 1);
    mr_run_pass(r, 0, 0);
    return NULL;
}

uint64_t fixture_frame;

static mr_status *run_frame(mr_run *r)
{
    fixture_frame = r->frame;
    mr_run_pass(r, 0, 0);
    return NULL;
}

/* The threads that TestSpins ran in. */
static pthread_t spinners[64];
static int n_spinners;

static mr_mutex *spin_mu(void)
{
    static mr_mutex mu = {PTHREAD_MUTEX_INITIALIZER};
    return &mu;
}

static void note_spinner(void)
{
    int i = 0;
    mr_lock(spin_mu());
    while (i < n_spinners && !pthread_equal(spinners[i], pthread_self()))
        i++;
    if (i == n_spinners && i < MR_COUNT(spinners))
        spinners[n_spinners++] = pthread_self();
    mr_unlock(spin_mu());
}

int fixture_forget_spinners(void)
{
    mr_lock(spin_mu());
    int n = n_spinners;
    n_spinners = 0;
    mr_unlock(spin_mu());
    return n;
}

/* Uses some 50 us of a core. */
static mr_status *run_spin(mr_run *r)
{
    note_spinner();
    int64_t end = mr_now_ns() + 50000;
    while (mr_now_ns() < end)
        ;
    mr_run_pass(r, 0, 0);
    return NULL;
}

static mr_status *run_bad_type(mr_run *r)
{
    mr_run_set(r, 0, mr_tensor_scalar_f32(1));
    return NULL;
}

static mr_status *run_no_output(mr_run *r)
{
    (void)r;
    return NULL;
}

/* An asynchronous op that ends in its own call. */
static void run_now(mr_run *r)
{
    mr_run_pass(r, 0, 0);
    mr_run_done(r, NULL);
}

/* One that ends when fixture_release is called, or its step is cancelled. */
typedef struct hold {
    mr_cancel_entry e;
    mr_run *run;
    struct hold *next;
} hold;

static mr_mutex *hold_mu(void)
{
    static mr_mutex mu = {PTHREAD_MUTEX_INITIALIZER};
    return &mu;
}
static hold *held;

static bool unlink_hold(hold *h)
{
    bool found = false;
    mr_lock(hold_mu());
    for (hold **at = &held; *at; at = &(*at)->next)
        if (*at == h) {
            *at = h->next;
            found = true;
            break;
        }
    mr_unlock(hold_mu());
    return found;
}

static void hold_cancelled(mr_cancel_entry *e)
{
    hold *h = (hold *)e;
    if (!unlink_hold(h))
        return;
    mr_run *r = h->run;
    mr_free(h);
    mr_run_done(r, mr_error(MR_CANCELLED, "hold was cancelled"));
}

static void run_hold(mr_run *r)
{
    hold *h = mr_new(hold);
    h->e.fn = hold_cancelled;
    h->run = r;
    mr_lock(hold_mu()); /* whoever ends it finds it in the list */
    bool ok = mr_cancel_register(r->step->cancel, &h->e);
    if (ok) {
        h->next = held;
        held = h;
    }
    mr_unlock(hold_mu());
    if (!ok) {
        mr_free(h);
        mr_run_done(r, mr_error(MR_CANCELLED, "hold was cancelled"));
    }
}

int fixture_held(void)
{
    int n = 0;
    mr_lock(hold_mu());
    for (hold *h = held; h; h = h->next)
        n++;
    mr_unlock(hold_mu());
    return n;
}

int fixture_release(void)
{
    int n = 0;
    mr_lock(hold_mu());
    hold *all = held;
    held = NULL;
    mr_unlock(hold_mu());
    for (hold *next; all; all = next, n++) {
        next = all->next;
        mr_run *r = all->run;
        mr_cancel_unregister(r->step->cancel, &all->e);
        mr_free(all);
        mr_run_pass(r, 0, 0);
        mr_run_done(r, NULL);
    }
    return n;
}

/* Waits until as many of them as input 0 says are at it, and gives back how many: those that met, or fewer when it took
 * too long. */
static mr_mutex *meet_mu(void)
{
    static mr_mutex mu = {PTHREAD_MUTEX_INITIALIZER};
    return &mu;
}
static int n_meeting;
_Atomic int64_t fixture_meet_patience_ns = 20000000000;
pthread_t fixture_last_meeting_thread;

static mr_status *run_meet(mr_run *r)
{
    int wanted = in_int(r, 0), met = 0;
    int64_t until = mr_now_ns() + atomic_load(&fixture_meet_patience_ns);
    bool left = false;
    mr_lock(meet_mu());
    n_meeting++;
    fixture_last_meeting_thread = pthread_self();
    mr_unlock(meet_mu());
    while (!left) { /* whoever sees all of them leaves, and the others follow by the count that went up */
        mr_lock(meet_mu());
        met = n_meeting;
        mr_unlock(meet_mu());
        left = met >= wanted || mr_now_ns() > until || mr_cancel_started(r->step->cancel);
        if (!left)
            mr_sleep_ns(20000);
    }
    return put_int(r, MR_MIN(met, wanted));
}

/* Always long enough to be worth another thread, as the executor learns from what it measures. */
static mr_status *run_meet_computing(mr_run *r)
{
    int64_t end = mr_now_ns() + 100000;
    while (mr_now_ns() < end)
        ;
    return run_meet(r);
}

void fixture_meet_again(void)
{
    mr_lock(meet_mu());
    n_meeting = 0;
    mr_unlock(meet_mu());
}

/* A reference to a variable named by the node, in the device's resources. */
static mr_status *make_variable(void *ctx, mr_object **out)
{
    *out = &mr_variable_new(true, MR_INT32, ctx)->base;
    return NULL;
}

static mr_status *run_variable(mr_run *r)
{
    mr_object *o = NULL;
    char *name = (char *)(uintptr_t)r->node->name;
    MR_TRY(mr_resources_find_or_make(r->step->device->resources, MR_SV(""), mr_sv_of(name),
                                     &mr_ref_variable_type, make_variable, name, &o));
    mr_run_set_ref(r, 0, (mr_variable *)o);
    return NULL;
}

static mr_status *run_assign(mr_run *r)
{
    mr_variable *v = mr_in_ref(r, 0);
    mr_lock(&v->mu);
    mr_tensor *old = v->t;
    v->t = mr_tensor_ref(mr_in(r, 1));
    mr_unlock(&v->mu);
    mr_tensor_unref(old);
    mr_run_pass(r, 0, 0);
    return NULL;
}

/* Counts its runs in its state: shows whether kernels are shared. */
static mr_status *run_stateful(mr_run *r)
{
    return put_int(r, atomic_fetch_add((_Atomic int *)r->state, 1));
}

#define ONE_KERNEL(fn) ((const mr_kernel[]){{"CPU", 0, fn}, {0}})
#define ASYNC_KERNEL(fn) ((const mr_kernel[]){{"CPU", 0, NULL, fn}, {0}})

static const mr_op ops[] = {
    {.name = "TestConst",
     .sig = "-> o: int32",
     .attrs = "value: int",
     .kernels = ONE_KERNEL(run_const)},
    {.name = "TestAdd",
     .sig = "a: int32, b: int32 -> o: int32",
     .flags = MR_CHEAP,
     .kernels = ONE_KERNEL(run_add)},
    {.name = "TestLess",
     .sig = "a: int32, b: int32 -> o: bool",
     .flags = MR_CHEAP,
     .kernels = ONE_KERNEL(run_less)},
    {.name = "TestFail", .sig = "a: int32 -> o: int32", .kernels = ONE_KERNEL(run_fail)},
    {.name = "TestCount", .sig = "a: int32 -> o: int32", .kernels = ONE_KERNEL(run_count)},
    {.name = "TestFrame", .sig = "a: int32 -> o: int32", .kernels = ONE_KERNEL(run_frame)},
    {.name = "TestSpin", .sig = "a: int32 -> o: int32", .kernels = ONE_KERNEL(run_spin)},
    {.name = "TestBadType", .sig = "a: int32 -> o: int32", .kernels = ONE_KERNEL(run_bad_type)},
    {.name = "TestNoOutput", .sig = "a: int32 -> o: int32", .kernels = ONE_KERNEL(run_no_output)},
    {.name = "TestNow", .sig = "a: int32 -> o: int32", .kernels = ASYNC_KERNEL(run_now)},
    {.name = "TestHold", .sig = "a: int32 -> o: int32", .kernels = ASYNC_KERNEL(run_hold)},
    {.name = "TestMeet", .sig = "a: int32 -> o: int32", .flags = MR_BLOCKS, .kernels = ONE_KERNEL(run_meet)},
    {.name = "TestMeetComputing", .sig = "a: int32 -> o: int32", .kernels = ONE_KERNEL(run_meet_computing)},
    {.name = "TestVariable",
     .sig = "-> o: Ref(int32)",
     .flags = MR_STATEFUL,
     .kernels = ONE_KERNEL(run_variable)},
    {.name = "TestAssign",
     .sig = "v: Ref(int32), x: int32 -> o: Ref(int32)",
     .flags = MR_UNINIT_OK,
     .kernels = ONE_KERNEL(run_assign)},
    {.name = "TestStateful",
     .sig = "-> o: int32",
     .flags = MR_STATEFUL,
     .state_bytes = sizeof(int),
     .kernels = ONE_KERNEL(run_stateful)},
};

static void register_ops(void)
{
    static bool registered;
    if (registered)
        return;
    registered = true;
    mr_ops_register();
    for (int i = 0; i < MR_COUNT(ops); i++)
        MR_CHECK_OK(mr_op_register(&ops[i]));
}

/* ---- the rig ---- */

void fixture_init(fixture *r, int n_threads)
{
    register_ops();
    *r = (fixture){.g = mr_graph_new(), .cancel = mr_cancel_new(NULL)};
    if (n_threads)
        MR_CHECK_OK(mr_pool_new("rig", n_threads, &r->pool));
    MR_CHECK_OK(
        mr_device_new_cpu("/job:localhost/replica:0/task:0/device:CPU:0", r->pool, &r->device));
}

void fixture_deinit(fixture *r)
{
    mr_program_free(r->program);
    mr_graph_unref(r->g);
    mr_device_free(r->device);
    mr_cancel_free(r->cancel);
    mr_pool_free(r->pool);
}

mr_out fixture_node(fixture *r, const char *op, const char *name, const mr_named_attr *attrs, int n_attrs,
                const mr_out *in, int n_in)
{
    mr_node_builder *b = mr_node_begin(r->g, op, name ? name : mr_graph_unique_name(r->g, op));
    mr_nb_internal(b);
    for (int i = 0; i < n_attrs; i++)
        mr_nb_attr(b, attrs[i].name, attrs[i].v);
    for (int i = 0; i < n_in; i++)
        if (in[i].index < 0)
            mr_nb_control(b, in[i].node);
        else
            mr_nb_input(b, in[i]);
    mr_node *n;
    MR_CHECK_OK(mr_node_finish(b, &n));
    return (mr_out){n, 0};
}

mr_out fixture_const(fixture *r, int v)
{
    return fixture_node(r, "TestConst", NULL, MR_ATTRS({"value", mr_a_int(v)}), NULL, 0);
}

mr_out fixture_arg(fixture *r, int index)
{
    r->n_args = MR_MAX(r->n_args, index + 1);
    return fixture_node(r, "_Arg", NULL,
                    MR_ATTRS({"index", mr_a_int(index)}, {"T", mr_a_type(MR_INT32)}), NULL, 0);
}

void fixture_ret(fixture *r, int index, mr_out v)
{
    r->n_rets = MR_MAX(r->n_rets, index + 1);
    fixture_node(r, "_Retval", NULL, MR_ATTRS({"index", mr_a_int(index)}), &v, 1);
}

mr_out fixture_merge(fixture *r, mr_out a, mr_out b)
{
    mr_node_builder *nb = mr_node_begin(r->g, "Merge", mr_graph_unique_name(r->g, "Merge"));
    mr_nb_input_list(nb, (mr_out[]){a, b}, 2);
    mr_node *n;
    MR_CHECK_OK(mr_node_finish(nb, &n));
    return (mr_out){n, 0};
}

mr_out fixture_enter(fixture *r, mr_out v, const char *frame, bool constant, int parallel)
{
    return fixture_node(r, "Enter", NULL,
                    MR_ATTRS({"frame_name", mr_a_str(frame)}, {"is_constant", mr_a_bool(constant)},
                             {"parallel_iterations", mr_a_int(parallel)}),
                    &v, 1);
}

mr_out fixture_loop_merge(fixture *r, mr_out enter)
{
    return fixture_merge(r, enter, enter); /* fixture_close puts the right one in */
}

void fixture_close(mr_out merge, mr_out next) { MR_CHECK_OK(mr_node_set_input(merge.node, 1, next)); }

static void finished(mr_flow *f) { mr_runner_finish(f->runner); }

static mr_status *make_program(fixture *r)
{
    if (r->program)
        return NULL;
    mr_graph *parts[1];
    MR_TRY(mr_graph_copy(r->g, NULL, &parts[0], NULL));
    return mr_program_new(parts, &r->device, 1, r->n_args, r->n_rets, NULL, NULL, &r->program);
}

static void run_flow(fixture *r, mr_flow *f)
{
    f->deadline_ns = r->timeout_ms ? mr_now_ns() + r->timeout_ms * 1000000 : 0;
    f->trace = r->trace;
    mr_runner_reset(&f->own_runner, r->pool, r->pool, true);
    mr_flow_start(f, &(mr_flow_start_args){&f->own_runner, r->cancel, NULL, finished, NULL});
    if (!mr_runner_wait(&f->own_runner, f->deadline_ns)) {
        mr_flow_fail(f, mr_error(MR_DEADLINE_EXCEEDED, "Timed out waiting for notification"));
        mr_runner_wait(&f->own_runner, 0);
    }
    f->trace = NULL;
}

mr_status *fixture_run(fixture *r, const int *args, int *rets)
{
    mr_flow *f = NULL;
    mr_tensor *values[8] = {0};
    MR_TRY(make_program(r));
    for (int i = 0; i < r->n_args; i++)
        values[i] = mr_tensor_scalar_i32(args[i]);
    mr_memory_fail_after(r->refused);
    mr_status *st = mr_program_take(r->program, &f);
    if (!st) {
        for (int i = 0; i < r->n_args; i++)
            f->args[i] = (mr_value){.t = values[i], .kind = MR_LIVE};
        run_flow(r, f);
        st = mr_flow_take_status(f);
        for (int i = 0; i < r->n_rets; i++) {
            rets[i] = f->rets[i].kind == MR_LIVE ? *MR_DATA(int32_t, f->rets[i].t) : -1;
            r->last_kind[i] = f->rets[i].kind;
        }
        mr_program_give(f);
    }
    mr_memory_fail_after(0);
    for (int i = 0; i < r->n_args; i++)
        mr_tensor_unref(values[i]);
    return st;
}

int fixture_run1(fixture *r, int arg)
{
    int rets[8] = {0}, args[8] = {arg};
    MR_CHECK_OK(fixture_run(r, args, rets));
    return rets[0];
}
