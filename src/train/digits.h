/* train/digits.h -- MNIST from its files, or digits drawn here; see millrace/data.h. */
#ifndef MR_TRAIN_DIGITS_H
#define MR_TRAIN_DIGITS_H

#include "tensor/tensor.h"

enum { MR_DIGIT_SIDE = 28, MR_DIGIT_PIXELS = MR_DIGIT_SIDE * MR_DIGIT_SIDE };

typedef struct mr_digits_part { /* training or test */
    int64_t n;
    uint8_t *images; /* n * MR_DIGIT_PIXELS */
    uint8_t *labels;
} mr_digits_part;

struct mr_digits {
    mr_digits_part part[2];
    bool generated;
};

/* Reads the four files of MNIST from a folder.  NOT_FOUND or DATA_LOSS names the file. */
mr_status *mr_digits_load(const char *folder, struct mr_digits **out);
/* Draws so many digits, the same ones each time. */
struct mr_digits *mr_digits_generate(int64_t n_train, int64_t n_test);
void mr_digits_drop(struct mr_digits *d); /* accepts NULL */
/* A batch of n examples from number `first` on, in the order that the seed gives (0: that of the files).  The caller
 * owns both tensors. */
mr_status *mr_digits_take(const struct mr_digits *d, int part, uint64_t seed, int64_t first, int64_t n,
                          mr_tensor **images, mr_tensor **labels);

#endif
