/* distbelief/mirror.h -- a model's trainable variables as they lie on the parameter servers.
 *
 * All variables with dense gradients are one vector, one behind the other, cut into keys of `width` floats without regard
 * to where a variable ends: so ranges of keys are of the same size, and servers hold the same share, however uneven the
 * variables are.  A variable whose gradient is rows (an embedding) has a table of its own, with a key a row, so that only
 * rows which changed are pushed; with `rows` false it is in the vector like the others.
 *
 * A mirror adds to the model's graph what moves values between variables and vector: placeholders and assignments, and the
 * gradients as floats.  Any session on the graph will do: of this process, of a task, over several devices. */
#ifndef MR_DISTBELIEF_MIRROR_H
#define MR_DISTBELIEF_MIRROR_H

#include "exec/session.h"
#include "train/net.h"

typedef struct mr_mirror_part { /* a variable */
    const char *name;
    int rank;
    int64_t dims[MR_MAX_RANK];
    int64_t n;
    bool rows;       /* it has a table of its own: n / columns keys of `columns` floats */
    int64_t columns;
    int64_t at;      /* else: where it begins in the vector */
    mr_out value;    /* as floats */
    mr_out feed;     /* what it is to be, floats */
    mr_out gradient; /* floats; node NULL: none arrives */
    mr_out indices;  /* rows: which */
} mr_mirror_part;

typedef struct mr_mirror {
    MR_VEC(mr_mirror_part) parts;
    int64_t n;       /* floats of the vector, those of the last key that nobody uses among them */
    int width;
    uint64_t keys;
    mr_out loss;     /* float */
    mr_node *install; /* assigns what is fed */
    mr_node *local;   /* moves the variables themselves by local_rate times the gradient; NULL: that is 0 */
} mr_mirror;

/* Errors are kept in the network's scope. */
void mr_mirror_build(mr_network *n, mr_out loss, bool rows, float local_rate, mr_mirror *out);
void mr_mirror_deinit(mr_mirror *m);

/* Where the values of each part are: in the vector, or in the part's own array (n floats), by number of the part. */
typedef struct mr_mirror_values {
    float *vector;
    float **tables; /* NULL where a part is in the vector */
} mr_mirror_values;
/* RESOURCE_EXHAUSTED; all zero. */
mr_status *mr_mirror_values_init(const mr_mirror *m, mr_mirror_values *v);
void mr_mirror_values_deinit(const mr_mirror *m, mr_mirror_values *v);
static inline float *mr_mirror_at(const mr_mirror *m, const mr_mirror_values *v, int part)
{
    return m->parts.p[part].rows ? v->tables[part] : v->vector + m->parts.p[part].at;
}

/* From the session's variables, and to them. */
mr_status *mr_mirror_read(const mr_mirror *m, mr_session *s, mr_mirror_values *v);
mr_status *mr_mirror_install(const mr_mirror *m, mr_session *s, const mr_mirror_values *v);

/* One run for the client's fetches and all gradients: gradients has two a part, values and (of rows) indices, NULL where
 * there is none; to be unreffed.  loss may be NULL.  The client's targets run too. */
mr_status *mr_mirror_run(const mr_mirror *m, mr_session *s, const mr_run_args *client, mr_cancel *cancel, mr_tensor **gradients,
                         float *loss);
void mr_mirror_drop(const mr_mirror *m, mr_tensor **gradients);
/* v += by * gradients.  touched (may be NULL): by part with rows, a byte a row, set where something was added.
 * INVALID_ARGUMENT for a gradient of another shape than its variable's, or a row that is none. */
mr_status *mr_mirror_add(const mr_mirror *m, mr_tensor *const *gradients, float by, mr_mirror_values *v, uint8_t **touched);

#endif
