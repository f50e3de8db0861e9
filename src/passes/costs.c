/* passes/costs.c -- measured times by device and node.
 *
 * There is one record per node name, with one mean for each device that the node ran on. These are few, so they
 * form a list. Sizes of outputs are sorted by output.
 *
 * mr_costs_fill combines estimates and measurements: measured times are used unchanged; estimates are scaled by
 * two geometric means, one of how far the estimates of that device were off, one of how far the estimates of that
 * node on other devices were off. */
#include "passes/costs.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/memory.h"
#include "passes/effort.h"
#include "wire/number.h"

enum { STEADY = 10,         /* after so many runs each new one weighs a tenth, so that the mean follows changes */
       MAX_OUTPUT = 65535 }; /* of a node, in files */
#define MAX_SECONDS 1e9      /* in files */
#define MAX_RUNS INT64_C(1000000000000000)

typedef struct ran { /* a node on a device */
    const char *device; /* borrowed from the table of devices */
    int64_t runs;
    double seconds; /* the mean */
    struct ran *next;
} ran;

typedef struct size { /* of an output */
    int output;
    int64_t bytes;
} size;

typedef struct record { /* of a node */
    ran *on;
    MR_VEC(size) sizes; /* by number of output; those that were seen */
} record;

struct mr_costs {
    mr_map nodes;   /* name -> record */
    mr_map devices; /* full name -> itself, a copy */
};

mr_costs *mr_costs_new(void) { return mr_new(mr_costs); }

/* Records own their lists; the names of devices belong to the table of devices. */
void mr_costs_free(mr_costs *c)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    if (!c)
        return;
    while (mr_map_next(&c->nodes, &pos, &key, &v)) {
        record *r = v;
        for (ran *a = r->on, *next; a; a = next) {
            next = a->next;
            mr_free(a);
        }
        mr_vec_deinit(&r->sizes);
        mr_free(r);
    }
    for (pos = 0; mr_map_next(&c->devices, &pos, &key, &v);)
        mr_free(v);
    mr_map_deinit(&c->nodes);
    mr_map_deinit(&c->devices);
    mr_free(c);
}

/* Finds or makes the record of a node. */
static record *get_record(mr_costs *c, mr_sv node)
{
    record *r = mr_map_get(&c->nodes, node);
    if (!r) {
        r = mr_new(record);
        mr_map_put(&c->nodes, node, r);
    }
    return r;
}

/* The shared copy of a device's name, made on first use. */
static const char *get_device(mr_costs *c, mr_sv name)
{
    char *d = mr_map_get(&c->devices, name);
    if (!d) {
        d = mr_strndup(name.p, name.n);
        mr_map_put(&c->devices, name, d);
    }
    return d;
}

/* NULL if r is NULL, or if the node was never measured on this device. */
static ran *find_ran(const record *r, mr_sv device)
{
    ran *a = r ? r->on : NULL;
    while (a && !mr_sv_is(device, a->device))
        a = a->next;
    return a;
}

/* Finds or makes the mean of a node on a device. */
static ran *get_ran(mr_costs *c, mr_sv node, mr_sv device)
{
    record *r = get_record(c, node);
    ran *a = find_ran(r, device);
    if (!a) {
        a = mr_new(ran);
        a->device = get_device(c, device);
        a->next = r->on;
        r->on = a;
    }
    return a;
}

/* A plain mean of the first STEADY runs, then a moving one. */
void mr_costs_add(mr_costs *c, const char *device, mr_sv node, double seconds)
{
    ran *a = get_ran(c, node, mr_sv_of(device));
    a->runs++;
    MR_ASSERT(a->runs > 0);
    a->seconds += (seconds - a->seconds) / (double)MR_MIN(a->runs, STEADY);
}

/* The position of an output among the sizes of a node, or where it belongs. */
static int find_size(const record *r, int output)
{
    int lo = 0, hi = r->sizes.n;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        *(r->sizes.p[mid].output < output ? &lo : &hi) = r->sizes.p[mid].output < output ? mid + 1 : mid;
    }
    return lo;
}

/* The last size counts. */
void mr_costs_add_bytes(mr_costs *c, mr_sv node, int output, int64_t bytes)
{
    record *r = get_record(c, node);
    int at = find_size(r, output);
    if (at == r->sizes.n || r->sizes.p[at].output != output) {
        mr_vec_push(&r->sizes, (size){0});
        memmove(r->sizes.p + at + 1, r->sizes.p + at, sizeof(size) * (size_t)(r->sizes.n - 1 - at));
    }
    MR_ASSERT(at < r->sizes.n);
    r->sizes.p[at] = (size){output, bytes};
}

/* ---- asking ---- */

/* Computing and memory traffic overlap, so the longer of the two counts. */
static double estimate_seconds(mr_effort e, const mr_speed *s)
{
    return s->op_s + MR_MAX(e.flops / s->flops_per_s, e.bytes / s->bytes_per_s);
}

/* True for feeds, fetches and transfers: they occupy no device, and a measured _Recv has mostly waited. */
static bool takes_no_time(const mr_node *n)
{
    static const char *const ops[] = {"_Arg", "_Retval", "_Send", "_Recv", "_HostSend", "_HostRecv"};
    for (int i = 0; i < MR_COUNT(ops); i++)
        if (mr_node_is(n, ops[i]))
            return true;
    return false;
}

/* Replaces estimates by measured times. *scale is the geometric mean of how far the estimates of this device were
 * off. */
static void fill_measured(const mr_costs *c, mr_node *const *nodes, int n_nodes, int n_devices, int d, const char *device,
                          double *seconds, bool *measured, double *scale)
{
    double sum = 0;
    int n = 0;
    for (int i = 0; i < n_nodes; i++) {
        const ran *a = find_ran(mr_map_getz(&c->nodes, nodes[i]->name), mr_sv_of(device));
        double *s = &seconds[(size_t)i * (size_t)n_devices + (size_t)d];
        if (!a || a->seconds <= 0 || takes_no_time(nodes[i]))
            continue;
        if (*s > 0) {
            sum += log(a->seconds / *s);
            n++;
        }
        *s = a->seconds;
        measured[(size_t)i * (size_t)n_devices + (size_t)d] = true;
    }
    *scale = n ? exp(sum / n) : 1;
}

/* Scales the times of a node that were not measured, by the device's scale and by what the node took where it was
 * measured. */
static void fill_others(mr_effort e, mr_device *const *devices, int n_devices, const double *scale, double *seconds,
                        const bool *measured)
{
    double sum = 0;
    int n = 0;
    for (int d = 0; d < n_devices; d++) {
        double guess = measured[d] ? estimate_seconds(e, &devices[d]->speed) * scale[d] : 0;
        if (guess > 0) {
            sum += log(seconds[d] / guess);
            n++;
        }
    }
    double own = n ? exp(sum / n) : 1;
    for (int d = 0; d < n_devices; d++)
        if (!measured[d])
            seconds[d] *= scale[d] * own;
}

/* Fills in estimates first, then replaces or scales them by what was measured. Two passes over the measurements,
 * because the scale of a device must be known before the nodes not measured there can be scaled. */
void mr_costs_fill(const mr_costs *c, mr_node *const *nodes, int n_nodes, mr_device *const *devices, int n_devices,
                   double *seconds)
{
    size_t width = (size_t)n_devices;
    mr_effort *efforts = mr_new_array(mr_effort, n_nodes + 1);
    for (int i = 0; i < n_nodes; i++) {
        efforts[i] = mr_effort_of(nodes[i], MR_USUAL_DIM);
        for (int d = 0; d < n_devices; d++)
            seconds[(size_t)i * width + (size_t)d] =
                takes_no_time(nodes[i]) ? 0 : estimate_seconds(efforts[i], &devices[d]->speed);
    }
    /* Without measurements the estimates are the result. */
    if (c && c->nodes.n) {
        bool *measured = mr_new_array(bool, (size_t)n_nodes * width + 1);
        double *scale = mr_new_array(double, n_devices);
        for (int d = 0; d < n_devices; d++)
            fill_measured(c, nodes, n_nodes, n_devices, d, devices[d]->name, seconds, measured, &scale[d]);
        for (int i = 0; i < n_nodes; i++)
            fill_others(efforts[i], devices, n_devices, scale, seconds + (size_t)i * width, measured + (size_t)i * width);
        mr_free(scale);
        mr_free(measured);
    }
    mr_free(efforts);
}

/* The measured size, else an estimate from the shape, limited so that sums of sizes do not overflow. */
int64_t mr_costs_bytes(const mr_costs *c, mr_out o)
{
    const record *r = c ? mr_map_getz(&c->nodes, o.node->name) : NULL;
    int at = r ? find_size(r, o.index) : 0;
    if (r && at < r->sizes.n && r->sizes.p[at].output == o.index)
        return r->sizes.p[at].bytes;
    return (int64_t)MR_MIN(mr_effort_out_bytes(o, MR_USUAL_DIM), 1e15);
}

int64_t mr_costs_runs(const mr_costs *c, mr_sv node, const char *device)
{
    const ran *a = c ? find_ran(mr_map_get(&c->nodes, node), mr_sv_of(device)) : NULL;
    return a ? a->runs : 0;
}

/* ---- files ---- */

static const char head[] = "# millrace costs 1: device, node, runs, seconds; or: bytes, node, output, bytes\n";

typedef MR_VEC(char *) line_vec;

/* Appends the lines of one node; the caller owns and frees them. */
static void print_record(line_vec *out, mr_sv node, const record *r)
{
    for (const ran *a = r->on; a; a = a->next) {
        char number[MR_NUMBER_BYTES];
        mr_double_text(a->seconds, number);
        mr_vec_push(out, mr_printf("%s\t%.*s\t%" PRId64 "\t%s\n", a->device, MR_SV_ARG(node), a->runs, number));
    }
    for (int i = 0; i < r->sizes.n; i++)
        mr_vec_push(out, mr_printf("bytes\t%.*s\t%d\t%" PRId64 "\n", MR_SV_ARG(node), r->sizes.p[i].output, r->sizes.p[i].bytes));
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Lines are sorted, so equal costs give equal files. A writer keeps its first error until commit. */
mr_status *mr_costs_save(const mr_costs *c, const char *path)
{
    line_vec lines = {0};
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    mr_writer *w;
    mr_status *st = mr_writer_open(path, &w);
    if (st)
        return st;
    while (mr_map_next(&c->nodes, &pos, &key, &v))
        print_record(&lines, key, v);
    if (lines.n)
        qsort(lines.p, (size_t)lines.n, sizeof *lines.p, by_text);
    mr_status_free(mr_writer_write(w, head, sizeof head - 1));
    for (int i = 0; i < lines.n; i++) {
        mr_status_free(mr_writer_write(w, lines.p[i], strlen(lines.p[i])));
        mr_free(lines.p[i]);
    }
    mr_vec_deinit(&lines);
    st = mr_writer_commit(w);
    mr_writer_free(w);
    return st;
}

/* A line "bytes, node, output, bytes"; f[0] has been checked. */
static bool parse_bytes(mr_costs *c, const mr_sv f[4])
{
    int64_t output, bytes;
    if (!mr_sv_to_i64(f[2], &output) || !mr_sv_to_i64(f[3], &bytes) || output < 0 || output > MAX_OUTPUT || bytes < 0)
        return false;
    mr_costs_add_bytes(c, f[1], (int)output, bytes);
    return true;
}

/* The file may have been edited by hand: everything is checked. */
static bool parse_line(mr_costs *c, mr_sv line)
{
    mr_sv f[4], rest = line;
    int64_t runs;
    double seconds;
    for (int i = 0; i < 4; i++)
        if (!mr_sv_cut(&rest, '\t', &f[i]))
            return false;
    if (rest.p || !f[0].n || !f[1].n)
        return false;
    if (mr_sv_is(f[0], "bytes"))
        return parse_bytes(c, f);
    if (!mr_sv_to_i64(f[2], &runs) || runs <= 0 || runs > MAX_RUNS || !mr_text_to_double(f[3], &seconds) ||
        !(seconds >= 0 && seconds <= MAX_SECONDS))
        return false;
    ran *a = get_ran(c, f[1], f[0]);
    a->runs = runs;
    a->seconds = seconds;
    return true;
}

/* Stops at the first bad line; lines before it have been added. */
mr_status *mr_costs_parse(mr_costs *c, mr_sv text, const char *name)
{
    mr_sv rest = text, line;
    for (int i = 1; mr_sv_cut(&rest, '\n', &line); i++)
        if (line.n && line.p[0] != '#' && !parse_line(c, line))
            return mr_invalid("%s:%d: expected device, node, runs and seconds separated by tabs, got '%.*s'", name, i,
                              (int)MR_MIN(line.n, 100), line.p);
    return NULL;
}

/* Adds to the costs that exist. A missing file is an error of mr_file_read_all. */
mr_status *mr_costs_load(mr_costs *c, const char *path)
{
    mr_str text = {0};
    mr_status *st = mr_file_read_all(path, &text);
    if (!st)
        st = mr_costs_parse(c, mr_str_view(&text), path);
    mr_str_deinit(&text);
    return st;
}
