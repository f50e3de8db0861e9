/* ops/image/suppress.c -- non-maximum suppression.
 *
 * Candidates are in a heap with the best at the top. A candidate remembers with how many of the selected boxes it
 * has been compared, so that one that was put back is compared only with the later ones. */
#include "ops/image/suppress.h"

#include <math.h>

#include "run/scratch.h"

typedef struct candidate {
    float score;
    int32_t box;
    int32_t seen; /* selected boxes with which it has been compared */
} candidate;

typedef struct heap {
    candidate *p;
    int64_t n;
} heap;

static bool is_better(const candidate *a, const candidate *b)
{
    return a->score > b->score || (a->score == b->score && a->box < b->box);
}

static void sift_down(heap *h, int64_t at)
{
    for (candidate c = h->p[at];;) {
        int64_t kid = 2 * at + 1;
        if (kid + 1 < h->n && is_better(&h->p[kid + 1], &h->p[kid]))
            kid++;
        if (kid >= h->n || !is_better(&h->p[kid], &c)) {
            h->p[at] = c;
            return;
        }
        h->p[at] = h->p[kid];
        at = kid;
    }
}

/* fminf and fmaxf, which would be calls of the C library; most of the time is spent here. */
static inline float lesser(float a, float b)
{
    float least = a < b ? a : b; /* b if one is NaN */
    return b != b ? a : least;
}
static inline float greater(float a, float b)
{
    float most = a > b ? a : b;
    return b != b ? a : most;
}

float mr_overlap_of_boxes(const mr_suppress *s, int64_t i, int64_t k)
{
    const float *a = s->data + i * s->stride, *b = s->data + k * s->stride;
    float top_a = lesser(a[0], a[2]), bottom_a = greater(a[0], a[2]);
    float top_b = lesser(b[0], b[2]), bottom_b = greater(b[0], b[2]);
    float left_a = lesser(a[1], a[3]), right_a = greater(a[1], a[3]);
    float left_b = lesser(b[1], b[3]), right_b = greater(b[1], b[3]);
    float area_a = (bottom_a - top_a) * (right_a - left_a), area_b = (bottom_b - top_b) * (right_b - left_b);
    if (area_a <= 0 || area_b <= 0)
        return 0;
    float h = greater(lesser(bottom_a, bottom_b) - greater(top_a, top_b), 0);
    float w = greater(lesser(right_a, right_b) - greater(left_a, left_b), 0);
    return h * w / (area_a + area_b - h * w);
}

/* Compares the best candidate with the boxes selected since its last comparison, the latest first, because they are
 * likely to be near. False: it is dropped. */
static bool survives_taken(const mr_suppress *s, candidate *c, const int32_t *taken, int64_t n_taken)
{
    for (int64_t k = n_taken - 1; k >= c->seen; k--) {
        float overlap = s->overlap(s, c->box, taken[k]);
        if (s->sigma > 0)
            c->score *= overlap <= s->threshold ? expf(-0.5f / s->sigma * overlap * overlap) : 0;
        else if (overlap > s->threshold)
            return false;
        if (!(c->score > s->score_threshold)) /* also false for a NaN */
            return false;
    }
    c->seen = (int32_t)n_taken;
    return true;
}

static mr_status *gather_candidates(const mr_run *r, const mr_suppress *s, heap *h)
{
    if (!(h->p = mr_scratch_zeroed(r, (size_t)s->n, sizeof(candidate))))
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld boxes", (long long)s->n);
    for (int64_t i = 0; i < s->n; i++)
        if (s->scores[i] > s->score_threshold) /* false for a NaN */
            h->p[h->n++] = (candidate){s->scores[i], (int32_t)i, 0};
    for (int64_t i = h->n / 2; i-- > 0;)
        sift_down(h, i);
    return NULL;
}

mr_status *mr_suppress_run(const mr_run *r, const mr_suppress *s, int32_t *indices, float *scores, int64_t *n_taken)
{
    heap h = {0};
    mr_status *st = NULL;
    *n_taken = 0;
    if (s->limit <= 0)
        return NULL;
    MR_GO(gather_candidates(r, s, &h));
    for (uint64_t turn = 1; *n_taken < s->limit && h.n > 0; turn++) {
        candidate *best = &h.p[0];
        float score = best->score;
        if (turn % 128 == 0 && s->cancel && mr_cancel_started(s->cancel))
            MR_GO(mr_error(MR_CANCELLED, "non-maximum suppression was cancelled"));
        bool stays = survives_taken(s, best, indices, *n_taken);
        if (stays && best->score == score) {
            if (scores)
                scores[*n_taken] = score;
            indices[(*n_taken)++] = best->box;
        }
        if (!stays || best->score == score)
            h.p[0] = h.p[--h.n];
        if (h.n > 0)
            sift_down(&h, 0);
    }
out:
    mr_scratch_free(h.p);
    return st;
}
