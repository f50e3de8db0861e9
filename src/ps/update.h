/* ps/update.h -- what a push does to the rows of a table.
 *
 * The rows that one server holds of one slot of the key space are planes of floats, one behind the
 * other: plane 0 the values, then what the rule keeps beside them (Adagrad's sums, say), each of
 * n_rows * width floats.  So a pull reads one plane, a copy or a snapshot is one block, and a row
 * needs nothing else: a rule has no state but its planes, which is why replicas that apply the same
 * pushes in the same order hold the same bits.
 *
 * The formulas are those of ops/optim: a row that is pushed comes out as ApplyX would leave it.
 * Rows that are not pushed stay as they are, also with momentum ("lazy" in TensorFlow's words). */
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

/* PROXIMAL is the generalised proximal step of delayed block proximal gradient (OSDI'14, 5.1): a
 * pushed row is the gradient g (width floats) and behind it the curvature u (width floats), an upper
 * bound of the second derivative along each coordinate; both are sums over examples, so pushes of
 * several workers add up.  With h = u / rate:
 *
 *     w = shrink(h w - g, l1) / (h + l2)        shrink(x, t) = sign(x) max(|x| - t, 0)
 *
 * which is where g (x - w) + h / 2 (x - w)^2 + l2 / 2 x^2 + l1 |x| is least.  A coordinate without
 * curvature (h not above 0) stays as it is. */

typedef struct mr_ps_rule {
    mr_ps_rule_kind kind;
    int width;                 /* floats a value, 1 or more */
    float rate, a, b, epsilon; /* rate 0: 0.01, of PROXIMAL 1 */
    float l1, l2;
    float *adam; /* adam[t]: the rate of a row's t-th push, beta powers and all; owned */
    int n_adam;  /* beyond the end the last one counts: by then the powers are next to nothing */
} mr_ps_rule;

/* Checks what the caller has set (kind .. l2) and fills in what was left 0.  Deinit also after an
 * error. */
mr_status *mr_ps_rule_init(mr_ps_rule *r);
void mr_ps_rule_deinit(mr_ps_rule *r);

int mr_ps_rule_planes(const mr_ps_rule *r);     /* 1 + what is kept beside the values */
int mr_ps_rule_push_width(const mr_ps_rule *r); /* floats a pushed row: width, or 2 * width */

/* Sets the planes beside the values as they are before the first push. */
void mr_ps_rule_start(const mr_ps_rule *r, float *planes, size_t n_rows);
/* Values of rows `first` .. first + n_rows - 1 of a table: start + spread * uniform(-1, 1), by seed
 * and key alone, so that whoever makes a row makes the same. */
void mr_ps_rule_fill(float *values, uint64_t first, size_t n_rows, int width, float start,
                     float spread, uint64_t seed);

/* Applies pushed rows of push_width floats: the i-th to rows[i], all different and below n_rows
 * (the caller has checked); rows NULL: to row i. */
void mr_ps_rule_apply(const mr_ps_rule *r, float *planes, size_t n_rows, const uint32_t *rows,
                      size_t n, const float *pushed);

#endif
