/* base/vec.h -- a growing array of any type.
 *
 *     MR_VEC(int) v = {0};
 *     mr_vec_push(&v, 3);
 *     for (int i = 0; i < v.n; i++) use(v.p[i]);
 *     mr_vec_deinit(&v);
 */
#ifndef MR_BASE_VEC_H
#define MR_BASE_VEC_H

#include "base/memory.h"

#define MR_VEC(T) \
    struct {      \
        T *p;     \
        int n, cap; \
    }

void mr_vec_grow(void **p, int *cap, int want, size_t elem_bytes);

#define mr_vec_reserve(v, want) \
    ((want) > (v)->cap ? mr_vec_grow((void **)&(v)->p, &(v)->cap, (want), sizeof(*(v)->p)) : (void)0)
#define mr_vec_push(v, ...) (mr_vec_reserve(v, (v)->n + 1), (void)((v)->p[(v)->n++] = (__VA_ARGS__)))
#define mr_vec_pop(v) ((v)->p[--(v)->n])
#define mr_vec_last(v) ((v)->p[(v)->n - 1])
/* Removes element i; the last one takes its place. */
#define mr_vec_remove_swap(v, i) ((void)((v)->p[i] = (v)->p[--(v)->n]))
#define mr_vec_deinit(v) (mr_free((v)->p), (v)->p = NULL, (v)->n = (v)->cap = 0)

#endif
