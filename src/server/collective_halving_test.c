/* server/collective_halving_test.c -- all-reduce by halving and in a ring: any number of members gets what one process would
 * compute, and which way is taken when. */
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "ops/collective/combine.h"
#include "server/cluster_fixture.h"
#include "server/collective_moves.h"
#include "wire/pb.h"

enum { TASKS = 3, DEVICES = 6, MOST = 17 }; /* members are devices of few tasks: 17 of 18 */

/* Tasks of DEVICES devices each. */
static void begin(cluster_fixture *b, const char *algorithm)
{
    mr_str config = {0};
    mr_pb_writer w;
    setenv("MILLRACE_COLLECTIVE_ALGORITHM", algorithm, 1);
    setenv("MILLRACE_COLLECTIVE_CHUNK", "4096", 1);
    mr_pb_writer_init(&w, &config);
    size_t count = mr_pb_begin(&w, 1); /* device_count { CPU: 6 } */
    mr_pb_put_bytes(&w, 1, MR_SV("CPU"));
    mr_pb_put_varint(&w, 2, DEVICES);
    mr_pb_end(&w, count);
    cluster_fixture_begin(b, 0, 0);
    b->task_config = mr_str_view(&config);
    for (int i = 0; i < TASKS; i++) {
        char *address = mr_printf("worker%d:1", i);
        MR_CHECK_OK(mr_cluster_add(&b->cluster, MR_SV("worker"), i, mr_sv_of(address)));
        mr_free(address);
    }
    for (b->n = 0; b->n < TASKS; b->n++)
        cluster_fixture_start_task(b, b->n);
    b->task_config = MR_SV("");
    mr_str_deinit(&config);
}

/* The same tasks with an empty graph. */
static void begin_graph(cluster_fixture *b)
{
    cluster_fixture_end_session(b);
    mr_scope_deinit(&b->s);
    mr_graph_unref(b->g);
    b->g = mr_graph_new();
    mr_scope_init(&b->s, b->g, "");
}

/* ---- what is reduced ---- */

typedef struct sum {
    mr_dtype type;
    mr_merge merge;
    bool mean;
    int64_t elements;
} sum;

static const char *const merges[] = {"Add", "Mul", "Max", "Min"};

/* A number that every type holds exactly, and with it all that becomes of it; products are powers of two. */
static double number(const sum *s, int member, int64_t i)
{
    return s->merge == MR_MERGE_MUL ? ((member + i) % 5 == 0 ? 2 : 1) : (double)((member * 3 + i) % 8);
}

static mr_tensor *input(const sum *s, int member)
{
    mr_tensor *t;
    MR_CHECK_OK(mr_tensor_new(NULL, s->type, 1, &s->elements, &t));
    for (int64_t i = 0; i < s->elements; i++) {
        double v = number(s, member, i);
        switch (s->type) {
        case MR_HALF: MR_DATA(mr_half, t)[i] = mr_float_to_half((float)v); break;
        case MR_BFLOAT16: MR_DATA(mr_bf16, t)[i] = mr_float_to_bf16((float)v); break;
        case MR_FLOAT: MR_DATA(float, t)[i] = (float)v; break;
        case MR_DOUBLE: MR_DATA(double, t)[i] = v; break;
        case MR_INT32: MR_DATA(int32_t, t)[i] = (int32_t)v; break;
        default: MR_DATA(int64_t, t)[i] = (int64_t)v;
        }
    }
    return t;
}

/* Member `rank` of n; takes the tensor. */
static mr_out reduce(cluster_fixture *b, const sum *s, int n, int rank, int instance, const char *hint, mr_tensor *in)
{
    char device[64];
    mr_named_attr attrs[] = {{"merge_op", mr_a_str(merges[s->merge])}, {"final_op", mr_a_str(s->mean ? "Div" : "Id")},
                             {"Nordering_token", mr_a_int(0)}, {"communication_hint", mr_a_str(hint)}};
    snprintf(device, sizeof device, "/job:worker/task:%d/device:CPU:%d", rank / DEVICES, rank % DEVICES);
    b->s.device = mr_arena_strdup(&b->g->arena, device);
    mr_out ins[] = {mr_const(&b->s, in), mr_const_i32(&b->s, n), mr_const_i32(&b->s, n), mr_const_i32(&b->s, instance)};
    return mr_emit_n(&b->s, "CollectiveReduceV2", attrs, 4, ins, 4);
}

static void run(cluster_fixture *b, const mr_out *outs, int n, mr_tensor **got)
{
    MR_CHECK_OK(mr_session_run(cluster_fixture_session_of(b), &(mr_run_args){.fetches = outs, .fetched = got, .n_fetches = n}, NULL, NULL));
}

/* As ops/collective/combine.c computes it, in one place. */
static void check_result(const sum *s, int n, mr_tensor *const *got)
{
    mr_tensor *in[MOST] = {NULL}, *want[MOST] = {NULL};
    mr_collective_call call = {.kind = MR_ALL_REDUCE, .merge = s->merge, .mean = s->mean, .type = s->type};
    for (int i = 0; i < n; i++)
        in[i] = input(s, i);
    MR_CHECK_OK(mr_collective_combine(&call, n, (const mr_tensor *const *)in, want));
    for (int i = 0; i < n; i++) {
        MR_CHECK_INT(got[i]->n, s->elements);
        MR_CHECK_INT(got[i]->dtype, s->type);
        MR_CHECK(!s->elements || memcmp(got[i]->data, want[i]->data, mr_tensor_bytes(want[i])) == 0);
        mr_tensor_unref(in[i]);
        mr_tensor_unref(want[i]);
    }
}

/* ---- any number of members ---- */

/* Sizes that leave members without a part, that fill parts of a chunk, and that are several chunks. */
static const int64_t sizes[] = {1, 0, 2, 3, 7, 16, 17, 18, 1000, 3001};

/* Every third of all types and ways to merge, with other sizes: those of three numbers of members are all. */
static int sums_of(int members, sum *out)
{
    static const mr_dtype types[] = {MR_HALF, MR_BFLOAT16, MR_FLOAT, MR_DOUBLE, MR_INT32, MR_INT64};
    int n = 0;
    for (int i = members % 3; i < 5 * MR_COUNT(types); i += 3) {
        int how = i / MR_COUNT(types);
        out[n] = (sum){types[i % MR_COUNT(types)], how < 4 ? (mr_merge)how : MR_MERGE_ADD, how == 4,
                       sizes[(n + members) % MR_COUNT(sizes)]};
        n++;
    }
    return n;
}

static void check_members(cluster_fixture *b, int n)
{
    sum sums[10];
    mr_out outs[10 * MOST];
    mr_tensor *got[10 * MOST];
    int k = sums_of(n, sums);
    begin_graph(b);
    for (int i = 0; i < k * n; i++)
        outs[i] = reduce(b, &sums[i / n], n, i % n, i / n, "auto", input(&sums[i / n], i % n));
    run(b, outs, k * n, got);
    for (int i = 0; i < k; i++)
        check_result(&sums[i], n, got + i * n);
    for (int i = 0; i < k * n; i++)
        mr_tensor_unref(got[i]);
}

static void check_all_members(const char *algorithm)
{
    cluster_fixture b;
    begin(&b, algorithm);
    for (int n = 2; n <= MOST; n++)
        check_members(&b, n);
    cluster_fixture_end(&b);
}

MR_TEST(server_collective_by_halving_gives_2_to_17_members_what_one_would_compute) { check_all_members("halving"); }
MR_TEST(server_collective_in_a_ring_gives_2_to_17_members_what_one_would_compute) { check_all_members("ring"); }
MR_TEST(server_collective_among_few_gives_2_to_17_members_what_one_would_compute) { check_all_members("direct"); }

/* Where the order of adding matters all have the same bits, and again in the next run. */
static void check_bits(cluster_fixture *b, int n)
{
    mr_out outs[MOST];
    mr_tensor *got[MOST], *first = NULL;
    sum s = {MR_FLOAT, MR_MERGE_ADD, true, 2500};
    begin_graph(b);
    for (int i = 0; i < n; i++) {
        mr_tensor *in = input(&s, i);
        for (int64_t k = 0; k < in->n; k++)
            MR_DATA(float, in)[k] = 1.0f / (float)(k + 1 + 7 * i);
        outs[i] = reduce(b, &s, n, i, 1, "auto", in);
    }
    for (int round = 0; round < 3; round++) {
        run(b, outs, n, got);
        if (!first)
            first = mr_tensor_ref(got[0]);
        for (int i = 0; i < n; i++) {
            MR_CHECK(memcmp(first->data, got[i]->data, mr_tensor_bytes(first)) == 0);
            mr_tensor_unref(got[i]);
        }
    }
    mr_tensor_unref(first);
}

MR_TEST(server_collective_by_halving_gives_all_the_same_bits)
{
    cluster_fixture b;
    begin(&b, "halving");
    check_bits(&b, 4);
    check_bits(&b, 7);
    check_bits(&b, MOST);
    cluster_fixture_end(&b);
}

/* ---- which way ---- */

static mr_group_algorithm chosen(mr_collectives *c, int n, int64_t elements, bool ring)
{
    mr_tensor *in;
    mr_cgroup g = {.n = n};
    MR_CHECK_OK(mr_tensor_new(NULL, MR_HALF, 1, &elements, &in));
    mr_exchange x = {.all = c, .group = &g, .call = {.kind = MR_ALL_REDUCE, .in = in, .type = MR_HALF, .ring = ring}};
    mr_group_algorithm a = mr_x_choose(&x);
    x.call.kind = MR_REDUCE_SCATTER;
    MR_CHECK_INT(mr_x_choose(&x), MR_GROUP_DIRECT);
    mr_tensor_unref(in);
    return a;
}

MR_TEST(server_collective_goes_by_members_and_bytes_unless_it_is_told_how)
{
    mr_collectives c = {.ring_from = 9};
    int64_t few = MR_X_HALVING_BYTES / 2 * 9, many = few + 9; /* of two bytes: as much as halving takes, and more */
    MR_CHECK_INT(chosen(&c, 8, many, false), MR_GROUP_DIRECT);
    MR_CHECK_INT(chosen(&c, 9, few, false), MR_GROUP_HALVING);
    MR_CHECK_INT(chosen(&c, 9, 0, false), MR_GROUP_HALVING);
    MR_CHECK_INT(chosen(&c, 9, many, false), MR_GROUP_RING);
    MR_CHECK_INT(chosen(&c, 2, 1, true), MR_GROUP_RING);
    c.algorithm = MR_GROUP_HALVING;
    MR_CHECK_INT(chosen(&c, 2, many, true), MR_GROUP_HALVING);
}

/* Member i of two of a communicator whose hint this is. */
static mr_out reduce_v3(cluster_fixture *b, const sum *s, int i, const char *hint)
{
    mr_tensor *parts;
    b->s.device = i ? "/job:worker/task:1/device:CPU:0" : "/job:worker/task:0/device:CPU:0";
    MR_CHECK_OK(mr_tensor_new(NULL, MR_INT32, 2, (int64_t[]){1, 2}, &parts));
    memcpy(parts->data, (const int32_t[]){0, 1}, 8);
    mr_out c = mr_emit_with(&b->s, "CollectiveInitializeCommunicator", MR_ATTRS({"communication_hint", mr_a_str(hint)}),
                            mr_const_i32(&b->s, 5), mr_const_i32(&b->s, i), mr_const_i32(&b->s, 2));
    return mr_emit_with(&b->s, "CollectiveReduceV3", MR_ATTRS({"reduction", mr_a_str("Add")}), mr_const(&b->s, input(s, i)), c,
                        mr_const(&b->s, parts));
}

/* The first of two asks for a ring, the other as it is told. */
static mr_status *run_two(cluster_fixture *b, const char *hint, bool v3)
{
    mr_out outs[2];
    mr_tensor *got[2] = {NULL, NULL};
    sum s = {MR_FLOAT, MR_MERGE_ADD, false, 5};
    begin_graph(b);
    for (int i = 0; i < 2; i++)
        outs[i] = v3 ? reduce_v3(b, &s, i, i ? hint : "ring") : reduce(b, &s, 2, i, 1, i ? hint : "ring", input(&s, i));
    mr_status *st = mr_session_run(cluster_fixture_session_of(b), &(mr_run_args){.fetches = outs, .fetched = got, .n_fetches = 2}, NULL, NULL);
    if (!st)
        check_result(&s, 2, got);
    mr_tensor_unref(got[0]);
    mr_tensor_unref(got[1]);
    return st;
}

MR_TEST(server_collective_hint_of_a_ring_is_followed_and_members_must_agree_on_it)
{
    cluster_fixture b;
    begin(&b, "auto");
    for (int v3 = 0; v3 < 2; v3++) {
        mr_status *st = run_two(&b, "nccl", v3);
        MR_CHECK(st && strstr(mr_status_message(st), "all-reduce float add [5] in a ring"));
        mr_status_free(st);
        MR_CHECK_OK(run_two(&b, "ring", v3));
    }
    cluster_fixture_end(&b);
}
