/* ops/random/blocks.h -- many blocks of a Philox stream, and normally distributed numbers from them, at vector speed. */
#ifndef MR_OPS_RANDOM_BLOCKS_H
#define MR_OPS_RANDOM_BLOCKS_H

#include "ops/random/philox.h"

/* The n blocks from the counter on: out has 4 n words. */
void mr_philox_blocks(mr_philox p, int64_t n, uint32_t *out);
/* Two numbers from each two words, for n pairs of words: those of mr_philox_normal with the logf, sinf and cosf of
 * glibc 2.28 and later, to the bit or, where glibc multiplies and adds in one, very rarely to an ulp. */
void mr_philox_normals(int64_t n, const uint32_t *words, float *out);

#endif
