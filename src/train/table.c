/* train/table.c -- sharded tables: which shard a row is in, gather and stitch, and losses over a sample of the rows.
 *
 *     ids -> Unique -> (shard, row in it) -> DynamicPartition
 *         -> ResourceGather on shard 0, ResourceGather on shard 1, ... -> ParallelDynamicStitch
 *
 * Only the gathers run on the devices of the shards, everything else where the ids are used.  Row numbers are int64,
 * because a table may have more rows than an int32 can count. */
#include "train/table.h"

#include "base/memory.h"
#include "train/replicas.h"

/* ---- making ---- */

/* How many rows a shard has. */
static int64_t rows_of(const mr_nn_table *t, int shard)
{
    int64_t each = t->rows / t->n_shards, extra = t->rows % t->n_shards;
    MR_ASSERT(shard >= 0 && shard < t->n_shards);
    return each + (shard < extra); /* the same for both ways to split */
}

/* Every shard must have a row, so there are at most as many shards as rows. */
static void check_table(mr_nn *n, const mr_nn_table *t, const char *name)
{
    if (t->rows < 1 || t->columns < 1 || t->n_shards < 1 || t->n_shards > t->rows || t->n_shards > 65536)
        mr_scope_fail(&n->s, mr_invalid("table '%s': %lld rows of %lld columns cannot be split into %d shards", name,
                                        (long long)t->rows, (long long)t->columns, t->n_shards));
    else if (t->split != MR_NN_MOD && t->split != MR_NN_DIV)
        mr_scope_fail(&n->s, mr_invalid("table '%s': unknown split %d", name, (int)t->split));
}

/* Records how a shard is split. Both ways give shards of the same shape, so reusing one the other way would give wrong
 * rows. */
static void mark_split(mr_nn *n, const mr_nn_table *t, const char *name, int shard)
{
    mr_nn_var *v = &n->vars.p[t->shards[shard]];
    if (v->split && v->split != 1 + (int)t->split)
        mr_scope_fail(&n->s, mr_invalid("table '%s' is reused with another split", name));
    v->split = 1 + (int)t->split;
}

/* Makes or reuses one variable for each shard. Without a count there is one shard for each parameter
 * server, but no more than rows. */
bool mr_nn_table_init(mr_nn *n, mr_nn_table *t, const char *name, int64_t rows, int64_t columns, int shards,
                       mr_nn_split split, mr_nn_init init)
{
    const char *saved;
    *t = (mr_nn_table){rows, columns, shards ? shards : n->replicas ? n->replicas->n_ps : 1, split, NULL};
    if (!shards)
        t->n_shards = (int)MR_MIN(t->n_shards, MR_MAX(1, rows));
    check_table(n, t, name);
    if (!mr_scope_ok(&n->s))
        return false;
    t->shards = mr_arena_array(&n->s.graph->arena, int, t->n_shards);
    mr_nn_enter(n, name, &saved);
    for (int i = 0; i < t->n_shards && mr_scope_ok(&n->s); i++) {
        const char *part = mr_arena_printf(&n->s.graph->arena, "part_%d", i);
        mr_out value = mr_nn_variable(n, part, MR_FLOAT, 2, (int64_t[]){rows_of(t, i), columns}, init, true);
        const mr_nn_var *v = mr_nn_find(n, value);
        t->shards[i] = v ? (int)(v - n->vars.p) : 0;
        if (v)
            mark_split(n, t, name, i);
    }
    mr_nn_leave(n, saved);
    return mr_scope_ok(&n->s);
}

/* ---- locating rows ---- */

static mr_out cast_to(mr_nn *n, mr_out x, mr_dtype to)
{
    return mr_scope_ok(&n->s) && mr_out_type(x) == (int)to ? x : mr_emit_with(&n->s, "Cast", MR_ATTRS({"DstT", mr_a_type(to)}), x);
}

/* A number outside the table becomes a row outside its shard, or a shard that does not exist; the op that gets it
 * reports that. */
static void locate_mod(mr_nn *n, const mr_nn_table *t, mr_out ids, mr_out *shard, mr_out *row)
{
    mr_out k = mr_const_i64(&n->s, t->n_shards);
    *shard = mr_emit(&n->s, "FloorMod", ids, k);
    *row = mr_emit(&n->s, "FloorDiv", ids, k);
}

/* If e rows remain, the first e shards have q + 1 rows and the others q; the larger of the two guesses
 * is right. A shard number outside the table is clamped to -1 or n_shards: as an int32, another one
 * might wrap to a valid shard. */
static void locate_div(mr_nn *n, const mr_nn_table *t, mr_out ids, mr_out *shard, mr_out *row)
{
    int64_t q = t->rows / t->n_shards, e = t->rows % t->n_shards;
    mr_out small = mr_const_i64(&n->s, q), large = mr_const_i64(&n->s, q + 1), extra = mr_const_i64(&n->s, e);
    mr_out behind = mr_emit(&n->s, "Sub", ids, extra);
    *shard = mr_emit(&n->s, "Maximum", mr_emit(&n->s, "FloorDiv", ids, large), mr_emit(&n->s, "FloorDiv", behind, small));
    *shard = mr_emit(&n->s, "Minimum", mr_emit(&n->s, "Maximum", *shard, mr_const_i64(&n->s, -1)), mr_const_i64(&n->s, t->n_shards));
    *row = mr_emit(&n->s, "SelectV2", mr_emit(&n->s, "Less", *shard, extra), mr_emit(&n->s, "FloorMod", ids, large),
                   mr_emit(&n->s, "FloorMod", behind, small));
}

/* ---- gather and stitch ---- */

/* Gathers rows of one shard, on its device. */
static mr_out gather_shard(mr_nn *n, const mr_nn_table *t, int shard, mr_out rows)
{
    MR_ASSERT(shard >= 0 && shard < t->n_shards && t->shards[shard] < n->vars.n);
    const mr_nn_var *v = &n->vars.p[t->shards[shard]];
    const char *before = mr_nn_at(n, v->device);
    mr_out y = mr_emit_with(&n->s, "ResourceGather", MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}), v->handle, rows);
    mr_nn_at(n, before);
    return y;
}

/* Sends each row number to its shard, gathers there, and puts the rows together in the original order. */
static mr_out gather_all(mr_nn *n, const mr_nn_table *t, mr_out ids)
{
    mr_out shard, row;
    if (t->n_shards == 1)
        return gather_shard(n, t, 0, ids);
    (t->split == MR_NN_MOD ? locate_mod : locate_div)(n, t, ids, &shard, &row);
    shard = cast_to(n, shard, MR_INT32);
    mr_out places = mr_emit(&n->s, "Range", mr_const_i32(&n->s, 0), mr_emit(&n->s, "Size", ids), mr_const_i32(&n->s, 1));
    mr_named_attr count = {"num_partitions", mr_a_int(t->n_shards)};
    mr_out rows = mr_emit_n(&n->s, "DynamicPartition", &count, 1, MR_OUTS(row, shard));
    mr_out where = mr_emit_n(&n->s, "DynamicPartition", &count, 1, MR_OUTS(places, shard));
    mr_out *parts = mr_new_array(mr_out, 2 * t->n_shards);
    for (int i = 0; i < t->n_shards; i++) {
        parts[i] = mr_nth(where, i);
        parts[t->n_shards + i] = gather_shard(n, t, i, mr_nth(rows, i));
    }
    mr_out y = mr_emit_lists(&n->s, "ParallelDynamicStitch", NULL, 0,
                             (mr_emit_arg[]){{t->n_shards, parts}, {t->n_shards, parts + t->n_shards}}, 2);
    mr_free(parts);
    return y;
}

/* The shape of ids followed by the columns; a constant if at most one dimension is unknown. */
static mr_out shape_behind(mr_nn *n, const mr_nn_table *t, mr_out ids)
{
    const mr_pshape *s = mr_scope_ok(&n->s) ? mr_out_shape(ids) : NULL;
    int unknown = s && s->rank >= 0 && s->rank < MR_MAX_RANK ? 0 : 2;
    int64_t dims[MR_MAX_RANK];
    for (int i = 0; unknown < 2 && i < s->rank; i++) {
        dims[i] = s->dims[i];
        unknown += dims[i] < 0;
    }
    if (unknown < 2) {
        dims[s->rank] = t->columns;
        return mr_const(&n->s, mr_tensor_vector_i64(s->rank + 1, dims));
    }
    mr_out parts[] = {mr_emit_with(&n->s, "Shape", MR_ATTRS({"out_type", mr_a_type(MR_INT64)}), ids),
                      mr_const(&n->s, mr_tensor_vector_i64(1, &t->columns))};
    mr_out axis = mr_const_i32(&n->s, 0);
    return mr_emit_lists(&n->s, "ConcatV2", NULL, 0, (mr_emit_arg[]){{2, parts}, {-1, &axis}}, 2);
}

/* Each distinct row travels once: duplicates are removed before the gather and repeated after it. */
mr_out mr_nn_table_rows(mr_nn *n, const mr_nn_table *t, mr_out ids)
{
    mr_out flat = mr_emit(&n->s, "Reshape", cast_to(n, ids, MR_INT64), mr_const_vec_i32(&n->s, 1, (int32_t[]){-1}));
    mr_out once = mr_emit(&n->s, "Unique", flat);
    mr_out rows = mr_emit(&n->s, "GatherV2", gather_all(n, t, once), mr_nth(once, 1), mr_const_i32(&n->s, 0));
    return mr_emit(&n->s, "Reshape", rows, shape_behind(n, t, ids));
}

/* ---- products with every row ---- */

static mr_out product_with(mr_nn *n, const mr_nn_var *v, mr_out x)
{
    const char *before = mr_nn_at(n, v->device);
    mr_out y = mr_emit_with(&n->s, "MatMul", MR_ATTRS({"transpose_b", mr_a_bool(true)}), x, v->value);
    mr_nn_at(n, before);
    return y;
}

/* The columns come shard by shard; for a table split by MOD they are put back in order. */
static mr_out reorder_columns(mr_nn *n, const mr_nn_table *t, mr_out y)
{
    if (t->split == MR_NN_DIV || t->n_shards == 1)
        return y;
    mr_tensor *order;
    mr_status *st = mr_tensor_new(mr_cpu_allocator(), MR_INT64, 1, &t->rows, &order);
    if (st) {
        mr_scope_fail(&n->s, st);
        return MR_NO_OUT;
    }
    int64_t first = 0;
    for (int shard = 0; shard < t->n_shards; first += rows_of(t, shard++))
        for (int64_t i = 0; i < rows_of(t, shard); i++)
            MR_DATA(int64_t, order)[i * t->n_shards + shard] = first + i;
    return mr_emit(&n->s, "GatherV2", y, mr_const(&n->s, order), mr_const_i32(&n->s, 1));
}

/* Each shard multiplies on its own device, so x travels to the shards and the products travel back, but no rows. */
mr_out mr_nn_table_product(mr_nn *n, const mr_nn_table *t, mr_out x)
{
    mr_out *parts = mr_new_array(mr_out, t->n_shards), axis = mr_const_i32(&n->s, 1);
    for (int i = 0; i < t->n_shards; i++)
        parts[i] = product_with(n, &n->vars.p[t->shards[i]], x);
    mr_out y = t->n_shards == 1 ? parts[0]
                                : mr_emit_lists(&n->s, "ConcatV2", NULL, 0, (mr_emit_arg[]){{t->n_shards, parts}, {-1, &axis}}, 2);
    mr_free(parts);
    return reorder_columns(n, t, y);
}

/* ---- products with a sample of rows ---- */

typedef struct sample {
    mr_out classes, expected_true, expected;
} sample;

/* Draws distinct classes, with the expected counts of the true and of the drawn ones. */
static sample draw_sample(mr_nn *n, mr_out true_classes, int64_t sampled, int64_t classes)
{
    n->next_seed++;
    mr_out drawn = mr_emit_with(&n->s, "LogUniformCandidateSampler",
                                MR_ATTRS({"num_true", mr_a_int(1)}, {"num_sampled", mr_a_int(sampled)}, {"unique", mr_a_bool(true)},
                                         {"range_max", mr_a_int(classes)}, {"seed", mr_a_int(n->seed)},
                                         {"seed2", mr_a_int(n->next_seed)}),
                                true_classes);
    return (sample){drawn, mr_nth(drawn, 1), mr_nth(drawn, 2)};
}

/* Splits rows after the first `batch` ones. */
static void split_rows(mr_nn *n, mr_out rows, mr_out batch, int64_t sampled, mr_out *first, mr_out *rest)
{
    mr_out sizes[2] = {batch, mr_const_i64(&n->s, sampled)}, axis = mr_const_i32(&n->s, 0);
    mr_out both = mr_emit_lists(&n->s, "Pack", NULL, 0, (mr_emit_arg[]){{2, sizes}}, 1);
    mr_out parts = mr_emit_with(&n->s, "SplitV", MR_ATTRS({"num_split", mr_a_int(2)}), rows, both, axis);
    *first = parts;
    *rest = mr_nth(parts, 1);
}

/* Removes the logits of sampled classes that are the true class of their example. */
static mr_out without_hits(mr_nn *n, mr_out logits, mr_out true_classes, mr_out classes)
{
    mr_out hit = cast_to(n, mr_emit(&n->s, "Equal", true_classes, classes), MR_FLOAT);
    return mr_emit(&n->s, "Sub", logits, mr_emit(&n->s, "Mul", hit, mr_const_f32(&n->s, 1e30f)));
}

/* The logits of the true class, first, and of the sampled ones. Each is reduced by the log of its
 * expected count, so that the sample represents all classes. */
static mr_out sampled_logits(mr_nn *n, const mr_nn_table *weights, const mr_nn_table *biases, mr_out x, mr_out labels,
                             int64_t sampled)
{
    mr_scope *s = &n->s;
    mr_out column = mr_emit(s, "ExpandDims", labels, mr_const_i32(s, 1)), axis = mr_const_i32(s, 0), one = mr_const_i32(s, 1);
    sample d = draw_sample(n, column, sampled, weights->rows);
    mr_out ids[2] = {labels, d.classes}, true_w, other_w, true_b, other_b;
    mr_out all = mr_emit_lists(s, "ConcatV2", NULL, 0, (mr_emit_arg[]){{2, ids}, {-1, &axis}}, 2);
    mr_out batch = mr_emit_with(s, "Size", MR_ATTRS({"out_type", mr_a_type(MR_INT64)}), labels);
    split_rows(n, mr_nn_table_rows(n, weights, all), batch, sampled, &true_w, &other_w);
    split_rows(n, mr_nn_table_rows(n, biases, all), batch, sampled, &true_b, &other_b);
    mr_out right = mr_emit_with(s, "Sum", MR_ATTRS({"keep_dims", mr_a_bool(true)}), mr_emit(s, "Mul", x, true_w), one);
    right = mr_emit(s, "Sub", mr_emit(s, "AddV2", right, true_b), mr_emit(s, "Log", d.expected_true));
    mr_out other = mr_emit_with(s, "MatMul", MR_ATTRS({"transpose_b", mr_a_bool(true)}), x, other_w);
    other = mr_emit(s, "AddV2", other, mr_emit(s, "Reshape", other_b, mr_const_vec_i32(s, 1, (int32_t[]){-1})));
    other = without_hits(n, mr_emit(s, "Sub", other, mr_emit(s, "Log", d.expected)), column, d.classes);
    return mr_emit_lists(s, "ConcatV2", NULL, 0, (mr_emit_arg[]){{2, (mr_out[]){right, other}}, {-1, &one}}, 2);
}

/* The true class is always column 0 of the sampled logits, so the labels of the inner loss are all 0. */
mr_out mr_nn_sampled_softmax(mr_nn *n, const mr_nn_table *weights, const mr_nn_table *biases, mr_out x, mr_out labels,
                              int64_t sampled)
{
    if (sampled < 1 || sampled > weights->rows || biases->rows != weights->rows || biases->columns != 1) {
        mr_scope_fail(&n->s, mr_invalid("sampled softmax: cannot sample %lld of %lld classes with %lld biases of %lld "
                                        "columns (expected one bias for each class)",
                                        (long long)sampled, (long long)weights->rows, (long long)biases->rows,
                                        (long long)biases->columns));
        return MR_NO_OUT;
    }
    labels = mr_emit(&n->s, "Reshape", cast_to(n, labels, MR_INT64), mr_const_vec_i32(&n->s, 1, (int32_t[]){-1}));
    mr_out logits = sampled_logits(n, weights, biases, x, labels, sampled);
    return mr_nn_softmax_loss(n, logits, mr_emit(&n->s, "ZerosLike", labels));
}
