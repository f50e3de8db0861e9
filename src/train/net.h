/* train/net.h -- a network being built on a graph: its variables, layers, losses and updates.
 *
 * The functions of millrace/train.h, on the library's own types; capi/train.c translates.  Errors are kept
 * in the scope (graph/scope.h): after the first one nothing more is added. */
#ifndef MR_TRAIN_NET_H
#define MR_TRAIN_NET_H

#include "graph/grad.h"

typedef enum mr_net_init_kind {
    MR_NET_CONSTANT,
    MR_NET_UNIFORM,
    MR_NET_NORMAL,
    MR_NET_TRUNCATED_NORMAL,
    MR_NET_GLOROT,
    MR_NET_HE,
} mr_net_init_kind;

typedef struct mr_net_init {
    mr_net_init_kind kind;
    float a, b;
} mr_net_init;

typedef struct mr_net_var {
    const char *name; /* in the graph's arena; also the name in checkpoints */
    const char *device; /* where it is; "": the session chooses */
    mr_out handle, value;
    mr_node *assign; /* assigns its initial value; NULL: the client does that */
    mr_dtype dtype;
    int64_t n; /* elements */
    int split; /* of a table's shard: 1 + mr_net_split (train/table.h); 0: not a shard */
    bool trainable;
    bool differentiated;  /* the client computed the gradient: */
    mr_gradient gradient; /* MR_NO_GRAD: there is none */
} mr_net_var;

typedef struct mr_network {
    mr_scope s;
    MR_VEC(mr_net_var) vars;
    mr_out global_step; /* its value; node NULL until it is first needed */
    int64_t seed, next_seed;
    struct mr_replicas *replicas; /* chooses the devices of variables; NULL: the scope's device.  Owned */
    const char *place_with;       /* not NULL: the device of new variables (slots stay with their variable) */
    bool reuse;                   /* use an existing variable of the same name */
} mr_network;

mr_network *mr_net_new(mr_graph *g);
void mr_net_free(mr_network *n);
mr_node *mr_net_initializer(mr_network *n);

mr_out mr_net_input(mr_network *n, const char *name, mr_dtype type, int rank, const int64_t *dims);
mr_out mr_net_setting(mr_network *n, const char *name, float value);
mr_out mr_net_variable(mr_network *n, const char *name, mr_dtype type, int rank, const int64_t *dims, mr_net_init init,
                       bool trainable);
/* Adopts a variable that the graph has already, by its handle or reference.  Only assign, the gradient and trainable of
 * `v` are used; the rest is found here.  Returns its value. */
mr_out mr_net_adopt(mr_network *n, mr_out variable, mr_net_var v);
/* The value of the variable at the time the new node runs. */
mr_out mr_net_read(mr_network *n, const mr_net_var *v);
/* Assigns the value, or adds it. */
mr_out mr_net_assign(mr_network *n, const mr_net_var *v, mr_out value);
mr_out mr_net_assign_add(mr_network *n, const mr_net_var *v, mr_out value);
static inline bool mr_net_var_is_ref(const mr_net_var *v) { return mr_dtype_is_ref(mr_out_type(v->handle)); }
/* Sets the device of new nodes; returns the previous one, to be restored. */
const char *mr_net_at(mr_network *n, const char *device);
/* The variable whose value or handle this is, or NULL. */
const mr_net_var *mr_net_find(const mr_network *n, mr_out value_or_handle);
mr_out mr_net_global_step(mr_network *n);

/* Names are relative: a layer's nodes are NAME/MatMul and so on. */
void mr_net_enter(mr_network *n, const char *name, const char **saved_prefix);
void mr_net_leave(mr_network *n, const char *saved_prefix);

typedef enum mr_net_activation { MR_NET_LINEAR, MR_NET_RELU, MR_NET_TANH, MR_NET_SIGMOID } mr_net_activation;
mr_out mr_net_dense(mr_network *n, const char *name, mr_out x, int64_t units, mr_net_activation act);
mr_out mr_net_conv2d(mr_network *n, const char *name, mr_out x, int64_t filters, int64_t kernel, int64_t stride,
                     const char *padding, mr_net_activation act);
mr_out mr_net_pool(mr_network *n, const char *op, mr_out x, int64_t size, int64_t stride, const char *padding);
mr_out mr_net_dropout(mr_network *n, mr_out x, mr_out rate);
mr_out mr_net_flatten(mr_network *n, mr_out x);
mr_out mr_net_lstm(mr_network *n, const char *name, mr_out x, int64_t units, bool all_steps);
mr_out mr_net_embedding(mr_network *n, const char *name, mr_out ids, int64_t rows, int64_t columns);

mr_out mr_net_softmax_loss(mr_network *n, mr_out logits, mr_out labels);
mr_out mr_net_sigmoid_loss(mr_network *n, mr_out logits, mr_out targets);
mr_out mr_net_squared_loss(mr_network *n, mr_out values, mr_out targets);
mr_out mr_net_l2_penalty(mr_network *n, float weight);
mr_out mr_net_accuracy(mr_network *n, mr_out logits, mr_out labels);

typedef enum mr_net_optimizer_kind {
    MR_NET_SGD,
    MR_NET_MOMENTUM,
    MR_NET_NESTEROV,
    MR_NET_ADAGRAD,
    MR_NET_RMSPROP,
    MR_NET_ADAM,
} mr_net_optimizer_kind;

typedef struct mr_net_optimizer {
    mr_net_optimizer_kind kind;
    float rate;
    mr_out schedule;
    float a, b, epsilon, clip_norm;
} mr_net_optimizer;
mr_node *mr_net_minimize(mr_network *n, mr_out loss, const mr_net_optimizer *o);
/* The same with the mean of the gradients of several losses, each computed on the device of its loss (towers). */
mr_node *mr_net_minimize_towers(mr_network *n, const mr_out *losses, int n_losses, const mr_net_optimizer *o);

/* The two halves of mr_net_minimize: gradients of a loss, and updates from gradients. */
typedef struct mr_net_gradients {
    int n;
    int *var; /* index in mr_network.vars of the variable of the i-th gradient */
    mr_gradient *g;
} mr_net_gradients;
void mr_net_gradients_of(mr_network *n, mr_out loss, mr_net_gradients *out);
void mr_net_gradients_deinit(mr_net_gradients *g);
/* Updates, then the global step.  NULL after an error. */
mr_node *mr_net_apply(mr_network *n, const mr_net_optimizer *o, mr_net_gradients *g);
/* Adds up rows that occur more than once. */
void mr_net_sum_rows(mr_network *n, mr_gradient *g);

mr_out mr_net_exponential_decay(mr_network *n, float rate, int64_t steps, float factor, bool staircase);
mr_out mr_net_polynomial_decay(mr_network *n, float rate, int64_t steps, float end_rate, float power);
mr_out mr_net_piecewise(mr_network *n, int n_bounds, const int64_t *bounds, const float *rates);

#endif
