/* capi/session_golden_test.c -- golden graphs give the outputs that came with them.
 *
 * Each graph comes with one input and one output array. Those of our graphs are numpy's. Those of TensorFlow's graphs
 * are TensorFlow's: their arrays of rank 4 and 5 are stored channels first, while most graphs take and give channels
 * last. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "exec/session.h"
#include "graph/graph_def.h"
#include "ops/table.h"
#include "tests/harness/test.h"

/* ---- .npy ---- */

static mr_status *npy_shape(mr_sv header, mr_shape *out)
{
    const char *p = memmem(header.p, header.n, "'shape': (", 10), *end = header.p + header.n;
    out->rank = 0;
    if (!p || memmem(header.p, header.n, "'fortran_order': True", 21))
        return mr_invalid("no shape, or not in C order");
    for (p += 10; p < end && *p != ')';) {
        char *next;
        long long d = strtoll(p, &next, 10);
        if (next == p)
            break;
        MR_TRY(mr_shape_push(out, d));
        for (p = next; p < end && (*p == ',' || *p == ' ');)
            p++;
    }
    return NULL;
}

static mr_dtype npy_type(mr_sv header)
{
    static const struct {
        const char *descr;
        mr_dtype t;
    } types[] = {{"'<f4'", MR_FLOAT}, {"'<f8'", MR_DOUBLE}, {"'<i4'", MR_INT32}, {"'<i8'", MR_INT64}, {"'|u1'", MR_UINT8}, {"'<f2'", MR_HALF}};
    for (int i = 0; i < MR_COUNT(types); i++)
        if (memmem(header.p, header.n, types[i].descr, strlen(types[i].descr)))
            return types[i].t;
    return MR_INVALID;
}

static mr_tensor *read_npy(const char *path)
{
    mr_str bytes = {0};
    mr_shape shape;
    mr_tensor *t;
    MR_CHECK_OK(mr_file_read_all(path, &bytes));
    MR_CHECK(bytes.n > 10 && memcmp(bytes.p, "\x93NUMPY", 6) == 0);
    size_t wide = bytes.p[6] > 1 ? 4 : 2, n = 0;
    memcpy(&n, bytes.p + 8, wide);
    mr_sv header = {bytes.p + 8 + wide, n};
    MR_CHECK(8 + wide + n <= bytes.n);
    MR_CHECK_OK(npy_shape(header, &shape));
    MR_CHECK_OK(mr_tensor_new(NULL, npy_type(header), shape.rank, shape.dims, &t));
    MR_CHECK_INT(bytes.n - 8 - wide - n, mr_tensor_bytes(t));
    memcpy(t->data, header.p + n, mr_tensor_bytes(t));
    mr_str_deinit(&bytes);
    return t;
}

/* The same elements as another type. */
static mr_tensor *as_type(mr_tensor *t, mr_dtype to)
{
    mr_tensor *out;
    MR_CHECK_OK(mr_tensor_new(NULL, to, t->rank, t->dims, &out));
    MR_CHECK(mr_dtype_convert((mr_dtype)t->dtype, t->data, to, out->data, t->n, false));
    mr_tensor_unref(t);
    return out;
}

/* Channels first to channels last, or back: dimension 1 goes to the end, or the last one to place 1. */
static mr_tensor *move_channels(mr_tensor *t, bool to_last)
{
    mr_tensor *out;
    mr_shape s;
    int64_t outer = t->dims[0], c = to_last ? t->dims[1] : t->dims[t->rank - 1], inner = 1;
    s.rank = 0;
    MR_CHECK_OK(mr_shape_push(&s, outer));
    if (!to_last)
        MR_CHECK_OK(mr_shape_push(&s, c));
    for (int i = to_last ? 2 : 1; i < t->rank - (to_last ? 0 : 1); i++) {
        MR_CHECK_OK(mr_shape_push(&s, t->dims[i]));
        inner *= t->dims[i];
    }
    if (to_last)
        MR_CHECK_OK(mr_shape_push(&s, c));
    MR_CHECK_OK(mr_tensor_new(NULL, (mr_dtype)t->dtype, s.rank, s.dims, &out));
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < c; k++)
            for (int64_t i = 0; i < inner; i++) {
                int64_t first = (o * c + k) * inner + i, last = (o * inner + i) * c + k;
                MR_CHECK_OK(mr_tensor_try_copy_elements(out, to_last ? last : first, t, to_last ? first : last, 1));
            }
    mr_tensor_unref(t);
    return out;
}

/* ---- the graphs ---- */

/* Whether the arrays of a graph of TensorFlow are stored as the graph takes them. */
static bool is_channels_first(const char *name) { return strstr(name, "nchw") || strstr(name, "reshape_nhwc"); }

static void find_ends(mr_graph *g, mr_out *feed, mr_out *fetch)
{
    *feed = *fetch = MR_NO_OUT;
    for (int i = 0; i < g->nodes.n; i++) {
        mr_node *n = g->nodes.p[i];
        if (mr_node_is(n, "Placeholder"))
            *feed = (mr_out){n, 0};
        else if (n->uses.n == 0 && n->n_out > 0)
            *fetch = (mr_out){n, 0};
    }
    MR_CHECK(feed->node && fetch->node);
}

static void compare(const char *name, const mr_tensor *got, const mr_tensor *want, double tolerance)
{
    if (got->n != want->n)
        mr_test_fail(__FILE__, __LINE__, "%s: %lld elements, expected %lld", name, (long long)got->n, (long long)want->n);
    double scale = 0;
    for (int64_t i = 0; i < want->n; i++)
        scale = fmax(scale, fabs(MR_DATA(double, want)[i]));
    for (int64_t i = 0; i < got->n; i++) {
        double a = MR_DATA(double, got)[i], b = MR_DATA(double, want)[i];
        if (!(fabs(a - b) <= tolerance * fmax(fabs(b), 0.1 * scale) + 1e-7))
            mr_test_fail(__FILE__, __LINE__, "%s: element %lld is %.8g, expected %.8g", name, (long long)i, a, b);
    }
}

/* The two half-precision files of TensorFlow say that their placeholder is float, which TensorFlow refuses to import: it was
 * half when their outputs were computed. */
static void mend_placeholder(const char *name, mr_str *bytes)
{
    static const char attr[] = "\x0a\x05" "dtype" "\x12\x02\x30\x01";
    char *at = strstr(name, "fp16") ? memmem(bytes->p, bytes->n, "Placeholder", 11) : NULL;
    if (at)
        at = memmem(at, bytes->n - (size_t)(at - bytes->p), attr, sizeof attr - 1);
    if (at)
        at[sizeof attr - 2] = MR_HALF;
}

static void run_graph(const char *folder, const char *name, bool by_tensorflow)
{
    char *net = mr_printf("%s/%s_net.pb", folder, name), *in = mr_printf("%s/%s_in.npy", folder, name);
    char *out = mr_printf("%s/%s_out.npy", folder, name);
    mr_str bytes = {0};
    mr_graph *g = mr_graph_new();
    mr_out feed, fetch;
    MR_CHECK_OK(mr_file_read_all(net, &bytes));
    if (by_tensorflow)
        mend_placeholder(name, &bytes);
    /* As frozen graphs are loaded: what a node was colocated with may be gone. */
    mr_status *st = mr_graph_import(g, mr_str_view(&bytes), &(mr_import_options){.no_validate_colocation = true}, NULL);
    if (st)
        mr_test_fail(__FILE__, __LINE__, "%s: %s", name, mr_status_message(st));
    find_ends(g, &feed, &fetch);
    mr_tensor *x = read_npy(in), *want = as_type(read_npy(out), MR_DOUBLE), *got = NULL;
    if (by_tensorflow && x->rank >= 4 && !is_channels_first(name))
        x = move_channels(x, true);
    mr_dtype fed = mr_dtype_base(mr_out_type(feed));
    if (x->dtype != fed)
        x = as_type(x, fed);
    mr_session *s;
    MR_CHECK_OK(mr_direct_session_new(g, NULL, &(mr_session_config){.intra_threads = 1, .inter_threads = 1}, &s));
    mr_run_args a = {.feeds = &feed, .feed_values = &x, .n_feeds = 1, .fetches = &fetch, .fetched = &got, .n_fetches = 1};
    st = mr_session_run(s, &a, NULL, NULL);
    if (st)
        mr_test_fail(__FILE__, __LINE__, "%s: %s", name, mr_status_message(st));
    double tolerance = strstr(name, "fp16") || got->dtype == MR_HALF ? 5e-3 : 1e-4;
    got = as_type(got, MR_DOUBLE);
    if (by_tensorflow && got->rank >= 4 && !is_channels_first(name))
        got = move_channels(got, false);
    compare(name, got, want, tolerance);
    mr_tensor_unref(x), mr_tensor_unref(want), mr_tensor_unref(got);
    mr_session_free(s);
    mr_graph_unref(g);
    mr_str_deinit(&bytes);
    mr_free(net), mr_free(in), mr_free(out);
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void run_graphs(const char *golden, bool by_tensorflow, int n_graphs)
{
    mr_test_deadline(60);
    mr_ops_register();
    char *folder = mr_printf("%s/graphs", golden);
    DIR *d = opendir(folder);
    MR_VEC(char *) names = {0};
    MR_CHECK(d != NULL);
    for (struct dirent *e; (e = readdir(d));) {
        size_t n = strlen(e->d_name);
        if (n > 7 && strcmp(e->d_name + n - 7, "_net.pb") == 0)
            mr_vec_push(&names, mr_strndup(e->d_name, n - 7));
    }
    closedir(d);
    qsort(names.p, (size_t)names.n, sizeof *names.p, by_name);
    for (int i = 0; i < names.n; i++) {
        run_graph(folder, names.p[i], by_tensorflow);
        mr_free(names.p[i]);
    }
    MR_CHECK_INT(names.n, n_graphs);
    mr_vec_deinit(&names);
    mr_free(folder);
}

MR_TEST(golden_graphs_give_the_outputs_of_numpy) { run_graphs(mr_test_golden(), false, 23); }
MR_TEST(golden_graphs_give_the_outputs_of_tensorflow) { run_graphs(mr_test_tensorflow_golden(), true, 40); }
