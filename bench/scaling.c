/* bench/scaling.c -- images/s of 1, 2 and 3 workers on this machine, compared with the simulator.
 *
 *     scaling FOLDER_OF_PROGRAMS MNIST_FOLDER [--most N] [--epochs N]
 *
 * examples/cluster_mnist trains LeNet under `millrace launch` with one parameter server, everybody on this host. The
 * inputs of the simulator are measured without such a cluster: the step and the cores of examples/mnist (one process),
 * a step that does nothing through another process (bench/master_steps), and 30 MiB there and back (bench/push_pull).
 * Each figure is the median of three runs, taken in turns, so that other activity on the machine affects all of them
 * equally.
 *
 * Then the same job on more machines than there are, each task on one like this: where more workers stop to help. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "sim/train/train.h"

enum { ROUNDS = 3, MOST = 8, BATCH = 100 };

static const char *programs, *digits;
static const char *epochs = "1";

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

/* ---- running things ---- */

typedef struct run_result {
    char text[1 << 16]; /* the end of its output */
    double cores;       /* CPU time a second, of it and its children */
} run_result;

static void read_end(FILE *f, char *text, size_t size)
{
    size_t n = 0, got;
    while ((got = fread(text + n, 1, size - 1 - n, f)) > 0)
        if ((n += got) == size - 1) {
            memmove(text, text + size / 2, n -= size / 2);
        }
    text[n] = 0;
}

static double cpu_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_CHILDREN, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void run(const char *command, run_result *out)
{
    double cpu_before_s = cpu_s();
    int64_t began = mr_now_ns();
    FILE *f = popen(command, "r");
    must(f, "popen failed");
    read_end(f, out->text, sizeof out->text);
    int code = pclose(f);
    out->cores = (cpu_s() - cpu_before_s) / ((double)(mr_now_ns() - began) / 1e9);
    if (code != 0)
        fprintf(stderr, "%s\n%s\n", command, out->text);
    must(code == 0, "the command failed");
}

/* The number before the last " images/s". */
static double images_per_s(const char *text)
{
    const char *last = NULL;
    for (const char *p = text; (p = strstr(p, " images/s")); p++)
        last = p;
    must(last, "no images/s were told");
    while (last > text && strchr("0123456789.", last[-1]))
        last--;
    return atof(last);
}

/* The number after a name at the start of a line. */
static double figure(const char *text, const char *name)
{
    const char *p = strstr(text, name);
    must(p, "a benchmark did not tell its figure");
    return atof(p + strlen(name));
}

/* ---- what is measured ---- */

typedef struct figures {
    double images_per_s, cores, rpc_s, bytes_per_s; /* without a cluster */
    double cluster[MOST];                           /* images/s of so many workers and one */
} figures;

static void measure_alone(run_result *r, figures *f)
{
    char command[4096];
    snprintf(command, sizeof command, "%s/examples/mnist --dir '%s' --epochs %s --batch %d --checkpoints build/scaling-alone", programs,
             digits, epochs, BATCH);
    run("rm -rf build/scaling-alone", r);
    run(command, r);
    f->images_per_s = images_per_s(r->text);
    f->cores = r->cores;
}

static void measure_calls(run_result *r, figures *f)
{
    char command[4096];
    snprintf(command, sizeof command, "%s/bench/master_steps", programs);
    run(command, r);
    f->rpc_s = 1 / figure(r->text, "master_steps_per_s ");
    snprintf(command, sizeof command, "%s/bench/push_pull", programs);
    run(command, r);
    f->bytes_per_s = 2 * 30 * 1048576.0 / (figure(r->text, "push_pull_30MiB_ms ") / 1e3);
}

static void measure_cluster(run_result *r, int workers, figures *f)
{
    char command[4096];
    snprintf(command, sizeof command,
             "rm -rf build/scaling-cluster; %s/bin/millrace launch --ps 1 --workers %d --bare-chief --quiet -- %s/examples/cluster_mnist "
             "--dir '%s' --epochs %s --batch %d --checkpoints build/scaling-cluster 2>&1",
             programs, workers, programs, digits, epochs, BATCH);
    run(command, r);
    f->cluster[workers - 1] = images_per_s(r->text);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of each figure separately. */
static figures median_of(const figures *f)
{
    figures m;
    for (size_t i = 0; i < sizeof m / sizeof(double); i++) {
        double v[ROUNDS];
        for (int k = 0; k < ROUNDS; k++)
            v[k] = ((const double *)&f[k])[i];
        qsort(v, ROUNDS, sizeof v[0], by_value);
        ((double *)&m)[i] = v[ROUNDS / 2];
    }
    return m;
}

/* ---- what is predicted ---- */

/* Layers of examples/mnist.c: floats, and thousands of multiplications forward a picture. */
static const struct {
    const char *name;
    double floats, products;
} layers[] = {{"conv1", 520, 392}, {"conv2", 25050, 4900}, {"fc1", 627456, 627}, {"fc2", 2570, 3}};

static void make_job(const figures *f, mr_simtrain_chunk *chunks, mr_simtrain_job *j)
{
    double products = 0, step_s = BATCH / f->images_per_s;
    mr_simtrain_job_init(j);
    for (int i = 0; i < MR_COUNT(layers); i++)
        products += layers[i].products;
    for (int i = 0; i < MR_COUNT(layers); i++) {
        double s = step_s * layers[i].products / products;
        chunks[i] = (mr_simtrain_chunk){layers[i].name, s / 3, s * 2 / 3, 4 * layers[i].floats, 0};
    }
    j->chunks = chunks;
    j->n_chunks = MR_COUNT(layers);
    j->batch = BATCH;
    j->rpc_s = f->rpc_s;
    j->ps_bytes_per_s = f->bytes_per_s;
    j->steps = 300;
    j->warmup = 20;
}

static double predict(const figures *f, int workers)
{
    mr_simtrain_chunk chunks[MR_COUNT(layers)];
    mr_simtrain_job j;
    mr_simtrain_result r;
    make_job(f, chunks, &j);
    j.n_workers = workers;
    j.n_hosts = 1;
    j.cores = (double)sysconf(_SC_NPROCESSORS_ONLN);
    j.worker_cores = MR_MAX(f->cores, 0.1);
    mr_status *st = mr_simtrain_run(&j, &r);
    must(!st, mr_status_message(st));
    double images = r.examples_per_s;
    mr_simtrain_result_deinit(&r);
    return images;
}

/* A separate host for each task, as fast as this one, on links of 10 Gbit/s. */
static void print_beyond(const figures *f, const char *what, int workers, int ps, int to)
{
    mr_simtrain_chunk chunks[MR_COUNT(layers)];
    mr_simtrain_job j;
    mr_simtrain_sweep s;
    mr_str out = {0};
    make_job(f, chunks, &j);
    for (int i = 0; i < j.n_chunks; i++)
        chunks[i].ps = -1;
    j.n_workers = workers;
    j.n_ps = ps;
    j.latency_s = 50e-6;
    j.ps_bytes_per_s = MR_MIN(1.25e9, f->bytes_per_s);
    j.worker_bytes_per_s = 1.25e9;
    j.ps_jitter = 1;
    mr_status *st = mr_simtrain_sweep_run(&j, what, 1, to, &s);
    must(!st, mr_status_message(st));
    mr_simtrain_sweep_print(&s, &out);
    printf("\nA host for each task, 10 Gbit/s, %s%d:\n%s", what[0] == 'w' ? "parameter servers: " : "workers: ",
           what[0] == 'w' ? ps : workers, mr_str_z(&out));
    mr_str_deinit(&out);
    mr_simtrain_sweep_deinit(&s);
}

int main(int argc, char **argv)
{
    static run_result r;
    figures all[ROUNDS] = {0};
    int most = 3;
    must(argc >= 3, "usage: scaling FOLDER_OF_PROGRAMS MNIST_FOLDER [--most N] [--epochs N]");
    programs = argv[1], digits = argv[2];
    for (int i = 3; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--most") == 0)
            most = MR_MAX(1, MR_MIN(atoi(argv[i + 1]), MOST));
        else if (strcmp(argv[i], "--epochs") == 0)
            epochs = argv[i + 1];
    }
    for (int k = 0; k < ROUNDS; k++) {
        measure_alone(&r, &all[k]);
        measure_calls(&r, &all[k]);
        for (int n = 1; n <= most; n++)
            measure_cluster(&r, n, &all[k]);
    }
    figures m = median_of(all);
    printf("scaling_alone %.0f images/s\nscaling_alone_cores %.2f cores\nscaling_rpc %.1f us\nscaling_push_pull %.2f GB/s\n",
           m.images_per_s, m.cores, m.rpc_s * 1e6, m.bytes_per_s / 1e9);
    for (int n = 1; n <= most; n++) {
        double p = predict(&m, n);
        printf("scaling_%d_workers_measured %.0f images/s\nscaling_%d_workers_predicted %.0f images/s\n", n, m.cluster[n - 1], n, p);
        printf("scaling_%d_workers_error %+.1f %%\n", n, 100 * (p / m.cluster[n - 1] - 1));
    }
    print_beyond(&m, "workers", 1, 1, 1000);
    print_beyond(&m, "workers", 1, 16, 1000);
    print_beyond(&m, "ps", 256, 1, 128);
    return 0;
}
