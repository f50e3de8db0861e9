/* ops/nn/lstm.c -- the cell of a long short-term memory. */
#include "ops/nn/lstm.h"

#include "base/memory.h"
#include "base/simd.h"
#include "base/vmath.h"
#include "ops/linalg/gemm.h"

#define CELL_NS 6.0
#define BACK_NS 2.0

mr_status *mr_lstm_init(mr_make *m, void *state)
{
    mr_lstm *s = state;
    size_t n = strlen(m->node->def->name);
    bool v2 = strcmp(m->node->def->name + n - 2, "V2") == 0;
    *s = (mr_lstm){.ci = v2 ? 2 : 1, .f = v2 ? 1 : 2};
    if (mr_node_attr(m->node, "forget_bias"))
        MR_TRY(mr_node_get_float(m->node, "forget_bias", &s->forget_bias));
    if (mr_node_attr(m->node, "cell_clip"))
        MR_TRY(mr_node_get_float(m->node, "cell_clip", &s->clip));
    return mr_node_get_bool(m->node, "use_peephole", &s->peephole);
}

/* ---- forward ---- */

typedef struct job {
    const mr_lstm *s;
    const mr_lstm_weights *k;
    const mr_lstm_step *t;
    const float *z;
} job;

/* `hole` (peepholes are used) is a constant at each inlined call: without peepholes their weights are not read. */
MR_INLINE void cell_row(const job *j, int64_t row, bool hole)
{
    const mr_lstm_weights k = *j->k; /* a copy, so that the compiler knows that no store changes it */
    const mr_lstm_step t = *j->t;
    const float *z = j->z + row * 4 * k.cells, *b = k.b;
    const float *z_ci = z + j->s->ci * k.cells, *z_f = z + j->s->f * k.cells;
    const float *b_ci = b + j->s->ci * k.cells, *b_f = b + j->s->f * k.cells;
    const float *z_o = z + 3 * k.cells, *b_o = b + 3 * k.cells;
    const float clip = j->s->clip > 0 ? j->s->clip : INFINITY, forget = j->s->forget_bias;
    int64_t at = row * k.cells;
    MR_IVDEP
    for (int64_t c = 0; c < k.cells; c++) {
        float prev = t.cs_prev[at + c];
        float i = mr_sigmoidf(z[c] + b[c] + (hole ? prev * k.wci[c] : 0));
        float f = mr_sigmoidf(z_f[c] + b_f[c] + forget + (hole ? prev * k.wcf[c] : 0));
        float ci = mr_tanhf(z_ci[c] + b_ci[c]);
        float cs = mr_at_least(mr_at_most(i * ci + f * prev, clip), -clip);
        float o = mr_sigmoidf(z_o[c] + b_o[c] + (hole ? cs * k.wco[c] : 0));
        float co = mr_tanhf(cs);
        t.i[at + c] = i;
        t.f[at + c] = f;
        t.ci[at + c] = ci;
        t.cs[at + c] = cs;
        t.o[at + c] = o;
        t.co[at + c] = co;
        t.h[at + c] = o * co;
    }
}

MR_CLONES static void cell_rows(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    for (int64_t row = begin; row < end; row++)
        if (j->s->peephole)
            cell_row(j, row, true);
        else
            cell_row(j, row, false);
}

mr_status *mr_lstm_forward(mr_run *r, const mr_lstm *s, const mr_lstm_weights *k,
                           const mr_lstm_step *t, float *z)
{
    mr_gemm h_wh = mr_lstm_h_wh(k);
    h_wh.packed_b = k->packed_wh;
    MR_TRY(mr_gemm_run(r, &(mr_gemm_batch){.one = h_wh, .n_batch = 1, .a = t->h_prev,
                                           .b = mr_lstm_wh(k), .c = z}));
    job j = {s, k, t, z};
    mr_run_for(r, k->batch, CELL_NS * (double)k->cells, cell_rows, &j);
    return NULL;
}

/* ---- backward ---- */

MR_INLINE void back_row(const mr_lstm *s, const mr_lstm_weights *weights, const mr_lstm_step *step,
                        const mr_lstm_back *back, int64_t row, bool hole)
{
    const mr_lstm_weights k = *weights; /* a copy, as above */
    const mr_lstm_step t = *step;
    const mr_lstm_back g = *back;
    float *dz = g.dz + row * 4 * k.cells;
    float *dz_ci = dz + s->ci * k.cells, *dz_f = dz + s->f * k.cells, *dz_o = dz + 3 * k.cells;
    int64_t at = row * k.cells;
    MR_IVDEP
    for (int64_t c = 0; c < k.cells; c++) {
        float i = t.i[at + c], f = t.f[at + c], o = t.o[at + c], ci = t.ci[at + c];
        float co = t.co[at + c], prev = t.cs_prev[at + c];
        float dh = g.h_grad[at + c] + g.h_back[at + c];
        float d_o = o * (1 - o) * dh * co;
        float dcs = (1 - co * co) * dh * o + (g.cs_grad[at + c] + g.cs_back[at + c]) +
                    (hole ? d_o * k.wco[c] : 0);
        float di = i * (1 - i) * dcs * ci, df = f * (1 - f) * dcs * prev;
        dz[c] = di;
        dz_ci[c] = (1 - ci * ci) * dcs * i;
        dz_f[c] = df;
        dz_o[c] = d_o;
        g.cs_back[at + c] = dcs * f + (hole ? di * k.wci[c] + df * k.wcf[c] : 0);
    }
}

static void back_holes(const mr_lstm *s, const mr_lstm_weights *k, const mr_lstm_step *t,
                       const mr_lstm_back *g, int64_t row)
{
    const float *dz = g->dz + row * 4 * k->cells;
    for (int64_t c = 0; c < k->cells; c++) {
        float prev = t->cs_prev[row * k->cells + c];
        g->wci_grad[c] += dz[c] * prev;
        g->wcf_grad[c] += dz[s->f * k->cells + c] * prev;
        g->wco_grad[c] += dz[3 * k->cells + c] * t->cs[row * k->cells + c];
    }
}

typedef struct back_job {
    const mr_lstm *s;
    const mr_lstm_weights *k;
    const mr_lstm_step *t;
    const mr_lstm_back *g;
} back_job;

MR_CLONES static void back_rows(void *ctx, int64_t begin, int64_t end)
{
    const back_job *j = ctx;
    for (int64_t row = begin; row < end; row++)
        if (j->s->peephole)
            back_row(j->s, j->k, j->t, j->g, row, true);
        else
            back_row(j->s, j->k, j->t, j->g, row, false);
}

void mr_lstm_backward(mr_run *r, const mr_lstm *s, const mr_lstm_weights *k, const mr_lstm_step *t,
                      const mr_lstm_back *g)
{
    back_job j = {s, k, t, g};
    mr_run_for(r, k->batch, BACK_NS * (double)k->cells, back_rows, &j);
    for (int64_t row = 0; row < k->batch && s->peephole; row++)
        back_holes(s, k, t, g, row);
}
