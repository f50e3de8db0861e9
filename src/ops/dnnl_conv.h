/* ops/dnnl_conv.h -- convolutions of floats by oneDNN: primitives, and the filters they take.
 *
 * A primitive is code generated for one geometry (and number of images), so a kernel keeps the primitives it
 * created: at most 16, the least recently used is dropped. Images have channels last; the filter is converted to
 * the format that the primitive prefers. One primitive may run in several threads at once, each with its own
 * execution. nn/conv_float.c describes how a batch is split over units and threads. */
#ifndef MR_OPS_DNNL_CONV_H
#define MR_OPS_DNNL_CONV_H

#include "ops/nn/conv.h"

typedef struct mr_dnnl_conv mr_dnnl_conv;     /* a primitive; immutable, reference-counted */
typedef struct mr_dnnl_convs mr_dnnl_convs;   /* the primitives of one kernel; safe from any thread */
typedef struct mr_dnnl_filter mr_dnnl_filter; /* a filter in a primitive's format */

enum { MR_DNNL_KEPT = 16 };
mr_dnnl_convs *mr_dnnl_convs_new(void);
void mr_dnnl_convs_free(mr_dnnl_convs *kept); /* NULL is fine */
int mr_dnnl_convs_count(mr_dnnl_convs *kept);

/* oneDNN's code counts some sizes in 32 bits. mr_dnnl_conv_fits is false for a geometry that must not be given to
 * it; MR_DNNL_LARGEST is the largest number of elements that all images of a unit may have together. */
bool mr_dnnl_conv_fits(const mr_conv *c);
#define MR_DNNL_LARGEST (INT64_C(1) << 28)
/* Finds or creates the primitive of a pass over c->batch images; `like` (or NULL) is another primitive whose filter
 * format it must share. The caller owns *out. */
mr_status *mr_dnnl_convs_get(mr_dnnl_convs *kept, mr_conv_pass pass, const mr_conv *c,
                             const mr_dnnl_conv *like, mr_dnnl_conv **out);
void mr_dnnl_conv_unref(mr_dnnl_conv *p); /* NULL is fine */

/* ---- filters ---- */
/* The number of floats that a filter in the primitive's format takes. */
int64_t mr_dnnl_conv_filter_size(const mr_dnnl_conv *p);
/* True if the format is TensorFlow's own, so that no reorder is needed. */
bool mr_dnnl_conv_plain(const mr_dnnl_conv *p);
/* Converts a filter to the primitive's format for passes that read one, and from it for the pass that produces one. */
mr_status *mr_dnnl_conv_reorder(const mr_dnnl_conv *p, mr_allocator *a, const float *from,
                                float *to);
/* Wraps a filter in memory that must outlive it; executions in several threads may share it. `held` (or NULL) is a
 * tensor that owns this memory: the filter takes a reference. */
mr_status *mr_dnnl_filter_new(const mr_dnnl_conv *p, const float *data, mr_tensor *held,
                              mr_dnnl_filter **out);
void mr_dnnl_filter_unref(mr_dnnl_filter *f); /* NULL is fine */
/* A constant filter is converted once. The first function returns the filter kept for `source`, owned by the
 * caller, or NULL; the second keeps one. source must never change (mr_tensor.readonly); a reference to it is kept,
 * so that no other tensor can get its address. */
mr_dnnl_filter *mr_dnnl_convs_filter(mr_dnnl_convs *kept, const mr_dnnl_conv *p,
                                     const mr_tensor *source);
void mr_dnnl_convs_keep(mr_dnnl_convs *kept, const mr_tensor *source, mr_dnnl_filter *f);

/* ---- executions: each for one thread at a time ---- */
typedef struct mr_dnnl_run mr_dnnl_run;
mr_status *mr_dnnl_run_new(mr_dnnl_conv *p, mr_allocator *a, mr_dnnl_run **out);
/* Runs one unit of images; the pass determines which of the three arrays is written. */
mr_status *mr_dnnl_run_unit(mr_dnnl_run *e, const float *image, const mr_dnnl_filter *f,
                            const float *out_image);
void mr_dnnl_run_free(mr_dnnl_run *e); /* NULL is fine */

#endif
