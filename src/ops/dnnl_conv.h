/* ops/dnnl_conv.h -- convolutions of floats by oneDNN: primitives, and the filters they take.
 *
 * A primitive is code made for one geometry (and number of images), so a kernel keeps those it
 * made: at most 16, the least recently used goes.  Images have channels last; the filter is brought
 * into the form that the primitive likes best.  One primitive may run in several threads at once,
 * each with an execution of its own.  How a batch is split over units and threads is told in
 * nn/conv_float.c. */
#ifndef MR_OPS_DNNL_CONV_H
#define MR_OPS_DNNL_CONV_H

#include "ops/nn/conv.h"

typedef struct mr_dnnl_conv mr_dnnl_conv;     /* a primitive; immutable, counted */
typedef struct mr_dnnl_convs mr_dnnl_convs;   /* those of one kernel; safe from any thread */
typedef struct mr_dnnl_filter mr_dnnl_filter; /* a filter in a primitive's form */

enum { MR_DNNL_KEPT = 16 };
mr_dnnl_convs *mr_dnnl_convs_new(void);
void mr_dnnl_convs_free(mr_dnnl_convs *kept); /* NULL is fine */
int mr_dnnl_convs_count(mr_dnnl_convs *kept);

/* oneDNN's code counts some sizes in 32 bits: false for a geometry that it must not be given, and
 * the largest number of elements of all images of a unit. */
bool mr_dnnl_conv_fits(const mr_conv *c);
#define MR_DNNL_LARGEST (INT64_C(1) << 28)
/* The primitive of a pass over c->batch images, made when it is not there; `like` (or NULL) is
 * another one whose form of the filter it must share.  The caller owns *out. */
mr_status *mr_dnnl_convs_get(mr_dnnl_convs *kept, mr_conv_pass pass, const mr_conv *c,
                             const mr_dnnl_conv *like, mr_dnnl_conv **out);
void mr_dnnl_conv_unref(mr_dnnl_conv *p); /* NULL is fine */

/* ---- filters ---- */
/* Floats that a filter in the primitive's form takes. */
int64_t mr_dnnl_conv_filter_size(const mr_dnnl_conv *p);
/* The form is TensorFlow's own: nothing is to be reordered. */
bool mr_dnnl_conv_plain(const mr_dnnl_conv *p);
/* Into the primitive's form, for the passes that read a filter; out of it for the one that makes
 * it. */
mr_status *mr_dnnl_conv_reorder(const mr_dnnl_conv *p, mr_allocator *a, const float *from,
                                float *to);
/* A filter in memory, which must outlive it; may be shared by executions in several threads. `held`
 * (or NULL) is a tensor that holds this memory: it is referenced. */
mr_status *mr_dnnl_filter_new(const mr_dnnl_conv *p, const float *data, mr_tensor *held,
                              mr_dnnl_filter **out);
void mr_dnnl_filter_unref(mr_dnnl_filter *f); /* NULL is fine */
/* A constant is brought into a form once: as kept for `source`, owned by the caller, or NULL; and
 * keeping it.  source must never change (mr_tensor.readonly); it is held, so that no other takes
 * its place. */
mr_dnnl_filter *mr_dnnl_convs_filter(mr_dnnl_convs *kept, const mr_dnnl_conv *p,
                                     const mr_tensor *source);
void mr_dnnl_convs_keep(mr_dnnl_convs *kept, const mr_tensor *source, mr_dnnl_filter *f);

/* ---- executions: for one thread at a time ---- */
typedef struct mr_dnnl_run mr_dnnl_run;
mr_status *mr_dnnl_run_new(mr_dnnl_conv *p, mr_allocator *a, mr_dnnl_run **out);
/* One unit of images; which of the three is written is the pass's to say. */
mr_status *mr_dnnl_run_unit(mr_dnnl_run *e, const float *image, const mr_dnnl_filter *f,
                            const float *out_image);
void mr_dnnl_run_free(mr_dnnl_run *e); /* NULL is fine */

#endif
