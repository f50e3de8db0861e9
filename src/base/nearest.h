/* base/nearest.h -- finds the known word that a person probably meant. */
#ifndef MR_BASE_NEAREST_H
#define MR_BASE_NEAREST_H

#include "base/str.h"

/* The word of a list of n words that needs the fewest insertions, deletions, replacements and swaps
 * of neighbours to become the given word; NULL if none is near, that is if more than a third of its
 * letters would change. */
const char *mr_nearest(mr_sv written, const char *const *words, int n);

#endif
