/* millrace/train.h -- training from C: layers, losses, gradients, optimizers and checkpoints on a TF_Graph.
 *
 * A model builds operations on a graph, and remembers its variables, their initial values, and its first error.
 * Building functions have no status: after an error they return {NULL, -1} or NULL and do nothing, and mr_model_status
 * reports the error. The results are ordinary operations: run them with TF_SessionRun, export the graph, or load it in
 * TensorFlow.
 *
 *     mr_model *m = mr_model_new(graph);
 *     TF_Output x = mr_input(m, "x", TF_FLOAT, 2, (int64_t[]){-1, 784});
 *     TF_Output y = mr_input(m, "y", TF_INT32, 1, (int64_t[]){-1});
 *     TF_Output logits = mr_dense(m, "fc", x, 10, MR_LINEAR);
 *     TF_Output loss = mr_softmax_loss(m, logits, y);
 *     TF_Operation *train = mr_minimize(m, loss, mr_adam(0.001f)); */
#ifndef MILLRACE_TRAIN_H
#define MILLRACE_TRAIN_H

#include "millrace/millrace.h"
#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- models ---- */

/* Builds operations on a graph, and remembers the variables. */
typedef struct mr_model mr_model;

/* Creates a model that builds on `graph`. The graph must outlive the model. During a building call, no other thread may
 * add to the graph. */
MR_EXPORT extern mr_model *mr_model_new(TF_Graph *graph);
/* Frees the model; its operations stay in the graph. NULL is allowed. */
MR_EXPORT extern void mr_model_free(mr_model *m);
/* Reports the first error of any building call, or TF_OK. */
MR_EXPORT extern void mr_model_status(const mr_model *m, TF_Status *status);
/* Sets the seed of random initial values and dropout, which repeat for the same seed. The default is 1. */
MR_EXPORT extern void mr_model_seed(mr_model *m, int64_t seed);
/* Returns an operation that assigns the initial values to all variables made so far. */
MR_EXPORT extern TF_Operation *mr_initializer(mr_model *m);
/* Returns the number of elements in all trainable variables. */
MR_EXPORT extern int64_t mr_parameter_count(const mr_model *m);

/* Adds a placeholder. A dimension of -1 is unknown. */
MR_EXPORT extern TF_Output mr_input(mr_model *m, const char *name, TF_DataType type, int num_dims, const int64_t *dims);
/* Adds a float scalar that has the given value unless it is fed. */
MR_EXPORT extern TF_Output mr_setting(mr_model *m, const char *name, float value);

/* ---- variables ---- */

/* How a variable is initialized, with the fields a and b of mr_init. */
typedef enum mr_init_kind {
    MR_INIT_CONSTANT,         /* the constant a */
    MR_INIT_UNIFORM,          /* uniform from a to b */
    MR_INIT_NORMAL,           /* normal with mean a and standard deviation b */
    MR_INIT_TRUNCATED_NORMAL, /* the same; values beyond two standard deviations are drawn again */
    MR_INIT_GLOROT,           /* uniform, scaled by fan-in and fan-out (Glorot and Bengio) */
    MR_INIT_HE                /* truncated normal, scaled by fan-in, for relu (He et al.) */
} mr_init_kind;

/* The initial value of a variable. All zero is the constant 0. */
typedef struct mr_init {
    mr_init_kind kind; /* how to initialize */
    float a;           /* see mr_init_kind */
    float b;           /* see mr_init_kind */
} mr_init;

/* Adds a trainable variable and returns its value. All dimensions must be known. */
MR_EXPORT extern TF_Output mr_parameter(mr_model *m, const char *name, TF_DataType type, int num_dims,
                                        const int64_t *dims, mr_init init);
/* Adds a variable that is not trained, such as a counter or an average, and returns its value. */
MR_EXPORT extern TF_Output mr_state(mr_model *m, const char *name, TF_DataType type, int num_dims, const int64_t *dims,
                                    mr_init init);
/* Returns the resource handle of a variable whose value is given, for operations that update it; {NULL, -1} if it is
 * not the value of a variable. */
MR_EXPORT extern TF_Output mr_parameter_handle(mr_model *m, TF_Output value);

/* Options of mr_model_adopt. */
typedef struct mr_adopt_options {
    size_t struct_size; /* sizeof(mr_adopt_options) */
    /* Assigns the initial value; it becomes part of mr_initializer. NULL: the caller initializes the variable. */
    TF_Operation *initializer;
    unsigned char fixed; /* 1: the variable is not trained, as with mr_state */
    /* 1: the caller has computed the gradient of the loss, and gives it below. 0: mr_minimize computes it. */
    unsigned char differentiated;
    TF_Output gradient;    /* the dense gradient, or the rows of a sparse one; oper NULL: the variable has none */
    TF_Output indices;     /* of a sparse gradient: the row numbers */
    TF_Output dense_shape; /* of a sparse gradient: the shape of the variable, an int32 vector */
} mr_adopt_options;

/* Makes a variable that is already in the graph part of the model, and returns its value. `variable` is the output of a
 * VarHandleOp, VariableV2 or Variable; the latter two are references, which only mr_sgd can update. Its shape must be
 * known. The variable has the name of its operation. An int64 scalar that is not trained and is named global_step
 * becomes mr_global_step. */
MR_EXPORT extern TF_Output mr_model_adopt(mr_model *m, TF_Output variable, const mr_adopt_options *options);
/* Adds a table of rows and returns the rows with the given ids: [ids.., columns]. Its gradient is sparse. */
MR_EXPORT extern TF_Output mr_embedding(mr_model *m, const char *name, TF_Output ids, int64_t rows, int64_t columns);

/* How the rows of a table are distributed over its variables. */
typedef enum mr_sharding {
    MR_SHARD_MOD, /* row i is in shard i % n */
    MR_SHARD_DIV, /* each shard holds consecutive rows */
} mr_sharding;

/* Options of a table that is split into several variables, NAME/part_0 and so on, which mr_replicate
 * (millrace/cluster.h) places on different parameter servers. Rows are gathered on the server that holds them, so that
 * only the requested rows and their gradients are sent. */
typedef struct mr_table_options {
    size_t struct_size;   /* sizeof(mr_table_options) */
    int shards;           /* number of variables; 0: one per parameter server, or one */
    mr_sharding sharding; /* how rows are distributed */
    unsigned char zeros;  /* 1: rows are initially zero; `init` is ignored */
    mr_init init;         /* initial values; all zero: uniform from -0.05 to 0.05 */
} mr_table_options;

/* Adds a sharded table and returns the rows with the given ids: [ids.., columns]. With mr_sgd, mr_momentum and
 * mr_adagrad, the time of a step depends on the number of rows it uses, not on the size of the table. */
MR_EXPORT extern TF_Output mr_embedding_sharded(mr_model *m, const char *name, TF_Output ids, int64_t rows,
                                                int64_t columns, const mr_table_options *options);
/* Returns the softmax loss of a layer with so many classes that a step computes only the true class and num_sampled
 * others. x is [n, k], labels are int32 or int64 [n]. The others are drawn from a log-uniform distribution, so class 0
 * should be the most frequent one. The layer consists of the tables NAME/weights and NAME/biases, which are added if
 * they do not exist. */
MR_EXPORT extern TF_Output mr_sampled_softmax_loss(mr_model *m, const char *name, TF_Output x, TF_Output labels,
                                                   int64_t num_classes, int64_t num_sampled,
                                                   const mr_table_options *options);
/* Returns the logits of all classes of the same layer: x [n, k] -> [n, num_classes]. Each part is computed on the
 * server of its shard. */
MR_EXPORT extern TF_Output mr_sharded_logits(mr_model *m, const char *name, TF_Output x, int64_t num_classes,
                                             const mr_table_options *options);
/* Returns the global step, an int64 scalar that starts at 0. Each step of mr_minimize increments it by one. */
MR_EXPORT extern TF_Output mr_global_step(mr_model *m);

/* ---- layers ---- */

/* The function that a layer applies to its result. MR_LINEAR applies none. */
typedef enum mr_activation { MR_LINEAR, MR_RELU, MR_TANH, MR_SIGMOID } mr_activation;

/* Adds a fully connected layer: x [.., n] -> [.., units]. */
MR_EXPORT extern TF_Output mr_dense(mr_model *m, const char *name, TF_Output x, int64_t units,
                                    mr_activation activation);
/* Adds a 2-D convolution with a square kernel. x is [batch, height, width, channels]; padding is "SAME" or "VALID". */
MR_EXPORT extern TF_Output mr_conv2d(mr_model *m, const char *name, TF_Output x, int64_t filters, int64_t kernel,
                                     int64_t stride, const char *padding, mr_activation activation);
/* Adds a maximum over square windows. Arguments as for mr_conv2d. */
MR_EXPORT extern TF_Output mr_max_pool(mr_model *m, TF_Output x, int64_t size, int64_t stride, const char *padding);
/* Adds a mean over square windows. Arguments as for mr_conv2d. */
MR_EXPORT extern TF_Output mr_avg_pool(mr_model *m, TF_Output x, int64_t size, int64_t stride, const char *padding);
/* Adds a long short-term memory over x [time, batch, n], which starts from a zero state. Returns the outputs of all
 * time steps, [time, batch, units], if all_steps is 1, otherwise that of the last one, [batch, units]. */
MR_EXPORT extern TF_Output mr_lstm(mr_model *m, const char *name, TF_Output x, int64_t units, unsigned char all_steps);
/* Sets each element to zero with probability `rate`, a float scalar; 0 keeps all. To use it in training only, make rate
 * an mr_setting of 0 and feed it while training. */
MR_EXPORT extern TF_Output mr_dropout(mr_model *m, TF_Output x, TF_Output rate);
/* Reshapes [n, a, b, ..] to [n, a * b * ..]. */
MR_EXPORT extern TF_Output mr_flatten(mr_model *m, TF_Output x);

/* ---- losses and metrics ----
 *
 * All results are float scalars: means over the batch, except for mr_l2_penalty. */

/* Returns the cross entropy of softmax(logits) and the labels: logits [n, classes], labels int32 or int64 [n]. */
MR_EXPORT extern TF_Output mr_softmax_loss(mr_model *m, TF_Output logits, TF_Output labels);
/* Returns the cross entropy of sigmoid(logits) and the targets. Both have one shape, or one of them is a scalar or a
 * row ([k] against [n, k]). [n, 1] against [n] is an error. */
MR_EXPORT extern TF_Output mr_sigmoid_loss(mr_model *m, TF_Output logits, TF_Output targets);
/* Returns the mean squared difference. Shapes as for mr_sigmoid_loss. */
MR_EXPORT extern TF_Output mr_squared_loss(mr_model *m, TF_Output values, TF_Output targets);
/* Returns weight / 2 times the sum of squares of all trainable variables. */
MR_EXPORT extern TF_Output mr_l2_penalty(mr_model *m, float weight);
/* Returns the fraction of examples whose largest logit is that of the label. */
MR_EXPORT extern TF_Output mr_accuracy(mr_model *m, TF_Output logits, TF_Output labels);

/* ---- gradients ---- */

/* A sparse gradient: values[i] is the gradient of row indices[i]. Rows may occur several times; their gradients add
 * up. */
typedef struct mr_sparse_output {
    TF_Output values;      /* [n, ..], the rows */
    TF_Output indices;     /* [n], the row numbers */
    TF_Output dense_shape; /* shape of the whole gradient, an int32 vector */
} mr_sparse_output;

/* A gradient: dense, sparse (dense.oper is NULL), or none (all are NULL). */
typedef struct mr_gradient_value {
    TF_Output dense;
    mr_sparse_output sparse;
} mr_gradient_value;

/* Options of mr_gradients. */
typedef struct mr_gradients_options {
    size_t struct_size;       /* sizeof(mr_gradients_options) */
    const char *prefix;       /* prefix of the names of new operations; NULL: "gradients" */
    const TF_Output *grad_ys; /* incoming gradients, one per y; NULL: ones */
    const TF_Output *stop;    /* gradients do not flow past these */
    int num_stop;             /* number of these tensors */
    unsigned char colocate;   /* 1: place gradients on the devices of their forward operations */
    /* Called for every operation on the way back. Returns 1 if it has set grad_inputs, one per input ({NULL, -1}: no
     * gradient), from grad_outputs; 0 to use the registered gradient of the operation. */
    int (*override)(void *arg, TF_Graph *graph, TF_Operation *op, const TF_Output *grad_outputs,
                    TF_Output *grad_inputs);
    void *override_arg; /* passed to override, overrides and override_any */
    /* Returns whether to call override for an operation. NULL: always. Other operations keep their sparse gradients,
     * which override receives as dense ones. */
    int (*overrides)(void *arg, TF_Operation *op);
    /* Called instead of override if it is set: gradients are passed as they are, dense or sparse. grad_inputs are set
     * to none before the call. */
    int (*override_any)(void *arg, TF_Graph *graph, TF_Operation *op, const mr_gradient_value *grad_outputs,
                        mr_gradient_value *grad_inputs);
} mr_gradients_options;

/* Adds the operations that compute d(sum of ys)/dx for each x of xs. dense[i] becomes the gradient of xs[i], or {NULL,
 * -1} if it is sparse, in which case sparse[i] has it, or if there is none. If `sparse` is NULL, all results are dense.
 * The arrays have num_xs elements. The callbacks of the options may add operations, and so may other threads while they
 * run. After an error the operations that were added stay in the graph. */
MR_EXPORT extern void mr_gradients(TF_Graph *graph, const TF_Output *ys, int num_ys, const TF_Output *xs, int num_xs,
                                   const mr_gradients_options *options, TF_Output *dense, mr_sparse_output *sparse,
                                   TF_Status *status);

/* The arguments of a gradient function. */
typedef struct mr_gradient_call {
    size_t struct_size; /* size of the struct in the library */
    TF_Graph *graph;    /* the graph to build in, which may be that of a function body; valid during the call */
    TF_Operation *op;   /* the operation to differentiate */
    /* For names of new operations: no operation has this name, or one that starts with it and a slash. */
    const char *prefix;
    const TF_Output *grad_outputs; /* one per output of op; {NULL, -1}: no gradient arrives there */
    TF_Output *grad_inputs;        /* to be set, one per input of op; initially {NULL, -1}: no gradient */
} mr_gradient_call;

/* The type of a gradient function. An error that it sets in status ends the differentiation. */
typedef void mr_gradient_function(void *arg, const mr_gradient_call *call, TF_Status *status);

/* Registers the gradient of an op for mr_minimize, mr_gradients, TF_AddGradients and gradients of functions, in all
 * graphs, until the process ends. The function adds operations with the TF_ functions and sets grad_inputs. It is
 * called by the thread that differentiates, so possibly by several threads at once for several graphs; arg must stay
 * valid. If function is NULL, no gradient flows through the op. op_type need not be defined yet. Fails with
 * TF_ALREADY_EXISTS if the op has a gradient. Thread-safe. */
MR_EXPORT extern void mr_register_gradient(const char *op_type, mr_gradient_function *function, void *arg,
                                           TF_Status *status);

/* ---- optimizers ---- */

/* The update rule of an optimizer. */
typedef enum mr_optimizer_kind { MR_SGD, MR_MOMENTUM, MR_NESTEROV, MR_ADAGRAD, MR_RMSPROP, MR_ADAM } mr_optimizer_kind;

/* An optimizer. Start from one of the functions below, and change fields where needed. */
typedef struct mr_optimizer {
    mr_optimizer_kind kind; /* the update rule */
    float rate; /* learning rate, unless `schedule` is set */
    TF_Output schedule; /* learning rate as a float scalar: one of the decays below, or fed; {NULL, 0}: none */
    float a;       /* momentum and Nesterov: the momentum; Adagrad: initial accumulator; RMSProp: decay; Adam: beta1 */
    float b;       /* RMSProp: momentum; Adam: beta2 */
    float epsilon; /* RMSProp and Adam: added to denominators */
    float clip_norm; /* gradients are scaled down to this global norm; 0: off */
} mr_optimizer;

/* Returns plain stochastic gradient descent. */
MR_EXPORT extern mr_optimizer mr_sgd(float rate);
/* Returns gradient descent with momentum. */
MR_EXPORT extern mr_optimizer mr_momentum(float rate, float momentum);
/* Returns gradient descent with Nesterov momentum. */
MR_EXPORT extern mr_optimizer mr_nesterov(float rate, float momentum);
/* Returns Adagrad with an initial accumulator of 0.1. */
MR_EXPORT extern mr_optimizer mr_adagrad(float rate);
/* Returns RMSProp with decay 0.9, momentum 0 and epsilon 1e-10. */
MR_EXPORT extern mr_optimizer mr_rmsprop(float rate);
/* Returns Adam with beta1 0.9, beta2 0.999 and epsilon 1e-8. */
MR_EXPORT extern mr_optimizer mr_adam(float rate);
/* Returns an operation that runs one training step: it computes the gradients of all trainable variables, updates them,
 * and then increments the global step. NULL after an error, for example if the loss depends on no trainable
 * variable. */
MR_EXPORT extern TF_Operation *mr_minimize(mr_model *m, TF_Output loss, mr_optimizer optimizer);
/* The second half of mr_minimize: returns an operation that updates variables with gradients that the caller has
 * computed, by mr_gradients with respect to the handles, or changed. `variables` are values or handles, each once;
 * gradients[i] belongs to variables[i]. A variable without a gradient (dense.oper and sparse.values.oper are NULL) is
 * not updated; at least one must have a gradient. NULL after an error, which mr_model_status reports. */
MR_EXPORT extern TF_Operation *mr_apply_gradients(mr_model *m, int num_variables, const TF_Output *variables,
                                                  const mr_gradient_value *gradients, mr_optimizer optimizer);

/* Returns the learning rate `rate` * factor^(global step / steps). With staircase, the exponent is rounded down. */
MR_EXPORT extern TF_Output mr_exponential_decay(mr_model *m, float rate, int64_t steps, float factor,
                                                unsigned char staircase);
/* Returns a learning rate that goes from `rate` to `end_rate` in the given number of steps and then stays: (rate -
 * end_rate) * (1 - global step / steps)^power + end_rate. */
MR_EXPORT extern TF_Output mr_polynomial_decay(mr_model *m, float rate, int64_t steps, float end_rate, float power);
/* Returns the learning rate rates[i] up to and including the global step boundaries[i]. `rates` has num_boundaries + 1
 * entries; the last one applies after all boundaries. */
MR_EXPORT extern TF_Output mr_piecewise_rate(mr_model *m, int num_boundaries, const int64_t *boundaries,
                                             const float *rates);

/* ---- checkpoints ---- */

/* Saves and restores variables, in the format of TensorFlow's V2 checkpoints. */
typedef struct mr_saver mr_saver;

/* Creates a saver for all variables that the model has so far. It keeps the newest max_to_keep checkpoints (0: all).
 * mr_model_status reports errors. */
MR_EXPORT extern mr_saver *mr_saver_new(mr_model *m, int max_to_keep);
/* Frees the saver. NULL is allowed. */
MR_EXPORT extern void mr_saver_free(mr_saver *s);
/* Writes the checkpoint PREFIX-STEP (PREFIX if step is negative), records it in the file `checkpoint` of its folder,
 * and then removes old checkpoints. A crash at any time leaves a folder whose newest recorded checkpoint can be
 * loaded. */
MR_EXPORT extern void mr_saver_save(mr_saver *s, TF_Session *session, const char *prefix, int64_t step,
                                    TF_Status *status);
/* Restores the checkpoint with this prefix. */
MR_EXPORT extern void mr_saver_restore(mr_saver *s, TF_Session *session, const char *path, TF_Status *status);
/* Restores the newest undamaged checkpoint that the folder records, and returns 1. Returns 0 if the folder records
 * none. Fails if it records some but none can be loaded. */
MR_EXPORT extern int mr_saver_restore_latest(mr_saver *s, TF_Session *session, const char *folder, TF_Status *status);

#ifdef __cplusplus
}
#endif

#endif
