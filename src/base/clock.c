/* base/clock.c -- time, and random bits from the system. */
#include "base/clock.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)

static int64_t read_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return t.tv_sec * NS_PER_S + t.tv_nsec;
}

int64_t mr_now_ns(void) { return read_ns(CLOCK_MONOTONIC); }

int64_t mr_wall_us(void) { return read_ns(CLOCK_REALTIME) / 1000; }

int64_t mr_thread_cpu_ns(void) { return read_ns(CLOCK_THREAD_CPUTIME_ID); }

void mr_sleep_ns(int64_t ns)
{
    if (ns <= 0)
        return;
    int64_t now = mr_now_ns(), until;
    if (__builtin_add_overflow(now, ns, &until))
        until = INT64_MAX;
    /* To a fixed end: a signal in between must not lengthen the sleep. */
    struct timespec t = {until / NS_PER_S, until % NS_PER_S};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

/* splitmix64's finalizer. */
static uint64_t mix_bits(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Random bytes from the system; false with errno set if it refuses them, as in some sandboxes. */
static bool random_bytes(void *out, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = getrandom((char *)out + done, n - done, 0);
        if (got < 0 && errno != EINTR)
            return false;
        done += got > 0 ? (size_t)got : 0;
    }
    return true;
}

uint64_t mr_random64(void)
{
    uint64_t v;
    if (random_bytes(&v, sizeof(v)))
        return v;
    /* Differs between calls, processes and hosts, but can be guessed. */
    static _Atomic uint64_t calls;
    return mix_bits(mix_bits((uint64_t)read_ns(CLOCK_REALTIME)) ^ mix_bits((uint64_t)getpid()) ^ mix_bits(++calls));
}

mr_status *mr_random_secret(void *out, size_t n)
{
    if (random_bytes(out, n))
        return NULL;
    return mr_error(MR_UNAVAILABLE, "Cannot get random bytes for keys and tokens: %s", strerror(errno));
}
