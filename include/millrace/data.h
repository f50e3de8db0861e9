/* millrace/data.h -- the MNIST digits, or generated digits in their place. */
#ifndef MILLRACE_DATA_H
#define MILLRACE_DATA_H

#include "millrace/millrace.h"
#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A set of images of handwritten digits with labels, held in memory. */
typedef struct mr_digits mr_digits;

/* One of the two parts of the data. */
typedef enum mr_split {
    MR_SPLIT_TRAIN, /* the training set */
    MR_SPLIT_TEST,  /* the test set */
} mr_split;

/* Loads MNIST from the four idx files in `folder`, and verifies their checksums. If folder is NULL or "", generates
 * images of digits instead, the same ones on every call. Returns NULL after an error. */
MR_EXPORT extern mr_digits *mr_digits_open(const char *folder, TF_Status *status);
/* Frees the digits. Tensors that came from mr_digits_batch stay valid. */
MR_EXPORT extern void mr_digits_free(mr_digits *d);
/* Returns "MNIST" or "generated digits". */
MR_EXPORT extern const char *mr_digits_name(const mr_digits *d);
/* Returns the number of examples in one of the two sets. */
MR_EXPORT extern int64_t mr_digits_count(const mr_digits *d, mr_split split);
/* Returns the n examples that start at position `first`. Each seed other than 0 shuffles the set in a different order;
 * 0 keeps the order of the files. Positions past the end continue at the beginning. *images becomes a float tensor [n,
 * 28, 28, 1] with values from 0 to 1, *labels an int32 tensor [n]; the caller deletes both. After an error both are
 * NULL. */
MR_EXPORT extern void mr_digits_batch(const mr_digits *d, mr_split split, uint64_t seed, int64_t first, int64_t n,
                                      TF_Tensor **images, TF_Tensor **labels, TF_Status *status);

#ifdef __cplusplus
}
#endif

#endif
