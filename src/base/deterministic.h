/* base/deterministic.h -- the same bits every time, on request.
 *
 * Float sums depend on the order of their parts. As a rule a loop is cut by how many threads there are; with this
 * setting it is cut as if there were always MR_SHARES of them, however many do the work. Gradients of several workers
 * are added up in a fixed order, not in that of their arrival, and random numbers without a seed have a fixed one. What
 * is left of chance is in the training itself: asynchronous updates come as they come.
 *
 * The setting is of the whole process: the environment's MILLRACE_DETERMINISTIC, if that is neither empty nor "0", or what was
 * set last. */
#ifndef MR_BASE_DETERMINISTIC_H
#define MR_BASE_DETERMINISTIC_H

#include <stdbool.h>

#include "base/pool.h"

enum { MR_SHARES = 16 };

bool mr_deterministic(void);
void mr_deterministic_set(bool on);
/* Into how many pieces work is to be cut for the threads of a pool: their number, or the fixed one. */
int mr_pool_shares(const mr_pool *p);

#endif
