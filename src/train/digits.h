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

mr_status *mr_digits_load(const char *folder, struct mr_digits **out);
struct mr_digits *mr_digits_generate(int64_t n_train, int64_t n_test);
void mr_digits_drop(struct mr_digits *d);
mr_status *mr_digits_take(const struct mr_digits *d, int part, uint64_t seed, int64_t first, int64_t n,
                          mr_tensor **images, mr_tensor **labels);

#endif
