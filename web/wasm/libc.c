/* web/wasm/libc.c -- what glibc has and Emscripten's C library has not. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sysinfo.h>
#include <unistd.h>

/* ---- sorting: stable, as in glibc, so that equal elements are in the same order here and there ---- */

typedef int (*compare_fn)(const void *a, const void *b, void *arg);

/* Merges the sorted ranges [0, half) and [half, n) of `from` into `to`. */
static void merge(const char *from, size_t half, size_t n, size_t size, compare_fn compare, void *arg, char *to)
{
    const char *a = from, *a_end = from + half * size, *b = a_end, *b_end = from + n * size;
    while (a < a_end && b < b_end) {
        const char **least = compare(a, b, arg) <= 0 ? &a : &b;
        memcpy(to, *least, size);
        *least += size;
        to += size;
    }
    memcpy(to, a, (size_t)(a_end - a));
    memcpy(to + (a_end - a), b, (size_t)(b_end - b));
}

static void merge_sort(char *p, size_t n, size_t size, compare_fn compare, void *arg, char *space)
{
    if (n < 2)
        return;
    size_t half = n / 2;
    merge_sort(p, half, size, compare, arg, space);
    merge_sort(p + half * size, n - half, size, compare, arg, space);
    memcpy(space, p, n * size);
    merge(space, half, n, size, compare, arg, p);
}

/* Without memory nothing can be sorted, and nothing that follows would be right. */
void qsort_r(void *base, size_t n, size_t size, compare_fn compare, void *arg)
{
    if (n < 2)
        return;
    char *space = malloc(n * size);
    if (!space)
        abort();
    merge_sort(base, n, size, compare, arg, space);
    free(space);
}

static int compare_plain(const void *a, const void *b, void *arg)
{
    return (*(int (**)(const void *, const void *))arg)(a, b);
}

void qsort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *))
{
    qsort_r(base, n, size, compare_plain, &compare);
}

char *mr_libc_strerror(int err, char *text, size_t n)
{
    (void)text, (void)n;
    return strerror(err); /* there is one thread */
}

/* ---- the machine: one thread, and nothing is known about it ---- */

int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
    (void)pid, (void)bytes, (void)set;
    errno = ENOSYS;
    return -1;
}

int __sched_cpucount(size_t bytes, const cpu_set_t *set)
{
    (void)bytes, (void)set;
    return 1;
}

int pthread_setname_np(pthread_t t, const char *name)
{
    (void)t, (void)name;
    return ENOSYS;
}

int sysinfo(struct sysinfo *out)
{
    (void)out;
    errno = ENOSYS;
    return -1;
}

ssize_t getrandom(void *out, size_t n, unsigned flags)
{
    (void)flags;
    return n <= 256 && getentropy(out, n) == 0 ? (ssize_t)n : -1;
}
