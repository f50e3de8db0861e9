/* train/table.h -- tables of rows, split into shards on several parameter servers.
 *
 * Rows are found by number: each number goes to its shard, the shard gathers on its own device, and the rows are put
 * together where they are needed.  So only requested rows travel, each of them once, and their gradients return the
 * same way, as rows. */
#ifndef MR_TRAIN_TABLE_H
#define MR_TRAIN_TABLE_H

#include "train/nn.h"

typedef enum mr_nn_split {
    MR_NN_MOD, /* row i is in shard i % n: neighbours are spread */
    MR_NN_DIV, /* each shard has consecutive rows; the first shards have one more if the rows do not divide evenly */
} mr_nn_split;

typedef struct mr_nn_table {
    int64_t rows, columns;
    int n_shards;
    mr_nn_split split;
    int *shards; /* variables, by shard: numbers in mr_nn.vars; in the graph's arena */
} mr_nn_table;

/* Variables NAME/part_0 and so on.  shards 0: one for each parameter server, or one.  False after an error, which is in
 * the scope. */
bool mr_nn_table_init(mr_nn *n, mr_nn_table *t, const char *name, int64_t rows, int64_t columns, int shards,
                       mr_nn_split split, mr_nn_init init);
/* ids of any shape -> [ids.., columns].  A number outside the table fails the run. */
mr_out mr_nn_table_rows(mr_nn *n, const mr_nn_table *t, mr_out ids);
/* x [batch, columns] -> [batch, rows]: the product with every row, computed on the device of each shard. */
mr_out mr_nn_table_product(mr_nn *n, const mr_nn_table *t, mr_out x);
/* The softmax loss over the true classes and `sampled` others, drawn log-uniformly: class 0 has to be the most frequent
 * one.  x [batch, columns], labels int32 or int64 [batch]; biases has one column. */
mr_out mr_nn_sampled_softmax(mr_nn *n, const mr_nn_table *weights, const mr_nn_table *biases, mr_out x, mr_out labels,
                              int64_t sampled);

#endif
