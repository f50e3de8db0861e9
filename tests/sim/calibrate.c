/* calibrate.c -- fits the numbers of mr_simtrain_osdi16 again, and shows how well they predict.
 *
 *     calibrate [--table]        (--table: only compare the current table with the published figures)
 *
 * Five numbers are fitted to the two ends of each of the four published curves, eight points in all, by least squares
 * of the relative errors (Gauss-Newton, with numerical derivatives: the random numbers are the same in every run, so
 * results change smoothly). Then every point is simulated, including those between the ends, which the fit has not
 * used. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "sim/train/calibration.h"

enum { N = 5, ROUNDS = 10, HALVES = 4 };

static void get(const mr_simtrain_calibration *c, double v[N])
{
    v[0] = c->rpc_s, v[1] = c->token_s, v[2] = c->compute_s, v[3] = c->tail_s, v[4] = c->ps_bytes_per_s;
}

static mr_simtrain_calibration make(const double v[N])
{
    return (mr_simtrain_calibration){v[0], v[1], v[2], v[3], v[4]};
}

/* The relative error of point i; prints a line about it. */
static double error_at(const mr_simtrain_calibration *c, int i, bool print)
{
    const mr_simtrain_figure *f = &mr_simtrain_osdi16_figures[i];
    double got;
    mr_status *st = mr_simtrain_figure_run(c, f, &got);
    if (st) {
        fprintf(stderr, "%s: %s\n", f->curve, mr_status_message(st));
        exit(1);
    }
    double e = got / f->published - 1;
    if (print)
        printf("%-22s %4d  %9.4g  %9.4g  %+5.1f %%  %s\n", f->curve, f->x, f->published, got, 100 * e, f->is_end ? "fitted" : "");
    return e;
}

static int errors_at_ends(const double v[N], double *e)
{
    mr_simtrain_calibration c = make(v);
    int n = 0;
    for (int i = 0; i < mr_simtrain_n_figures; i++)
        if (mr_simtrain_osdi16_figures[i].is_end)
            e[n++] = error_at(&c, i, false);
    return n;
}

/* Solves a x = b in place; a is small and regular. */
static void solve(double a[N][N], double b[N])
{
    for (int k = 0; k < N; k++) {
        int best = k;
        for (int i = k + 1; i < N; i++)
            if (fabs(a[i][k]) > fabs(a[best][k]))
                best = i;
        for (int j = 0; j < N; j++) {
            double t = a[k][j];
            a[k][j] = a[best][j], a[best][j] = t;
        }
        double t = b[k];
        b[k] = b[best], b[best] = t;
        for (int i = 0; i < N; i++) {
            double m = i == k ? 0 : a[i][k] / a[k][k];
            for (int j = k; j < N && m != 0; j++)
                a[i][j] -= m * a[k][j];
            b[i] -= m * b[k];
        }
    }
    for (int k = 0; k < N; k++)
        b[k] /= a[k][k];
}

static double sum_of_squares(const double *e, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += e[i] * e[i];
    return sum;
}

/* The derivatives of the errors e with respect to the logarithm of each number. */
static void differentiate(const double v[N], const double *e, int n, double d[N][32])
{
    const double by = 0.03;
    for (int k = 0; k < N; k++) {
        double w[N];
        memcpy(w, v, sizeof w);
        w[k] *= 1 + by;
        errors_at_ends(w, d[k]);
        for (int i = 0; i < n; i++)
            d[k][i] = (d[k][i] - e[i]) / by;
    }
}

/* One step of the fit; numbers change by factors, since all are positive and of very different size. False: no
 * improvement was found. */
static bool improve(double v[N])
{
    double e[32], f[32], d[N][32], a[N][N] = {0}, b[N] = {0};
    int n = errors_at_ends(v, e);
    differentiate(v, e, n, d);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < N; k++) {
            b[k] -= d[k][i] * e[i];
            for (int l = 0; l < N; l++)
                a[k][l] += d[k][i] * d[l][i];
        }
    solve(a, b);
    for (int half = 0; half < HALVES; half++) {
        double w[N];
        for (int k = 0; k < N; k++)
            w[k] = v[k] * (1 + fmax(-0.3, fmin(0.3, b[k] / (1 << half))));
        errors_at_ends(w, f);
        if (sum_of_squares(f, n) < sum_of_squares(e, n)) {
            printf("# sum of squares at the ends %.6f, was %.6f\n", sum_of_squares(f, n), sum_of_squares(e, n));
            memcpy(v, w, sizeof w);
            return true;
        }
    }
    return false;
}

static void print_all(const mr_simtrain_calibration *c)
{
    printf(".rpc_s = %.4g, .token_s = %.4g, .compute_s = %.4g, .tail_s = %.4g, .ps_bytes_per_s = %.4g\n", c->rpc_s, c->token_s,
           c->compute_s, c->tail_s, c->ps_bytes_per_s);
    printf("%-22s %4s  %9s  %9s\n", "", "", "published", "simulated");
    for (int i = 0; i < mr_simtrain_n_figures; i++)
        error_at(c, i, true);
}

int main(int argc, char **argv)
{
    double v[N] = {0.5e-3, 0.05e-3, 1.5, 0.1, 1e9}; /* rough initial values; the table itself is not used by the fit */
    if (argc > 1 && strcmp(argv[1], "--table") == 0)
        get(&mr_simtrain_osdi16, v);
    else
        for (int i = 0; i < ROUNDS && improve(v); i++)
            ;
    mr_simtrain_calibration c = make(v);
    print_all(&c);
    return 0;
}
