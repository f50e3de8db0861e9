/* millrace/train.h -- training from C: layers, losses, optimizers and checkpoints on a TF_Graph.
 *
 * A model collects what is built on a graph: its variables, how they start, and the first error.  Building
 * calls never fail by themselves; after an error they return {NULL, -1} and the error waits in
 * mr_model_status.  What comes out are plain operations: run them with TF_SessionRun, export the graph, load it
 * in TensorFlow.
 *
 *     mr_model *m = mr_model_new(graph);
 *     TF_Output x = mr_input(m, "x", TF_FLOAT, 2, (int64_t[]){-1, 784});
 *     TF_Output y = mr_input(m, "y", TF_INT32, 1, (int64_t[]){-1});
 *     TF_Output logits = mr_dense(m, "fc", x, 10, MR_LINEAR);
 *     TF_Output loss = mr_softmax_loss(m, logits, y);
 *     TF_Operation *train = mr_minimize(m, loss, mr_adam(0.001f));
 */
#ifndef MILLRACE_TRAIN_H
#define MILLRACE_TRAIN_H

#include "millrace/millrace.h"
#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_model mr_model;

/* The graph is borrowed and must outlive the model.  While a model builds, nobody else may add to the graph. */
MR_EXPORT extern mr_model *mr_model_new(TF_Graph *graph);
MR_EXPORT extern void mr_model_free(mr_model *m);
/* The first error of any building call, or OK. */
MR_EXPORT extern void mr_model_status(const mr_model *m, TF_Status *status);
/* Random initial values and dropout repeat for the same seed (default 1). */
MR_EXPORT extern void mr_model_seed(mr_model *m, int64_t seed);
/* Gives all variables their initial values. */
MR_EXPORT extern TF_Operation *mr_initializer(mr_model *m);
/* Number of parameters in trainable variables. */
MR_EXPORT extern int64_t mr_parameter_count(const mr_model *m);

/* A placeholder; a dimension of -1 is unknown. */
MR_EXPORT extern TF_Output mr_input(mr_model *m, const char *name, TF_DataType type, int num_dims, const int64_t *dims);
/* A scalar that is `value` unless fed. */
MR_EXPORT extern TF_Output mr_setting(mr_model *m, const char *name, float value);

/* ---- variables ---- */
typedef enum mr_init_kind {
    MR_INIT_CONSTANT,         /* a */
    MR_INIT_UNIFORM,          /* from a to b */
    MR_INIT_NORMAL,           /* mean a, deviation b */
    MR_INIT_TRUNCATED_NORMAL, /* the same, redrawn beyond two deviations */
    MR_INIT_GLOROT,           /* uniform by fan-in and fan-out */
    MR_INIT_HE                /* truncated normal by fan-in, for relu */
} mr_init_kind;
typedef struct mr_init {
    mr_init_kind kind;
    float a, b;
} mr_init;

/* A trainable variable; the result is its value.  All dims must be known. */
MR_EXPORT extern TF_Output mr_parameter(mr_model *m, const char *name, TF_DataType type, int num_dims, const int64_t *dims, mr_init init);
/* The same without gradient: counters, averages. */
MR_EXPORT extern TF_Output mr_state(mr_model *m, const char *name, TF_DataType type, int num_dims, const int64_t *dims, mr_init init);
/* The handle (resource) behind a variable's value, for ops that update it; {NULL, -1} when it is none. */
MR_EXPORT extern TF_Output mr_parameter_handle(mr_model *m, TF_Output value);
/* A variable that the graph has already, made by operations of one's own or by another front end. */
typedef struct mr_adopt_options {
    size_t struct_size;        /* sizeof(mr_adopt_options) */
    TF_Operation *initializer; /* gives it its initial value, in mr_initializer; NULL: whoever made it sees to that */
    unsigned char fixed;       /* as mr_state: without gradient */
    /* Whoever has differentiated the loss gives the result; otherwise that is done here.  gradient.oper NULL: none arrives.  One
     * that is rows has indices and dense_shape (int32 vector) too. */
    unsigned char differentiated;
    TF_Output gradient, indices, dense_shape;
} mr_adopt_options;
/* variable is the output of a VarHandleOp, or of a VariableV2 or Variable (a reference: of the optimizers only mr_sgd updates
 * it).  Its shape must be known.  Named by its operation; an int64 scalar without gradient that is named global_step is
 * mr_global_step.  options may be NULL.  The result is its value. */
MR_EXPORT extern TF_Output mr_model_adopt(mr_model *m, TF_Output variable, const mr_adopt_options *options);
/* Rows of a variable by index; its gradient is sparse. */
MR_EXPORT extern TF_Output mr_embedding(mr_model *m, const char *name, TF_Output ids, int64_t rows, int64_t columns);
/* A table of rows in several variables, NAME/part_0 and so on, which mr_replicate lays on different parameter servers.  Rows are
 * gathered where they lie: only those that are asked for travel, and so do their gradients. */
typedef enum mr_sharding {
    MR_SHARD_MOD, /* row i lies in shard i % n */
    MR_SHARD_DIV, /* each shard has rows that follow each other */
} mr_sharding;
typedef struct mr_table_options {
    size_t struct_size;   /* sizeof(mr_table_options) */
    int shards;           /* 0: one for each parameter server, or one */
    mr_sharding sharding;
    unsigned char zeros;  /* rows begin as zeros, not as `init` says */
    mr_init init;         /* all zero: uniform from -0.05 to 0.05 */
} mr_table_options;
/* ids of any shape -> [ids.., columns].  options may be NULL.  A step with mr_sgd, mr_momentum or mr_adagrad takes time by the rows
 * that it touches, not by the size of the table. */
MR_EXPORT extern TF_Output mr_embedding_sharded(mr_model *m, const char *name, TF_Output ids, int64_t rows, int64_t columns, const mr_table_options *options);
/* The softmax loss of a layer with so many classes that only the true one and num_sampled others are computed in a step.  x
 * [n, k], labels int32 or int64 [n].  Others are drawn log-uniformly: class 0 is to be the most frequent one.  The layer is the
 * tables NAME/weights and NAME/biases, made when they are not there yet. */
MR_EXPORT extern TF_Output mr_sampled_softmax_loss(mr_model *m, const char *name, TF_Output x, TF_Output labels, int64_t num_classes, int64_t num_sampled, const mr_table_options *options);
/* The same layer with all its classes: x [n, k] -> [n, num_classes], each shard's part computed beside it. */
MR_EXPORT extern TF_Output mr_sharded_logits(mr_model *m, const char *name, TF_Output x, int64_t num_classes, const mr_table_options *options);
/* int64 scalar, 0 at first, raised by one with each step of mr_minimize. */
MR_EXPORT extern TF_Output mr_global_step(mr_model *m);

/* ---- layers ---- */
typedef enum mr_activation { MR_LINEAR, MR_RELU, MR_TANH, MR_SIGMOID } mr_activation;
/* x [.., n] -> [.., units]. */
MR_EXPORT extern TF_Output mr_dense(mr_model *m, const char *name, TF_Output x, int64_t units, mr_activation activation);
/* x NHWC; a square kernel; padding "SAME" or "VALID". */
MR_EXPORT extern TF_Output mr_conv2d(mr_model *m, const char *name, TF_Output x, int64_t filters, int64_t kernel, int64_t stride, const char *padding, mr_activation activation);
MR_EXPORT extern TF_Output mr_max_pool(mr_model *m, TF_Output x, int64_t size, int64_t stride, const char *padding);
MR_EXPORT extern TF_Output mr_avg_pool(mr_model *m, TF_Output x, int64_t size, int64_t stride, const char *padding);
/* A long short-term memory over x [time, batch, n] from a zero state: h of every step [time, batch, units], or of
 * the last one [batch, units]. */
MR_EXPORT extern TF_Output mr_lstm(mr_model *m, const char *name, TF_Output x, int64_t units, unsigned char all_steps);
/* Drops each element with probability `rate` (a scalar float; 0 keeps all): feed an mr_setting while training. */
MR_EXPORT extern TF_Output mr_dropout(mr_model *m, TF_Output x, TF_Output rate);
/* [n, a, b, ..] -> [n, a*b*..]. */
MR_EXPORT extern TF_Output mr_flatten(mr_model *m, TF_Output x);

/* ---- losses and figures: scalars, means over the batch ---- */
MR_EXPORT extern TF_Output mr_softmax_loss(mr_model *m, TF_Output logits, TF_Output labels); /* labels int32/int64 [n] */
/* Both of one shape, or one of them a scalar or a row ([k] against [n, k]); [n, 1] against [n] is an error. */
MR_EXPORT extern TF_Output mr_sigmoid_loss(mr_model *m, TF_Output logits, TF_Output targets);
MR_EXPORT extern TF_Output mr_squared_loss(mr_model *m, TF_Output values, TF_Output targets);
MR_EXPORT extern TF_Output mr_l2_penalty(mr_model *m, float weight); /* weight * sum of squares / 2 of all trainable variables */
MR_EXPORT extern TF_Output mr_accuracy(mr_model *m, TF_Output logits, TF_Output labels);

/* ---- gradients ---- */
typedef struct mr_sparse_output { /* rows of a gradient: values[i] belongs to row indices[i] */
    TF_Output values, indices, dense_shape;
} mr_sparse_output;
typedef struct mr_gradient_value { /* dense, or rows (dense.oper NULL), or nothing (all NULL) */
    TF_Output dense;
    mr_sparse_output sparse; /* its dense_shape: int32 */
} mr_gradient_value;
typedef struct mr_gradients_options {
    size_t struct_size;         /* sizeof(mr_gradients_options) */
    const char *prefix;         /* of the new operations; NULL: "gradients" */
    const TF_Output *grad_ys;   /* incoming gradients, one a y; NULL: ones */
    const TF_Output *stop;      /* gradients do not flow past these */
    int num_stop;
    unsigned char colocate;     /* gradients on the device of their forward operation */
    /* Asked first for every operation on the way back: returns 1 when it set grad_inputs (one an input,
     * {NULL, -1}: none) itself from grad_outputs, 0 for the operation's own gradient. */
    int (*override)(void *arg, TF_Graph *graph, TF_Operation *op, const TF_Output *grad_outputs, TF_Output *grad_inputs);
    void *override_arg;
    /* Whether to ask `override` about an operation at all; NULL: always.  The others keep their sparse gradients. */
    int (*overrides)(void *arg, TF_Operation *op);
    /* Asked instead of `override` when it is set: gradients come as they are, and may be rows.  grad_inputs are set to
     * nothing. */
    int (*override_any)(void *arg, TF_Graph *graph, TF_Operation *op, const mr_gradient_value *grad_outputs, mr_gradient_value *grad_inputs);
} mr_gradients_options;
/* d(sum of ys)/dxs.  dense[i] is {NULL, -1} where the gradient is sparse (then sparse[i] has it) or where none
 * arrives.  With sparse NULL all results are dense.  options may be NULL.  The callbacks may add operations, and so may other
 * threads while they run.  After an error the operations that were added stay in the graph. */
MR_EXPORT extern void mr_gradients(TF_Graph *graph, const TF_Output *ys, int num_ys, const TF_Output *xs, int num_xs, const mr_gradients_options *options, TF_Output *dense, mr_sparse_output *sparse, TF_Status *status);

/* An operation whose gradient is asked for. */
typedef struct mr_gradient_call {
    size_t struct_size;            /* sizeof(mr_gradient_call), of the library */
    TF_Graph *graph;               /* to build in, valid during the call; it may be that of a function's body */
    TF_Operation *op;
    const char *prefix;            /* no operation of the graph has this name, or one that begins with it and a slash */
    const TF_Output *grad_outputs; /* one for each output of op; {NULL, -1}: none arrives there */
    TF_Output *grad_inputs;        /* to fill in, one for each input of op; {NULL, -1}, as at first: no gradient */
} mr_gradient_call;
typedef void mr_gradient_function(void *arg, const mr_gradient_call *call, TF_Status *status);
/* Registers the gradient of a client's op for mr_minimize, mr_gradients, TF_AddGradients and gradients of functions, in
 * all graphs, for the life of the process.  The function adds operations with the TF_ functions and sets grad_inputs; an
 * error that it puts into status ends the differentiation.  It is called by the thread that differentiates, so by several
 * at once for several graphs, and arg must stay valid.  function NULL: no gradient flows through the op.  ALREADY_EXISTS
 * when the op has a gradient.  op_type need not be defined yet.  Thread-safe. */
MR_EXPORT extern void mr_register_gradient(const char *op_type, mr_gradient_function *function, void *arg, TF_Status *status);

/* ---- optimizers ---- */
typedef enum mr_optimizer_kind { MR_SGD, MR_MOMENTUM, MR_NESTEROV, MR_ADAGRAD, MR_RMSPROP, MR_ADAM } mr_optimizer_kind;
typedef struct mr_optimizer {
    mr_optimizer_kind kind;
    float rate;       /* learning rate, unless `schedule` is set */
    TF_Output schedule; /* a scalar float, from the decays below or fed; {NULL, 0}: none */
    float a, b, epsilon; /* momentum; decay and momentum; beta1 and beta2; start of the accumulator */
    float clip_norm;  /* gradients are scaled down to this global norm; 0: off */
} mr_optimizer;
MR_EXPORT extern mr_optimizer mr_sgd(float rate);
MR_EXPORT extern mr_optimizer mr_momentum(float rate, float momentum);
MR_EXPORT extern mr_optimizer mr_nesterov(float rate, float momentum);
MR_EXPORT extern mr_optimizer mr_adagrad(float rate);
MR_EXPORT extern mr_optimizer mr_rmsprop(float rate);
MR_EXPORT extern mr_optimizer mr_adam(float rate);
/* One step: gradients of all trainable variables, their updates, then the global step.  NULL after an error: also when the model has
 * no trainable variable, or the loss depends on none. */
MR_EXPORT extern TF_Operation *mr_minimize(mr_model *m, TF_Output loss, mr_optimizer optimizer);
/* The second half of mr_minimize: updates variables (their values or handles, each once) by gradients that the caller
 * has computed (mr_gradients with respect to their handles) or changed.  gradients[i] is that of variables[i]; a variable
 * without one (dense.oper and sparse.values.oper are NULL) stays as it is, and at least one has a gradient.  The arrays
 * are the caller's.  NULL after an error, which is the model's then. */
MR_EXPORT extern TF_Operation *mr_apply_gradients(mr_model *m, int num_variables, const TF_Output *variables, const mr_gradient_value *gradients, mr_optimizer optimizer);

/* Learning rates that fall with the global step. */
MR_EXPORT extern TF_Output mr_exponential_decay(mr_model *m, float rate, int64_t steps, float factor, unsigned char staircase);
MR_EXPORT extern TF_Output mr_polynomial_decay(mr_model *m, float rate, int64_t steps, float end_rate, float power);
/* rates[i] up to and including step boundaries[i]; rates has one more entry. */
MR_EXPORT extern TF_Output mr_piecewise_rate(mr_model *m, int num_boundaries, const int64_t *boundaries, const float *rates);

/* ---- checkpoints ---- */
typedef struct mr_saver mr_saver;
/* Saves and restores all variables made so far; keeps the newest max_to_keep checkpoints (0: all). */
MR_EXPORT extern mr_saver *mr_saver_new(mr_model *m, int max_to_keep);
MR_EXPORT extern void mr_saver_free(mr_saver *s);
/* Writes PREFIX-STEP (step < 0: PREFIX) and names it in the `checkpoint` file of its folder. */
MR_EXPORT extern void mr_saver_save(mr_saver *s, TF_Session *session, const char *prefix, int64_t step, TF_Status *status);
MR_EXPORT extern void mr_saver_restore(mr_saver *s, TF_Session *session, const char *path, TF_Status *status);
/* Restores the newest checkpoint of a folder that is whole and returns 1; 0 when there is none. */
MR_EXPORT extern int mr_saver_restore_latest(mr_saver *s, TF_Session *session, const char *folder, TF_Status *status);

#ifdef __cplusplus
}
#endif

#endif
