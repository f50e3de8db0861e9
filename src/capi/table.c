/* capi/table.c -- millrace/train.h: sharded tables, and layers over a sample of their rows. */
#include "train/table.h"

#include "base/memory.h"
#include "capi/model.h"

/* The options as a table's arguments. */
typedef struct choice {
    int shards;
    mr_nn_split split;
    mr_nn_init init;
} choice;

static bool choose_layout(mr_model *m, const mr_table_options *options, const char *name, choice *out)
{
    mr_table_options o = {0};
    mr_status *st = options ? mr_capi_take_options(options, &o, sizeof o) : NULL;
    if (!st && !name)
        st = mr_invalid("The name of a table is NULL");
    if (!st && o.shards < 0)
        st = mr_invalid("table '%s': the number of shards %d is negative", name, o.shards);
    bool usual = o.init.kind == MR_INIT_CONSTANT && o.init.a == 0 && o.init.b == 0 && !o.zeros;
    mr_nn_init init = {(mr_nn_init_kind)o.init.kind, o.init.a, o.init.b};
    if (usual)
        init = (mr_nn_init){MR_NN_UNIFORM, -0.05f, 0.05f};
    *out = (choice){o.shards, (mr_nn_split)o.sharding, o.zeros ? (mr_nn_init){MR_NN_CONSTANT, 0, 0} : init};
    mr_scope_fail(&m->net->s, st);
    return mr_scope_ok(&m->net->s);
}

static mr_out add_embedding(mr_model *m, const char *name, TF_Output ids, int64_t rows, int64_t columns,
                            const mr_table_options *options)
{
    choice c;
    mr_nn_table t;
    mr_out at = mr_model_arg(m, ids);
    if (!choose_layout(m, options, name, &c) ||
        !mr_nn_table_init(m->net, &t, name, rows, columns, c.shards, c.split, c.init))
        return MR_NO_OUT;
    return mr_nn_table_rows(m->net, &t, at);
}

/* The weights and biases of a layer; they exist already if another of its functions was called before. */
typedef struct layer {
    mr_nn_table weights, biases;
} layer;

/* Reuses the variables of the layer if they exist. False after an error, which is kept in the model. */
static bool find_layer(mr_model *m, const char *name, mr_out x, int64_t classes, const mr_table_options *options, layer *out)
{
    choice c;
    const char *saved;
    mr_nn *n = m->net;
    if (!choose_layout(m, options, name, &c))
        return false;
    const mr_pshape *s = mr_out_shape(x);
    if (s->rank != 2 || s->dims[1] < 1) {
        mr_scope_fail(&n->s, mr_invalid("layer '%s' needs a matrix with a known number of columns", name));
        return false;
    }
    bool reuse = n->reuse;
    n->reuse = true;
    mr_nn_enter(n, name, &saved);
    bool made = mr_nn_table_init(n, &out->weights, "weights", classes, s->dims[1], c.shards, c.split, c.init) &&
                mr_nn_table_init(n, &out->biases, "biases", classes, 1, c.shards, c.split, (mr_nn_init){MR_NN_CONSTANT, 0, 0});
    mr_nn_leave(n, saved);
    n->reuse = reuse;
    return made;
}

static mr_out sampled_loss(mr_model *m, const char *name, TF_Output x, TF_Output labels, int64_t classes, int64_t n_sampled,
                           const mr_table_options *options)
{
    layer l;
    mr_out in = mr_model_arg(m, x), wanted = mr_model_arg(m, labels);
    if (!find_layer(m, name, in, classes, options, &l))
        return MR_NO_OUT;
    return mr_nn_sampled_softmax(m->net, &l.weights, &l.biases, in, wanted, n_sampled);
}

/* A bias is a row of one column: times 1 it is itself. */
static mr_out add_logits(mr_model *m, const char *name, TF_Output x, int64_t classes, const mr_table_options *options)
{
    layer l;
    mr_scope *s = &m->net->s;
    mr_out in = mr_model_arg(m, x);
    if (!find_layer(m, name, in, classes, options, &l))
        return MR_NO_OUT;
    mr_out one = mr_emit(s, "Fill", mr_const_vec_i32(s, 2, (int32_t[]){1, 1}), mr_const_f32(s, 1));
    return mr_emit(s, "AddV2", mr_nn_table_product(m->net, &l.weights, in), mr_nn_table_product(m->net, &l.biases, one));
}

/* Under the graph's lock. */
#define BUILD(call)                         \
    do {                                    \
        TF_Output result_ = {NULL, -1};     \
        if (!m)                             \
            return result_;                 \
        mr_lock(&m->graph->mu);             \
        result_ = mr_capi_output(call);     \
        mr_unlock(&m->graph->mu);           \
        return result_;                     \
    } while (0)

TF_Output mr_embedding_sharded(mr_model *m, const char *name, TF_Output ids, int64_t rows, int64_t columns,
                               const mr_table_options *options)
{
    BUILD(add_embedding(m, name, ids, rows, columns, options));
}

TF_Output mr_sampled_softmax_loss(mr_model *m, const char *name, TF_Output x, TF_Output labels, int64_t num_classes,
                                  int64_t num_sampled, const mr_table_options *options)
{
    BUILD(sampled_loss(m, name, x, labels, num_classes, num_sampled, options));
}

TF_Output mr_sharded_logits(mr_model *m, const char *name, TF_Output x, int64_t num_classes, const mr_table_options *options)
{
    BUILD(add_logits(m, name, x, num_classes, options));
}
