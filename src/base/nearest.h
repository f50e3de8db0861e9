/* base/nearest.h -- which known word a person probably meant. */
#ifndef MR_BASE_NEAREST_H
#define MR_BASE_NEAREST_H

#include "base/str.h"

/* The word of a list (n of them) that is fewest insertions, deletions, replacements and swaps of
 * neighbours away from what was written; NULL when none is near: more than a third of its letters
 * would change. */
const char *mr_nearest(mr_sv written, const char *const *words, int n);

#endif
