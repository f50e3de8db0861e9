/* capi/gradients.c -- TF_AddGradients: graph/grad.h on the client's types, all results dense. */
#include "capi/internal.h"
#include "graph/grad.h"

/* A client's incoming gradients as ours; one without an operation stands for ones. */
static mr_gradient *dense_gradients(const TF_Output *dx, int n)
{
    mr_gradient *g = mr_try_calloc((size_t)n, sizeof(*g));
    for (int i = 0; g && i < n; i++) {
        g[i] = MR_NO_GRAD;
        if (dx && dx[i].oper)
            g[i].dense = mr_capi_out(dx[i]);
    }
    return g;
}

static mr_status *check_args(const TF_Graph *g, const TF_Output *y, int ny, const TF_Output *x,
                             int nx, const TF_Output *dx, const TF_Output *dy)
{
    if (!g || ny < 0 || nx < 0 || (ny && !y) || (nx && (!x || !dy)))
        return mr_invalid("There is no graph, or a list is not there");
    if (ny == 0 && nx > 0)
        return mr_invalid("Gradients of nothing");
    for (int i = 0; dx && i < ny; i++)
        if (dx[i].oper)
            MR_TRY(mr_capi_check_output(g, dx[i]));
    return NULL;
}

static mr_status *add(TF_Graph *g, const char *prefix, const TF_Output *y, int ny,
                      const TF_Output *x, int nx, const TF_Output *dx, TF_Output *dy)
{
    mr_status *st = NULL;
    mr_gradient *found = dense_gradients(NULL, nx), *given = dense_gradients(dx, ny);
    if (!found || !given)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "No memory for %d gradients", nx));
    mr_gradient_options o = {.prefix = prefix, .grad_ys = dx ? given : NULL, .tf_semantics = true};
    mr_lock(&g->mu);
    st = mr_graph_gradients(g->graph, mr_capi_outs(y), ny, mr_capi_outs(x), nx, &o, found);
    mr_unlock(&g->mu);
    for (int i = 0; !st && i < nx; i++)
        dy[i] = mr_capi_output(found[i].dense);
out:
    mr_free(found);
    mr_free(given);
    return st;
}

void TF_AddGradientsWithPrefix(TF_Graph *g, const char *prefix, TF_Output *y, int ny, TF_Output *x,
                               int nx, TF_Output *dx, TF_Status *status, TF_Output *dy)
{
    mr_status *st = check_args(g, y, ny, x, nx, dx, dy);
    if (!st && nx > 0)
        st = add(g, prefix, y, ny, x, nx, dx, dy);
    mr_capi_set_status(status, st);
}

void TF_AddGradients(TF_Graph *g, TF_Output *y, int ny, TF_Output *x, int nx, TF_Output *dx,
                     TF_Status *status, TF_Output *dy)
{
    TF_AddGradientsWithPrefix(g, NULL, y, ny, x, nx, dx, status, dy);
}
