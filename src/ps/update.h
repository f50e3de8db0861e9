/* ps/update.h -- what a push does to the rows of a table.
 *
 * The rows that a server holds of one range are planes of floats, one behind the other: plane 0 has
 * the values, the others what the rule keeps beside them (Adagrad's sums, say); each has n_rows *
 * width floats. So a pull reads one plane, and a copy or a snapshot is one block. A rule has no
 * state but its planes, which is why replicas that apply the same pushes in the same order hold the
 * same bits.
 *
 * The formulas are those of ops/optim: a pushed row becomes what ApplyX would make of it. Rows that
 * are not pushed stay as they are, also with momentum ("lazy" in TensorFlow's terms). */
#ifndef MR_PS_UPDATE_H
#define MR_PS_UPDATE_H

#include <stdint.h>

#include "base/status.h"

typedef enum mr_ps_rule_kind { /* in the order of mr_ps_update in millrace/ps.h */
    MR_RULE_ASSIGN,
    MR_RULE_ADD,
    MR_RULE_SGD,      /* with l1 or l2: ApplyProximalGradientDescent */
    MR_RULE_MOMENTUM, /* a: momentum (0: 0.9); b not 0: Nesterov's */
    MR_RULE_ADAGRAD,  /* a: where the sums start (0: 0.1); with l1 or l2: ApplyProximalAdagrad */
    MR_RULE_RMSPROP,  /* a: decay (0: 0.9), b: momentum, epsilon (0: 1e-10) */
    MR_RULE_ADAM,     /* a: beta1 (0: 0.9), b: beta2 (0: 0.999), epsilon (0: 1e-8) */
    MR_RULE_FTRL,     /* a: where the sums start (0: 0.1); lr_power is -0.5 */
    MR_RULE_PROXIMAL, /* see below */
    MR_RULE_KINDS
} mr_ps_rule_kind;

/* PROXIMAL is the generalised proximal step of delayed block proximal gradient (OSDI'14, 5.1). A
 * pushed row is the gradient g (width floats) and then the curvature u (width floats), an upper bound
 * of the second derivative along each coordinate. Both are sums over examples, so pushes of several
 * workers add up. With h = u / rate:
 *
 *     w = shrink(h w - g, l1) / (h + l2)        shrink(x, t) = sign(x) max(|x| - t, 0)
 *
 * which minimises g (x - w) + h / 2 (x - w)^2 + l2 / 2 x^2 + l1 |x|. A coordinate without curvature
 * (h not above 0) stays as it is. */

typedef struct mr_ps_rule {
    mr_ps_rule_kind kind;
    int width;                 /* floats per value, 1 or more */
    float rate, a, b, epsilon; /* rate 0: 0.01, for PROXIMAL 1 */
    float l1, l2;
    float *adam; /* adam[t]: the rate of a row's t-th push, with the powers of beta; owned */
    int n_adam;  /* later pushes use the last entry: by then the powers are negligible */
} mr_ps_rule;

/* Checks what the caller has set (kind .. l2) and replaces 0 by defaults. The caller calls deinit, also after an
 * error. */
mr_status *mr_ps_rule_init(mr_ps_rule *r);
void mr_ps_rule_deinit(mr_ps_rule *r);

int mr_ps_rule_planes(const mr_ps_rule *r);     /* 1 and the planes beside the values */
int mr_ps_rule_push_width(const mr_ps_rule *r); /* floats of a pushed row: width, or 2 * width */

/* Sets the planes beside the values to their state before the first push. */
void mr_ps_rule_start(const mr_ps_rule *r, float *planes, size_t n_rows);
/* Initial values of rows `first` .. first + n_rows - 1 of a table: start + spread * uniform(-1, 1). They depend only on
 * seed and key, so that every server computes the same. */
void mr_ps_rule_fill(float *values, uint64_t first, size_t n_rows, int width, float start,
                     float spread, uint64_t seed);

/* Applies n pushed rows of push_width floats: the i-th to rows[i], or to row i if rows is NULL. The caller has checked
 * that rows are all different and below n_rows. */
void mr_ps_rule_apply(const mr_ps_rule *r, float *planes, size_t n_rows, const uint32_t *rows,
                      size_t n, const float *pushed);

#endif
