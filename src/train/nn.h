/* train/nn.h -- a network being built on a graph: its variables, layers, losses and updates.
 *
 * The functions of millrace/train.h, on the library's own types; capi/train.c translates.  Errors are kept
 * in the scope (graph/scope.h): after the first one nothing more is added. */
#ifndef MR_TRAIN_NN_H
#define MR_TRAIN_NN_H

#include "graph/grad.h"

typedef enum mr_nn_init_kind {
    MR_NN_CONSTANT,
    MR_NN_UNIFORM,
    MR_NN_NORMAL,
    MR_NN_TRUNCATED_NORMAL,
    MR_NN_GLOROT,
    MR_NN_HE,
} mr_nn_init_kind;

typedef struct mr_nn_init {
    mr_nn_init_kind kind;
    float a, b;
} mr_nn_init;

typedef struct mr_nn_var {
    const char *name; /* in the graph's arena; also the name in checkpoints */
    const char *device; /* where it is; "": the session chooses */
    mr_out handle, value;
    mr_node *assign; /* assigns its initial value; NULL: the client does that */
    mr_dtype dtype;
    int64_t n; /* elements */
    int split; /* of a table's shard: 1 + mr_nn_split (train/table.h); 0: not a shard */
    bool trainable;
    bool differentiated;  /* the client computed the gradient: */
    mr_gradient gradient; /* MR_NO_GRAD: there is none */
} mr_nn_var;

typedef struct mr_nn {
    mr_scope s;
    MR_VEC(mr_nn_var) vars;
    mr_out global_step; /* its value; node NULL until it is first needed */
    int64_t seed, next_seed;
    struct mr_replicas *replicas; /* chooses the devices of variables; NULL: the scope's device.  Owned */
    const char *place_with;       /* not NULL: the device of new variables (slots stay with their variable) */
    bool reuse;                   /* use an existing variable of the same name */
} mr_nn;

mr_nn *mr_nn_new(mr_graph *g); /* g is borrowed */
void mr_nn_free(mr_nn *n);     /* the nodes stay in the graph; accepts NULL */
/* A node `init` that initializes the variables made so far; NULL after an error. */
mr_node *mr_nn_initializer(mr_nn *n);

mr_out mr_nn_input(mr_nn *n, const char *name, mr_dtype type, int rank, const int64_t *dims);
/* A float scalar that keeps `value` unless it is fed. */
mr_out mr_nn_setting(mr_nn *n, const char *name, float value);
mr_out mr_nn_variable(mr_nn *n, const char *name, mr_dtype type, int rank, const int64_t *dims, mr_nn_init init,
                       bool trainable);
/* Adopts a variable that the graph has already, by its handle or reference.  Only assign, the gradient and trainable of
 * `v` are used; the rest is found here.  Returns its value. */
mr_out mr_nn_adopt(mr_nn *n, mr_out variable, mr_nn_var v);
/* The value of the variable at the time the new node runs. */
mr_out mr_nn_read(mr_nn *n, const mr_nn_var *v);
/* Assigns the value, or adds it. */
mr_out mr_nn_assign(mr_nn *n, const mr_nn_var *v, mr_out value);
mr_out mr_nn_assign_add(mr_nn *n, const mr_nn_var *v, mr_out value);
static inline bool mr_nn_var_is_ref(const mr_nn_var *v) { return mr_dtype_is_ref(mr_out_type(v->handle)); }
/* Sets the device of new nodes; returns the previous one, to be restored. */
const char *mr_nn_at(mr_nn *n, const char *device);
/* The variable whose value or handle this is, or NULL. */
const mr_nn_var *mr_nn_find(const mr_nn *n, mr_out value_or_handle);
/* The value of the global step, which is made when it is first needed. */
mr_out mr_nn_global_step(mr_nn *n);

/* Names are relative: a layer's nodes are NAME/MatMul and so on. */
void mr_nn_enter(mr_nn *n, const char *name, const char **saved_prefix);
void mr_nn_leave(mr_nn *n, const char *saved_prefix);

typedef enum mr_nn_activation { MR_NN_LINEAR, MR_NN_RELU, MR_NN_TANH, MR_NN_SIGMOID } mr_nn_activation;
mr_out mr_nn_dense(mr_nn *n, const char *name, mr_out x, int64_t units, mr_nn_activation act);
mr_out mr_nn_conv2d(mr_nn *n, const char *name, mr_out x, int64_t filters, int64_t kernel, int64_t stride,
                     const char *padding, mr_nn_activation act);
mr_out mr_nn_pool(mr_nn *n, const char *op, mr_out x, int64_t size, int64_t stride, const char *padding);
mr_out mr_nn_dropout(mr_nn *n, mr_out x, mr_out rate);
mr_out mr_nn_flatten(mr_nn *n, mr_out x);
mr_out mr_nn_lstm(mr_nn *n, const char *name, mr_out x, int64_t units, bool all_steps);
mr_out mr_nn_embedding(mr_nn *n, const char *name, mr_out ids, int64_t rows, int64_t columns);

mr_out mr_nn_softmax_loss(mr_nn *n, mr_out logits, mr_out labels);
mr_out mr_nn_sigmoid_loss(mr_nn *n, mr_out logits, mr_out targets);
mr_out mr_nn_squared_loss(mr_nn *n, mr_out values, mr_out targets);
mr_out mr_nn_l2_penalty(mr_nn *n, float weight);
mr_out mr_nn_accuracy(mr_nn *n, mr_out logits, mr_out labels);

typedef enum mr_nn_optimizer_kind {
    MR_NN_SGD,
    MR_NN_MOMENTUM,
    MR_NN_NESTEROV,
    MR_NN_ADAGRAD,
    MR_NN_RMSPROP,
    MR_NN_ADAM,
} mr_nn_optimizer_kind;

typedef struct mr_nn_optimizer {
    mr_nn_optimizer_kind kind;
    float rate;
    mr_out schedule;
    float a, b, epsilon, clip_norm;
} mr_nn_optimizer;
mr_node *mr_nn_minimize(mr_nn *n, mr_out loss, const mr_nn_optimizer *o);
/* The same with the mean of the gradients of several losses, each computed on the device of its loss (towers). */
mr_node *mr_nn_minimize_towers(mr_nn *n, const mr_out *losses, int n_losses, const mr_nn_optimizer *o);

/* The two halves of mr_nn_minimize: gradients of a loss, and updates from gradients. */
typedef struct mr_nn_gradients {
    int n;
    int *var; /* index in mr_nn.vars of the variable of the i-th gradient */
    mr_gradient *g;
} mr_nn_gradients;
void mr_nn_gradients_of(mr_nn *n, mr_out loss, mr_nn_gradients *out);
void mr_nn_gradients_deinit(mr_nn_gradients *g);
/* Updates, then the global step.  NULL after an error. */
mr_node *mr_nn_apply(mr_nn *n, const mr_nn_optimizer *o, mr_nn_gradients *g);
/* Adds up rows that occur more than once. */
void mr_nn_sum_rows(mr_nn *n, mr_gradient *g);

mr_out mr_nn_exponential_decay(mr_nn *n, float rate, int64_t steps, float factor, bool staircase);
mr_out mr_nn_polynomial_decay(mr_nn *n, float rate, int64_t steps, float end_rate, float power);
mr_out mr_nn_piecewise(mr_nn *n, int n_bounds, const int64_t *bounds, const float *rates);

#endif
