/* distbelief/mirror.h -- the layout of a model's trainable variables on the parameter servers.
 *
 * All variables with dense gradients form one vector, one after the other, divided into keys of `width` floats
 * regardless of where a variable ends.  So ranges of keys have the same size and servers hold equal shares, however
 * uneven the variables are. A variable whose gradient is rows (an embedding) has a separate table with one key per row,
 * so that only changed rows are pushed; with `rows` false it is in the vector like the others.
 *
 * A mirror adds the nodes that move values between variables and vector to the model's graph: placeholders,
 * assignments, and the gradients as floats.  Any session on the graph works: in this process, in a task, over several
 * devices. */
#ifndef MR_DISTBELIEF_MIRROR_H
#define MR_DISTBELIEF_MIRROR_H

#include "exec/session.h"
#include "train/nn.h"

typedef struct mr_mirror_part { /* a variable */
    const char *name;
    int rank;
    int64_t dims[MR_MAX_RANK];
    int64_t n;
    bool rows;       /* it has a separate table: n / columns keys of `columns` floats */
    int64_t columns;
    int64_t at;      /* else: where it begins in the vector */
    mr_out value;    /* as floats */
    mr_out feed;     /* the value to assign, floats */
    mr_out gradient; /* floats; node NULL: there is none */
    mr_out indices;  /* rows: which */
} mr_mirror_part;

typedef struct mr_mirror {
    MR_VEC(mr_mirror_part) parts;
    int64_t n;       /* floats of the vector, including the padding of the last key */
    int width;
    uint64_t keys;
    mr_out loss;     /* float */
    mr_node *install; /* assigns the fed values to all variables */
    mr_node *local;   /* a local update with local_rate; NULL: local_rate is 0 */
} mr_mirror;

/* Errors are kept in the network's scope. */
void mr_mirror_build(mr_nn *n, mr_out loss, bool rows, float local_rate, mr_mirror *out);
void mr_mirror_deinit(mr_mirror *m);

/* Where the values of each part are: in the vector, or in the part's own array (n floats), by number of the part. */
typedef struct mr_mirror_values {
    float *vector;
    float **tables; /* NULL where a part is in the vector */
} mr_mirror_values;
/* All values are zero. RESOURCE_EXHAUSTED. */
mr_status *mr_mirror_values_init(const mr_mirror *m, mr_mirror_values *v);
void mr_mirror_values_deinit(const mr_mirror *m, mr_mirror_values *v);
static inline float *mr_mirror_at(const mr_mirror *m, const mr_mirror_values *v, int part)
{
    return m->parts.p[part].rows ? v->tables[part] : v->vector + m->parts.p[part].at;
}

/* Copies values from the session's variables, and to them. */
mr_status *mr_mirror_read(const mr_mirror *m, mr_session *s, mr_mirror_values *v);
mr_status *mr_mirror_install(const mr_mirror *m, mr_session *s, const mr_mirror_values *v);

/* One run for the client's fetches, its targets and all gradients.  gradients has two tensors for each part, values and
 * (for rows) indices, NULL where there is none; the caller owns them.  loss may be NULL. */
mr_status *mr_mirror_run(const mr_mirror *m, mr_session *s, const mr_run_args *client, mr_cancel *cancel, mr_tensor **gradients,
                         float *loss);
void mr_mirror_drop(const mr_mirror *m, mr_tensor **gradients);
/* v += by * gradients.  touched (may be NULL): for each part with rows, one byte per row, set where something was
 * added. INVALID_ARGUMENT for a gradient whose shape is not its variable's, or a row that does not exist. */
mr_status *mr_mirror_add(const mr_mirror *m, mr_tensor *const *gradients, float by, mr_mirror_values *v, uint8_t **touched);

#endif
