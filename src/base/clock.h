/* base/clock.h -- time. */
#ifndef MR_BASE_CLOCK_H
#define MR_BASE_CLOCK_H

#include <stdint.h>

#include "base/status.h"

int64_t mr_now_ns(void);      /* monotonic */
int64_t mr_wall_us(void);     /* since 1970 */
int64_t mr_thread_cpu_ns(void);
void mr_sleep_ns(int64_t ns);
uint64_t mr_random64(void); /* for ids, seeds and hashes; from clock and pid if the system has no random bytes */
mr_status *mr_random_secret(void *out, size_t n); /* for keys and tokens: the system's random bytes or UNAVAILABLE */

#endif
