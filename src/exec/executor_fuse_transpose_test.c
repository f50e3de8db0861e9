/* exec/executor_fuse_transpose_test.c -- passes/fuse_transpose.c: attention with its heads, flags of MatMul, and what stays. */
#include "base/memory.h"
#include "exec/fuse_fixture.h"

typedef mr_fuse_fixture net;

enum { BATCH = 2, LENGTH = 5, HEADS = 3, DEPTH = 4 };

static mr_out transpose(net *n, mr_out x, int rank, const int32_t *perm)
{
    return mr_emit(&n->s, "Transpose", x, mr_const_vec_i32(&n->s, rank, perm));
}

static mr_out product(net *n, const char *op, mr_out x, mr_out y, bool adj_x, bool adj_y)
{
    return mr_emit_with(&n->s, op, MR_ATTRS({"adj_x", mr_a_bool(adj_x)}, {"adj_y", mr_a_bool(adj_y)}), x, y);
}

/* Softmax of q k^T, times v, with the heads beside each other again. */
static mr_out attend(net *n, const char *op, mr_out q, mr_out k, mr_out v)
{
    mr_out p = mr_emit(&n->s, "Softmax", product(n, op, q, k, false, true));
    return transpose(n, product(n, op, p, v, false, false), 4, (int32_t[]){0, 2, 1, 3});
}

MR_TEST(fuse_transpose_reads_heads_of_three_tensors_in_place)
{
    static const char *const ops[] = {"BatchMatMul", "BatchMatMulV2"};
    for (int i = 0; i < 4; i++) {
        net n;
        mr_fuse_fixture_init(&n);
        mr_out x[3], y;
        for (int k = 0; k < 3; k++)
            x[k] = mr_fuse_fixture_input(&n, 4, (int64_t[]){BATCH, LENGTH, HEADS, DEPTH}, -1, 1, true);
        mr_out heads[3];
        for (int k = 0; k < 3; k++)
            heads[k] = transpose(&n, x[k], 4, (int32_t[]){0, 2, 1, 3});
        y = attend(&n, ops[i % 2], heads[0], heads[1], heads[2]);
        mr_out fetches[5] = {y, MR_NO_OUT, heads[0]};
        fetches[1] = mr_fuse_fixture_gradient(&n, y, x[i % 3]);
        MR_CHECK_INT(mr_fuse_fixture_count(&n, fetches, 1, "Transpose"), 0);
        MR_CHECK_INT(mr_fuse_fixture_count(&n, fetches, 2, "Transpose"), 0);
        MR_CHECK_INT(mr_fuse_fixture_count(&n, fetches, 2, ops[i % 2]), 0);
        MR_CHECK_INT(mr_fuse_fixture_count(&n, fetches, 3, "Transpose"), 1); /* one is fetched */
        mr_fuse_fixture_check(&n, fetches, 2);
        mr_fuse_fixture_check(&n, fetches, 3);
        mr_fuse_fixture_deinit(&n);
    }
}

MR_TEST(fuse_transpose_reads_parts_of_one_tensor_in_place)
{
    net n;
    mr_fuse_fixture_init(&n);
    mr_out x = mr_fuse_fixture_input(&n, 5, (int64_t[]){BATCH, LENGTH, 3, HEADS, DEPTH}, -1, 1, true);
    mr_out parts = mr_emit_with(&n.s, "Unpack", MR_ATTRS({"num", mr_a_int(3)}, {"axis", mr_a_int(0)}),
                                transpose(&n, x, 5, (int32_t[]){2, 0, 3, 1, 4}));
    mr_out y = attend(&n, "BatchMatMulV2", mr_nth(parts, 0), mr_nth(parts, 1), mr_nth(parts, 2));
    mr_out fetches[2] = {y, mr_fuse_fixture_gradient(&n, y, x)};
    MR_CHECK_INT(mr_fuse_fixture_count(&n, fetches, 1, "Transpose"), 0);
    MR_CHECK_INT(mr_fuse_fixture_count(&n, fetches, 1, "Unpack"), 0);
    MR_CHECK_INT(mr_fuse_fixture_count(&n, fetches, 2, "Transpose"), 1); /* of the packed gradients */
    mr_fuse_fixture_check(&n, fetches, 2);
    mr_fuse_fixture_deinit(&n);
}

static void shuffle(net *n, int rank, int32_t *perm)
{
    for (int i = 0; i < rank; i++)
        perm[i] = i;
    for (int i = rank - 1; i > 0; i--) {
        n->seed = n->seed * 1664525 + 1013904223;
        int k = (int)(n->seed >> 8) % (i + 1);
        int32_t old = perm[i];
        perm[i] = perm[k];
        perm[k] = old;
    }
}

/* Any order of dimensions, both flags, broadcasting, and sizes of 0 and 1. */
MR_TEST(fuse_transpose_agrees_for_random_orders_and_shapes)
{
    for (int round = 0; round < 200; round++) {
        net n;
        mr_fuse_fixture_init(&n);
        n.seed = (uint32_t)(round * 7919 + 1);
        static const int64_t sizes[] = {1, 2, 3, 7, 17, 33, 0, 4};
        bool adj_x = round & 1, adj_y = round & 2, v2 = round & 4;
        int rank = 2 + round % 3;
        int64_t size[5], seen[2][4], stored[2][4];
        int32_t perm[3][4];
        for (int i = 0; i < 5; i++) {
            n.seed = n.seed * 1664525 + 1013904223;
            size[i] = sizes[(n.seed >> 16) % (round % 5 == 0 ? 8 : 6)]; /* m, k, n, batches */
        }
        for (int i = 0; i < 2; i++) {
            int64_t rows = i ? size[1] : size[0], cols = i ? size[2] : size[1];
            bool adj = i ? adj_y : adj_x;
            for (int d = 0; d < rank - 2; d++)
                seen[i][d] = v2 && i && round % 7 == 0 ? 1 : size[3 + d];
            seen[i][rank - 2] = adj ? cols : rows;
            seen[i][rank - 1] = adj ? rows : cols;
            shuffle(&n, rank, perm[i]);
            for (int d = 0; d < rank; d++)
                stored[i][perm[i][d]] = seen[i][d];
        }
        mr_out x = transpose(&n, mr_fuse_fixture_input(&n, rank, stored[0], -1, 1, round % 3), rank, perm[0]);
        mr_out y = transpose(&n, mr_fuse_fixture_input(&n, rank, stored[1], -1, 1, round % 3), rank, perm[1]);
        shuffle(&n, rank, perm[2]);
        mr_out z = transpose(&n, product(&n, v2 ? "BatchMatMulV2" : "BatchMatMul", x, y, adj_x, adj_y), rank, perm[2]);
        mr_fuse_fixture_check(&n, &z, 1);
        mr_fuse_fixture_deinit(&n);
    }
}

MR_TEST(fuse_transpose_changes_the_flags_of_matmul)
{
    for (int i = 0; i < 4; i++) {
        net n;
        mr_fuse_fixture_init(&n);
        bool ta = i & 1, tb = i & 2;
        mr_out x = mr_fuse_fixture_input(&n, 2, ta ? (int64_t[]){6, 9} : (int64_t[]){9, 6}, -1, 1, true);
        mr_out y = mr_fuse_fixture_input(&n, 2, tb ? (int64_t[]){9, 7} : (int64_t[]){7, 9}, -1, 1, true);
        const int32_t turn[2] = {1, 0};
        mr_out z = mr_emit_with(&n.s, "MatMul", MR_ATTRS({"transpose_a", mr_a_bool(ta)}, {"transpose_b", mr_a_bool(tb)}),
                                transpose(&n, x, 2, turn), transpose(&n, y, 2, turn));
        MR_CHECK_INT(mr_fuse_fixture_count(&n, &z, 1, "Transpose"), 0);
        mr_fuse_fixture_check(&n, &z, 1);
        mr_fuse_fixture_deinit(&n);
    }
}

MR_TEST(fuse_transpose_reports_the_same_errors)
{
    net n;
    mr_fuse_fixture_init(&n);
    mr_out x = mr_fuse_fixture_input(&n, 3, (int64_t[]){2, 3, 4}, -1, 1, false);
    mr_out y = mr_fuse_fixture_input(&n, 3, (int64_t[]){2, 5, 4}, -1, 1, false);
    mr_out z = product(&n, "BatchMatMulV2", transpose(&n, x, 3, (int32_t[]){0, 2, 1}), y, false, false);
    mr_tensor *out = NULL;
    for (int i = 0; i < 2; i++)
        MR_CHECK_ERR(mr_fuse_fixture_run(&n, i, &z, 1, &out), MR_INVALID_ARGUMENT,
                     "Matrix size-incompatible: In[0]: [2,4,3], In[1]: [2,5,4]");
    mr_fuse_fixture_deinit(&n);
}
