#include "base/memory.h"
#include "run/rendezvous.h"
#include "tests/harness/test.h"

#define CPU0 MR_SV("/job:localhost/replica:0/task:0/device:CPU:0")
#define CPU1 MR_SV("/job:localhost/replica:0/task:0/device:CPU:1")

typedef struct receiver {
    mr_recv w;
    int calls;
    mr_status *st;
    mr_tensor *t;
    bool dead;
} receiver;

static void received(mr_recv *w, mr_status *st, mr_tensor *t, bool dead)
{
    receiver *r = (receiver *)w;
    r->calls++;
    r->st = st;
    r->t = t;
    r->dead = dead;
}

static mr_rendezvous_key key_of(const char *name)
{
    mr_rendezvous_key k;
    MR_CHECK_OK(mr_rendezvous_key_make(CPU0, 0x1234, CPU1, mr_sv_of(name), &k));
    return k;
}

static float value_of(const receiver *r) { return *MR_DATA(float, r->t); }

MR_TEST(rendezvous_meets_in_either_order)
{
    mr_rendezvous *z = mr_rendezvous_new();
    mr_rendezvous_key k = key_of("edge_1_a"), other = key_of("edge_2_b");
    receiver first = {{received, &k}}, second = {{received, &other}};
    mr_rendezvous_recv(z, &first.w);
    MR_CHECK_INT(first.calls, 0);
    MR_CHECK_OK(mr_rendezvous_send(z, &other, 0, 0, mr_tensor_scalar_f32(2), false));
    MR_CHECK_INT(first.calls, 0);
    MR_CHECK_OK(mr_rendezvous_send(z, &k, 0, 0, mr_tensor_scalar_f32(1), false));
    MR_CHECK_INT(first.calls, 1);
    mr_rendezvous_recv(z, &second.w);
    MR_CHECK_INT(second.calls, 1);
    MR_CHECK_NEAR(value_of(&first), 1, 0);
    MR_CHECK_NEAR(value_of(&second), 2, 0);
    mr_tensor_unref(first.t);
    mr_tensor_unref(second.t);
    mr_rendezvous_key_deinit(&k);
    mr_rendezvous_key_deinit(&other);
    mr_rendezvous_unref(z);
}

MR_TEST(rendezvous_tells_iterations_apart)
{
    mr_rendezvous *z = mr_rendezvous_new();
    mr_rendezvous_key k = key_of("edge_1_a");
    enum { N = 200 }; /* more than the buckets there are at first */
    for (int i = 0; i < N; i++)
        MR_CHECK_OK(mr_rendezvous_send(z, &k, 7, i, mr_tensor_scalar_f32((float)i), false));
    for (int i = N - 1; i >= 0; i--) {
        receiver r = {{received, &k, 7, i}};
        mr_rendezvous_recv(z, &r.w);
        MR_CHECK_INT(r.calls, 1);
        MR_CHECK_NEAR(value_of(&r), i, 0);
        mr_tensor_unref(r.t);
    }
    mr_rendezvous_key_deinit(&k);
    mr_rendezvous_unref(z);
}

MR_TEST(rendezvous_serves_one_key_in_order)
{
    mr_rendezvous *z = mr_rendezvous_new();
    mr_rendezvous_key k = key_of("edge_1_a");
    for (int i = 0; i < 3; i++)
        MR_CHECK_OK(mr_rendezvous_send(z, &k, 0, 0, mr_tensor_scalar_f32((float)i), false));
    for (int i = 0; i < 3; i++) {
        receiver r = {{received, &k}};
        mr_rendezvous_recv(z, &r.w);
        MR_CHECK_NEAR(value_of(&r), i, 0);
        mr_tensor_unref(r.t);
    }
    mr_rendezvous_key_deinit(&k);
    mr_rendezvous_unref(z);
}

MR_TEST(rendezvous_carries_deadness)
{
    mr_rendezvous *z = mr_rendezvous_new();
    mr_rendezvous_key k = key_of("edge_1_a");
    receiver r = {{received, &k}};
    mr_rendezvous_recv(z, &r.w);
    MR_CHECK_OK(mr_rendezvous_send(z, &k, 0, 0, NULL, true));
    MR_CHECK(r.dead && !r.t);
    mr_rendezvous_key_deinit(&k);
    mr_rendezvous_unref(z);
}

MR_TEST(rendezvous_abort_fails_waiting_and_future_halves)
{
    mr_rendezvous *z = mr_rendezvous_new();
    mr_rendezvous_key k = key_of("edge_1_a"), other = key_of("edge_2_b");
    receiver waiting = {{received, &k}}, later = {{received, &k}};
    MR_CHECK_OK(mr_rendezvous_send(z, &other, 0, 0, mr_tensor_scalar_f32(1), false));
    mr_rendezvous_recv(z, &waiting.w);
    mr_status *why = mr_error(MR_ABORTED, "worker lost");
    mr_rendezvous_abort(z, why);
    mr_status_free(why);
    MR_CHECK_INT(waiting.calls, 1);
    MR_CHECK(mr_status_is_derived(waiting.st));
    MR_CHECK_ERR(waiting.st, MR_ABORTED, "worker lost");
    mr_rendezvous_recv(z, &later.w);
    MR_CHECK_ERR(later.st, MR_ABORTED, "worker lost");
    MR_CHECK_ERR(mr_rendezvous_send(z, &k, 0, 0, mr_tensor_scalar_f32(1), false), MR_ABORTED,
                 "worker lost");
    mr_rendezvous_reset(z);
    receiver again = {{received, &other}};
    mr_rendezvous_recv(z, &again.w);
    MR_CHECK_INT(again.calls, 0); /* the old value is gone */
    MR_CHECK_OK(mr_rendezvous_send(z, &other, 0, 0, mr_tensor_scalar_f32(3), false));
    MR_CHECK_NEAR(value_of(&again), 3, 0);
    mr_tensor_unref(again.t);
    mr_rendezvous_key_deinit(&k);
    mr_rendezvous_key_deinit(&other);
    mr_rendezvous_unref(z);
}

MR_TEST(rendezvous_key_reads_what_travels)
{
    mr_rendezvous_key k;
    uint64_t frame = 1;
    int64_t iteration = 1;
    MR_CHECK_OK(mr_rendezvous_key_parse(
        MR_SV("/job:ps/replica:0/task:0/device:CPU:0;00000000000000ff;/job:w/replica:0/task:1/"
              "device:CPU:0;x:0;18446744073709551615:7"),
        &k, &frame, &iteration));
    MR_CHECK(mr_sv_is(k.name, "x:0"));
    MR_CHECK(mr_sv_is(k.src_device, "/job:ps/replica:0/task:0/device:CPU:0"));
    MR_CHECK(mr_sv_is(k.dst_device, "/job:w/replica:0/task:1/device:CPU:0"));
    MR_CHECK(k.src_incarnation == 255 && frame == UINT64_MAX && iteration == 7);
    mr_rendezvous_key_deinit(&k);
}

MR_TEST(rendezvous_key_rejects_bad_ones)
{
    const char *bad[] = {"",
                         "a;b;c;d;0:0",
                         "/job:a;ff;/job:b;x;0:0",
                         "/job:a;00000000000000ff;/job:b;;0:0",
                         "/job:a;00000000000000ff;/job:b;x",
                         "/job:a;00000000000000ff;/job:b;x;0",
                         "/job:a;00000000000000ff;/job:b;x;0:0;y",
                         "/job:a;00000000000000FF;/job:b;x;0:0",
                         "/job:a;00000000000000ff;/job:b;x;18446744073709551616:0"};
    mr_rendezvous_key k;
    uint64_t frame;
    int64_t iteration;
    for (int i = 0; i < MR_COUNT(bad); i++)
        MR_CHECK_ERR(mr_rendezvous_key_parse(mr_sv_of(bad[i]), &k, &frame, &iteration),
                     MR_INVALID_ARGUMENT, "rendezvous key");
}
