/* sim/models.c -- networks to simulate. */
#include "sim/models.h"

#include <math.h>
#include <stdio.h>

#include "base/memory.h"

typedef mr_sim_graph_def def;

void mr_sim_graph_def_deinit(def *d)
{
    mr_graph_unref(d->g);
    mr_vec_deinit(&d->feeds);
    mr_vec_deinit(&d->fetches);
    mr_vec_deinit(&d->targets);
    *d = (def){0};
}

static mr_out add_input(mr_nn *n, def *d, const char *name, mr_dtype type, int rank, const int64_t *dims)
{
    mr_out x = mr_nn_input(n, name, type, rank, dims);
    mr_vec_push(&d->feeds, x);
    return x;
}

#define DIMS(...) MR_COUNT(((int64_t[]){__VA_ARGS__})), (int64_t[]){__VA_ARGS__}
#define SHAPE(n, ...) mr_const_vec_i32(&(n)->s, MR_COUNT(((int32_t[]){__VA_ARGS__})), (int32_t[]){__VA_ARGS__})

static mr_out softmax_loss(mr_nn *n, def *d, mr_out logits, int64_t rows)
{
    return mr_nn_softmax_loss(n, logits, add_input(n, d, "labels", MR_INT32, DIMS(rows)));
}

/* ---- one neuron ---- */

static mr_out build_neuron(mr_nn *n, const int64_t *p, def *d)
{
    mr_out x = add_input(n, d, "x", MR_FLOAT, DIMS(p[0], p[1]));
    mr_out y = add_input(n, d, "wanted", MR_FLOAT, DIMS(p[0], 1));
    return mr_nn_squared_loss(n, mr_nn_dense(n, "neuron", x, 1, MR_NN_SIGMOID), y);
}

/* ---- dense layers in sequence ---- */

static mr_out build_mlp(mr_nn *n, const int64_t *p, def *d)
{
    mr_out x = add_input(n, d, "x", MR_FLOAT, DIMS(p[0], p[1]));
    for (int64_t i = 0; i < p[3]; i++) {
        char name[24];
        snprintf(name, sizeof name, "layer%d", (int)i + 1);
        x = mr_nn_dense(n, name, x, p[2], MR_NN_RELU);
    }
    return softmax_loss(n, d, mr_nn_dense(n, "out", x, p[4], MR_NN_LINEAR), p[0]);
}

static mr_out build_lenet(mr_nn *n, const int64_t *p, def *d)
{
    mr_out h = add_input(n, d, "x", MR_FLOAT, DIMS(p[0], 28, 28, 1));
    h = mr_nn_pool(n, "MaxPool", mr_nn_conv2d(n, "conv1", h, 32, 5, 1, "SAME", MR_NN_RELU), 2, 2, "SAME");
    h = mr_nn_pool(n, "MaxPool", mr_nn_conv2d(n, "conv2", h, 64, 5, 1, "SAME", MR_NN_RELU), 2, 2, "SAME");
    h = mr_nn_dense(n, "fc", mr_nn_flatten(n, h), 1024, MR_NN_RELU);
    return softmax_loss(n, d, mr_nn_dense(n, "out", h, 10, MR_NN_LINEAR), p[0]);
}

/* ---- an Inception block, as in the network with batch normalisation ---- */

static const mr_nn_init ones = {MR_NN_CONSTANT, 1, 0}, zeros = {MR_NN_CONSTANT, 0, 0};

/* Moves a running average a tenth of the way to the batch's value. */
static void update_average(mr_nn *n, def *d, const char *name, mr_out batch, int64_t channels, mr_nn_init init)
{
    mr_out value = mr_nn_variable(n, name, MR_FLOAT, 1, &channels, init, false);
    const mr_nn_var *v = mr_nn_find(n, value);
    if (!v)
        return;
    mr_out handle = v->handle, gap = mr_emit(&n->s, "Sub", value, batch);
    mr_out by = mr_emit(&n->s, "Mul", gap, mr_const_f32(&n->s, 0.1f));
    mr_node *update = mr_emit(&n->s, "AssignSubVariableOp", handle, by).node;
    if (update)
        mr_vec_push(&d->targets, update);
}

static mr_out batch_norm(mr_nn *n, def *d, mr_out x, int64_t channels)
{
    const char *saved;
    mr_nn_enter(n, "norm", &saved);
    mr_out scale = mr_nn_variable(n, "gamma", MR_FLOAT, 1, &channels, ones, true);
    mr_out offset = mr_nn_variable(n, "beta", MR_FLOAT, 1, &channels, zeros, true);
    mr_out none = mr_const(&n->s, mr_tensor_of(MR_FLOAT, 1, (int64_t[]){0}, NULL));
    mr_out y = mr_emit_with(&n->s, "FusedBatchNormV3", MR_ATTRS({"is_training", mr_a_bool(true)}, {"epsilon", mr_a_float(1e-3f)}),
                            x, scale, offset, none, none);
    update_average(n, d, "mean", mr_nth(y, 1), channels, zeros);
    update_average(n, d, "variance", mr_nth(y, 2), channels, ones);
    mr_nn_leave(n, saved);
    return y;
}

/* Convolution without a bias (the norm has one), norm, relu. */
static mr_out add_conv(mr_nn *n, def *d, const char *name, mr_out x, int64_t in, int64_t out, int64_t kernel)
{
    const char *saved;
    mr_nn_enter(n, name, &saved);
    mr_out w = mr_nn_variable(n, "kernel", MR_FLOAT, 4, (int64_t[]){kernel, kernel, in, out}, (mr_nn_init){MR_NN_HE, 0, 0}, true);
    mr_out y = mr_emit_with(&n->s, "Conv2D",
                            MR_ATTRS({"strides", mr_a_ints(4, (int64_t[]){1, 1, 1, 1})}, {"padding", mr_a_str("SAME")}), x, w);
    y = mr_emit(&n->s, "Relu", batch_norm(n, d, y, out));
    mr_nn_leave(n, saved);
    return y;
}

enum { INCEPTION_OUT = 64 + 64 + 96 + 32 }; /* channels of a block */

static mr_out add_inception_block(mr_nn *n, def *d, mr_out x, int64_t in)
{
    mr_out a = add_conv(n, d, "a_1x1", x, in, 64, 1);
    mr_out b = add_conv(n, d, "b_3x3", add_conv(n, d, "b_reduce", x, in, 64, 1), 64, 64, 3);
    mr_out c = add_conv(n, d, "c_3x3_1", add_conv(n, d, "c_reduce", x, in, 64, 1), 64, 96, 3);
    c = add_conv(n, d, "c_3x3_2", c, 96, 96, 3);
    const char *saved;
    mr_nn_enter(n, "d_pool", &saved);
    mr_out pool = mr_nn_pool(n, "AvgPool", x, 3, 1, "SAME");
    mr_nn_leave(n, saved);
    mr_out e = add_conv(n, d, "d_project", pool, in, 32, 1);
    return mr_emit(&n->s, "ConcatV2", a, b, c, e, mr_const_i32(&n->s, 3));
}

static mr_out build_inception(mr_nn *n, const int64_t *p, def *d)
{
    int64_t channels = p[2];
    mr_out h = add_input(n, d, "x", MR_FLOAT, DIMS(p[0], p[1], p[1], channels));
    for (int64_t i = 0; i < p[3]; i++) {
        char name[24];
        const char *saved;
        snprintf(name, sizeof name, "block%d", (int)i + 1);
        mr_nn_enter(n, name, &saved);
        h = add_inception_block(n, d, h, channels);
        mr_nn_leave(n, saved);
        channels = INCEPTION_OUT;
    }
    h = mr_emit(&n->s, "Mean", h, SHAPE(n, 1, 2));
    return softmax_loss(n, d, mr_nn_dense(n, "out", h, p[4], MR_NN_LINEAR), p[0]);
}

/* ---- an LSTM, cell by cell: a layer may run on one device while the next one follows on another ---- */

typedef struct cell {
    mr_out w, b; /* of the layer */
    mr_out c, h; /* state; node NULL before the first step */
} cell;

static mr_out multiply(mr_nn *n, mr_out a, mr_out b) { return mr_emit(&n->s, "Mul", a, b); }

/* One step of a layer; the gates are input, candidate, forget and output. */
static mr_out cell_step(mr_nn *n, cell *l, mr_out x)
{
    mr_scope *s = &n->s;
    mr_out both = mr_emit(s, "ConcatV2", x, l->h, mr_const_i32(s, 1));
    mr_out z = mr_emit(s, "BiasAdd", mr_emit(s, "MatMul", both, l->w), l->b);
    mr_out gates = mr_emit_with(s, "Split", MR_ATTRS({"num_split", mr_a_int(4)}), mr_const_i32(s, 1), z);
    mr_out i = mr_emit(s, "Sigmoid", mr_nth(gates, 0)), g = mr_emit(s, "Tanh", mr_nth(gates, 1));
    mr_out f = mr_emit(s, "Sigmoid", mr_nth(gates, 2)), o = mr_emit(s, "Sigmoid", mr_nth(gates, 3));
    l->c = mr_emit(s, "AddV2", multiply(n, f, l->c), multiply(n, i, g));
    return l->h = multiply(n, o, mr_emit(s, "Tanh", l->c));
}

static void open_layer(mr_nn *n, cell *l, int64_t batch, int64_t in, int64_t units)
{
    l->w = mr_nn_variable(n, "kernel", MR_FLOAT, 2, (int64_t[]){in + units, 4 * units}, (mr_nn_init){MR_NN_GLOROT, 0, 0}, true);
    l->b = mr_nn_variable(n, "bias", MR_FLOAT, 1, (int64_t[]){4 * units}, zeros, true);
    l->c = l->h = mr_emit(&n->s, "Fill", SHAPE(n, (int32_t)batch, (int32_t)units), mr_const_f32(&n->s, 0));
}

/* Unrolled cell by cell; each layer has its own scope, and each step of time a scope inside it. */
static mr_out build_lstm(mr_nn *n, const int64_t *p, def *d)
{
    enum { MAX_LAYERS = 8 };
    int64_t batch = p[0], time = p[1], in = p[2], units = p[3], layers = p[4];
    cell cells[MAX_LAYERS] = {0};
    mr_out x = add_input(n, d, "x", MR_FLOAT, DIMS(time, batch, in)), h = MR_NO_OUT;
    mr_out rows = mr_emit_with(&n->s, "Unpack", MR_ATTRS({"num", mr_a_int(time)}), x);
    for (int64_t t = 0; t < time; t++) {
        h = mr_nth(rows, (int)t);
        for (int64_t l = 0; l < layers; l++) {
            char name[24];
            const char *saved;
            snprintf(name, sizeof name, "layer%d", (int)l + 1);
            mr_nn_enter(n, name, &saved);
            if (t == 0)
                open_layer(n, &cells[l], batch, l ? units : in, units);
            const char *layer = n->s.prefix;
            snprintf(name, sizeof name, "t%d", (int)t + 1);
            mr_nn_enter(n, name, &layer);
            h = cell_step(n, &cells[l], h);
            mr_nn_leave(n, saved);
        }
    }
    return softmax_loss(n, d, mr_nn_dense(n, "out", h, p[5], MR_NN_LINEAR), batch);
}

/* ---- a transformer that predicts the next word ---- */

/* (x - mean) / deviation over the last axis, times gamma, plus beta. */
static mr_out layer_norm(mr_nn *n, const char *name, mr_out x, int64_t width)
{
    const char *saved;
    mr_scope *s = &n->s;
    mr_nn_enter(n, name, &saved);
    mr_out gamma = mr_nn_variable(n, "gamma", MR_FLOAT, 1, &width, ones, true);
    mr_out beta = mr_nn_variable(n, "beta", MR_FLOAT, 1, &width, zeros, true);
    mr_out axis = SHAPE(n, 1);
    mr_out mean = mr_emit_with(s, "Mean", MR_ATTRS({"keep_dims", mr_a_bool(true)}), x, axis);
    mr_out square = mr_emit(s, "SquaredDifference", x, mean);
    mr_out variance = mr_emit_with(s, "Mean", MR_ATTRS({"keep_dims", mr_a_bool(true)}), square, axis);
    mr_out scale = mr_emit(s, "Rsqrt", mr_emit(s, "AddV2", variance, mr_const_f32(s, 1e-5f)));
    mr_out y = multiply(n, mr_emit(s, "Sub", x, mean), scale);
    y = mr_emit(s, "AddV2", multiply(n, y, gamma), beta);
    mr_nn_leave(n, saved);
    return y;
}

typedef struct sizes {
    int32_t batch, time, width, heads;
} sizes;

/* [batch * time, width] -> [batch, heads, time, width / heads] */
static mr_out to_heads(mr_nn *n, const char *name, mr_out x, const sizes *z)
{
    x = mr_nn_dense(n, name, x, z->width, MR_NN_LINEAR);
    x = mr_emit(&n->s, "Reshape", x, SHAPE(n, z->batch, z->time, z->heads, z->width / z->heads));
    return mr_emit(&n->s, "Transpose", x, SHAPE(n, 0, 2, 1, 3));
}

static mr_out add_attention(mr_nn *n, mr_out x, const sizes *z)
{
    mr_scope *s = &n->s;
    mr_out q = to_heads(n, "query", x, z), k = to_heads(n, "key", x, z), v = to_heads(n, "value", x, z);
    mr_out scores = mr_emit_with(s, "BatchMatMulV2", MR_ATTRS({"adj_y", mr_a_bool(true)}), q, k);
    scores = multiply(n, scores, mr_const_f32(s, (float)(1 / sqrt((double)(z->width / z->heads)))));
    mr_out y = mr_emit(s, "BatchMatMulV2", mr_emit(s, "Softmax", scores), v);
    y = mr_emit(s, "Reshape", mr_emit(s, "Transpose", y, SHAPE(n, 0, 2, 1, 3)), SHAPE(n, z->batch * z->time, z->width));
    return mr_nn_dense(n, "project", y, z->width, MR_NN_LINEAR);
}

static mr_out transformer_layer(mr_nn *n, int number, mr_out x, const sizes *z)
{
    char name[24];
    const char *saved;
    snprintf(name, sizeof name, "layer%d", number);
    mr_nn_enter(n, name, &saved);
    x = mr_emit(&n->s, "AddV2", x, add_attention(n, layer_norm(n, "norm1", x, z->width), z));
    mr_out wide = mr_nn_dense(n, "wide", layer_norm(n, "norm2", x, z->width), 4 * (int64_t)z->width, MR_NN_RELU);
    x = mr_emit(&n->s, "AddV2", x, mr_nn_dense(n, "narrow", wide, z->width, MR_NN_LINEAR));
    mr_nn_leave(n, saved);
    return x;
}

static mr_out build_transformer(mr_nn *n, const int64_t *p, def *d)
{
    sizes z = {(int32_t)p[0], (int32_t)p[1], (int32_t)p[2], (int32_t)p[3]};
    int64_t words = (int64_t)z.batch * z.time;
    if (z.width % z.heads) {
        mr_scope_fail(&n->s, mr_invalid("width %d is not a multiple of %d heads", z.width, z.heads));
        return MR_NO_OUT;
    }
    mr_out ids = add_input(n, d, "words", MR_INT32, DIMS(words));
    mr_out x = mr_nn_embedding(n, "embedding", ids, p[5], z.width);
    for (int64_t i = 0; i < p[4]; i++)
        x = transformer_layer(n, (int)i + 1, x, &z);
    return softmax_loss(n, d, mr_nn_dense(n, "out", layer_norm(n, "norm", x, z.width), p[5], MR_NN_LINEAR), words);
}

/* ---- the table ---- */

static const mr_sim_model models[] = {
    {"inception",
     "Inception blocks with batch normalisation: 1x1, 3x3, double 3x3 and pooled branches",
     {{"batch", 32, 1, 4096, "pictures per step"},
      {"size", 28, 1, 512, "height and width of the pictures"},
      {"channels", 192, 1, 4096, "channels of the pictures"},
      {"blocks", 1, 1, 20, "blocks in sequence"},
      {"classes", 1000, 2, 100000, "number of classes"}},
     build_inception},
    {"lenet",
     "two convolutions and two dense layers for digits of 28 x 28 pixels",
     {{"batch", 128, 1, 65536, "pictures per step"}},
     build_lenet},
    {"lstm",
     "LSTM layers, unrolled cell by cell",
     {{"batch", 32, 1, 65536, "sequences per step"},
      {"time", 10, 1, 100, "length of a sequence"},
      {"inputs", 128, 1, 65536, "inputs at each step"},
      {"units", 512, 1, 65536, "width of a layer"},
      {"layers", 2, 1, 8, "number of layers"},
      {"classes", 10, 2, 100000, "number of classes"}},
     build_lstm},
    {"mlp",
     "dense layers in sequence",
     {{"batch", 128, 1, 65536, "examples per step"},
      {"inputs", 784, 1, 1000000, "inputs of an example"},
      {"hidden", 256, 1, 65536, "width of the hidden layers"},
      {"layers", 2, 0, 64, "hidden layers"},
      {"classes", 10, 2, 100000, "number of classes"}},
     build_mlp},
    {"neuron",
     "one neuron: a product, a bias, a sigmoid, a loss",
     {{"batch", 4, 1, 65536, "examples per step"}, {"inputs", 3, 1, 1000000, "inputs of an example"}},
     build_neuron},
    {"transformer",
     "attention and dense layers that predict words",
     {{"batch", 8, 1, 4096, "texts per step"},
      {"time", 64, 1, 4096, "words per text"},
      {"width", 256, 1, 16384, "width of a layer"},
      {"heads", 4, 1, 128, "attention heads; they must divide the width"},
      {"layers", 2, 1, 48, "number of layers"},
      {"words", 10000, 2, 1000000, "size of the vocabulary"}},
     build_transformer},
};

const mr_sim_model *mr_sim_models(int *n)
{
    *n = MR_COUNT(models);
    return models;
}

const mr_sim_model *mr_sim_model_find(mr_sv name)
{
    for (int i = 0; i < MR_COUNT(models); i++)
        if (mr_sv_is(name, models[i].name))
            return &models[i];
    return NULL;
}

int mr_sim_model_param(const mr_sim_model *m, mr_sv name)
{
    for (int i = 0; m->params[i].name; i++)
        if (mr_sv_is(name, m->params[i].name))
            return i;
    return -1;
}

mr_status *mr_sim_model_build(const mr_sim_model *m, const int64_t *params, def *out)
{
    *out = (def){.g = mr_graph_new()};
    mr_nn *n = mr_nn_new(out->g);
    mr_out loss = m->loss(n, params, out);
    mr_nn_optimizer sgd = {.kind = MR_NN_SGD, .rate = 0.01f};
    mr_node *train = mr_scope_ok(&n->s) ? mr_nn_minimize(n, loss, &sgd) : NULL;
    out->init = mr_nn_initializer(n);
    mr_status *st = mr_scope_status(&n->s);
    mr_nn_free(n);
    if (st) {
        mr_sim_graph_def_deinit(out);
        return mr_status_prepend(st, "model '%s': ", m->name);
    }
    mr_vec_push(&out->fetches, loss);
    mr_vec_push(&out->targets, train);
    return NULL;
}
