/* web/wasm/libc.h -- what glibc has and Emscripten's C library has not. It is included before every source file. */
#ifndef MR_WASM_LIBC_H
#define MR_WASM_LIBC_H

#include <stddef.h>
#include <string.h>

/* glibc's strerror_r returns the text, POSIX's does not. */
char *mr_libc_strerror(int err, char *text, size_t n);
#define strerror_r mr_libc_strerror

void qsort_r(void *base, size_t n, size_t size, int (*compare)(const void *a, const void *b, void *arg), void *arg);

#endif
