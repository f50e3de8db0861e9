/* millrace/data.h -- the handwritten digits most first networks are trained on. */
#ifndef MILLRACE_DATA_H
#define MILLRACE_DATA_H

#include "millrace/millrace.h"
#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_digits mr_digits;
typedef enum mr_split { MR_SPLIT_TRAIN, MR_SPLIT_TEST } mr_split;

/* MNIST from a folder with its four idx files, whose checksums are verified.  NULL or "": digits that are drawn
 * here instead, the same ones every time. */
MR_EXPORT extern mr_digits *mr_digits_open(const char *folder, TF_Status *status);
MR_EXPORT extern void mr_digits_free(mr_digits *d);
/* "MNIST" or "generated digits". */
MR_EXPORT extern const char *mr_digits_name(const mr_digits *d);
MR_EXPORT extern int64_t mr_digits_count(const mr_digits *d, mr_split split);
/* Examples first .. first+n-1 in an order that each seed shuffles differently (0: as they lie): images
 * [n,28,28,1] float in 0..1 and labels [n] int32, both to be deleted.  Past the end it starts over. */
MR_EXPORT extern void mr_digits_batch(const mr_digits *d, mr_split split, uint64_t seed, int64_t first, int64_t n, TF_Tensor **images, TF_Tensor **labels, TF_Status *status);

#ifdef __cplusplus
}
#endif

#endif
