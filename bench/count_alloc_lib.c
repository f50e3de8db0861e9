/* bench/count_alloc_lib.c -- counts the allocations of a process; used with LD_PRELOAD.
 *
 * malloc, calloc, realloc, the aligned kinds and mmap, of every thread and library. */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t alignment, size_t n);
long count_alloc(void);

static long n_calls;

long count_alloc(void) { return __atomic_load_n(&n_calls, __ATOMIC_RELAXED); }

static void one_more(void) { __atomic_add_fetch(&n_calls, 1, __ATOMIC_RELAXED); }

void *malloc(size_t n)
{
    one_more();
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    one_more();
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    one_more();
    return __libc_realloc(p, n);
}

void *memalign(size_t alignment, size_t n)
{
    one_more();
    return __libc_memalign(alignment, n);
}

void *aligned_alloc(size_t alignment, size_t n) { return memalign(alignment, n); }

int posix_memalign(void **p, size_t alignment, size_t n)
{
    *p = memalign(alignment, n);
    return *p ? 0 : ENOMEM;
}

void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    one_more();
    return (void *)syscall(SYS_mmap, at, n, protection, flags, fd, offset);
}
