/* base/clock.h -- time. */
#ifndef MR_BASE_CLOCK_H
#define MR_BASE_CLOCK_H

#include <stdint.h>

int64_t mr_now_ns(void);      /* monotonic */
int64_t mr_wall_us(void);     /* since 1970 */
int64_t mr_thread_cpu_ns(void);
void mr_sleep_ns(int64_t ns);
uint64_t mr_random64(void); /* from the system, for ids and seeds */

#endif
