/* tests/soak/kill.c -- kill -9 of tasks at random while a cluster trains: the job always ends correctly, and soon.
 *
 *     kill --launcher MILLRACE --program KILL_PROGRAM [--runs N] [--kills N] [--seed S] [--keep 1]
 *
 * Each run is one `millrace launch` of kill_program.c, asynchronous, synchronous, with bounded delay and with backups by
 * turns, small and larger clusters by turns.  Random tasks (parameter servers, workers, the chief) are killed at random times, also while others still
 * recover, and when the job is about to end.  Then, from the logs of the workers, a run must have
 *
 *     ended right      exit code 0, the last step was reached, the line was learnt
 *     lost nothing     no step begun after a kill is below the checkpoint that was the newest complete one before it
 *     never waited     no worker was without a complete step for longer than WAIT_LIMIT_S: from the start of the launch to
 *                      its end, its own death and restart included
 *     left nothing     no process is there any more
 *
 * Public headers only. */
#include <dirent.h>
#include <fcntl.h>
#include <millrace/progress.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_KILLS = 1000, LAST_STEPS = 300, GIVE_UP_S = 120, WAIT_LIMIT_S = 10 };

typedef struct options {
    const char *launcher, *program;
    int runs, kills, keep;
    unsigned seed;
} options;

typedef struct killing {
    char task[32];
    long long at_ns, saved; /* the step of the newest complete checkpoint before; -1: none */
} killing;

typedef struct run {
    char folder[64];
    const char *how; /* the synchrony of the workers */
    int n_ps, n_workers;
    pid_t launcher;
    long long began_ns, ended_ns, last_step; /* the one to reach */
    int exit_code;                           /* -1: the job did not end */
    int n_kills, n_left_behind, lost;
    killing kills[MAX_KILLS + 1];
    double longest_wait_s, longest_from_s; /* the latter after the start */
    int longest_worker;
    long long reached;    /* by any worker */
    int ended;            /* reported by the chief */
    long long final_step; /* of the last checkpoint */
    double difference;
} run;

static long long now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static FILE *open_in(const run *r, const char *name, const char *mode)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", r->folder, name);
    return fopen(path, mode);
}

/* ---- tasks, as the system sees them ---- */

/* The first bytes of a file in /proc; 0 if the process is gone. */
static size_t read_proc(int pid, const char *file, char *buf, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, buf, size - 1);
    if (fd >= 0)
        close(fd);
    buf[n > 0 ? n : 0] = 0;
    return n > 0 ? (size_t)n : 0;
}

static int parent_of(int pid)
{
    char stat[512], state;
    int parent = -1;
    if (read_proc(pid, "stat", stat, sizeof stat) && strrchr(stat, ')'))
        sscanf(strrchr(stat, ')') + 1, " %c %d", &state, &parent);
    return parent;
}

/* Its name, from its environment; "" while it is still a copy of the launcher. */
static const char *task_of(int pid)
{
    static char env[1 << 16];
    size_t n = read_proc(pid, "environ", env, sizeof env);
    for (size_t at = 0; at < n; at += strlen(env + at) + 1)
        if (strncmp(env + at, "MILLRACE_TASK=", 14) == 0)
            return env + at + 14;
    return "";
}

/* Kills one of the launcher's running tasks; 0: there is none. */
static int kill_one(const run *r, char task[32])
{
    int pids[64], n = 0;
    DIR *d = opendir("/proc");
    for (struct dirent *e; d && (e = readdir(d));) {
        int pid = atoi(e->d_name);
        if (pid > 0 && n < 64 && parent_of(pid) == r->launcher && task_of(pid)[0])
            pids[n++] = pid;
    }
    if (d)
        closedir(d);
    int pid = n > 0 ? pids[rand() % n] : -1;
    if (pid > 0)
        snprintf(task, 32, "%.31s", task_of(pid));
    return pid > 0 && kill(pid, SIGKILL) == 0;
}

/* ---- what the run has come to ---- */

/* The step of the newest checkpoint; -1: there is none. */
static long long newest_saved(const run *r)
{
    char line[512];
    long long step = -1;
    FILE *f = open_in(r, "checkpoint", "r");
    if (f && fgets(line, sizeof line, f))
        sscanf(line, "model_checkpoint_path: \"model.ckpt-%lld", &step);
    if (f)
        fclose(f);
    return step;
}

typedef struct entry { /* a line of a log */
    long long began_ns, ended_ns, step;
    char what[64];
} entry;

static int read_entry(FILE *f, entry *e)
{
    char line[256];
    if (!fgets(line, sizeof line, f) || sscanf(line, "%lld %lld %63[^\n]", &e->began_ns, &e->ended_ns, e->what) != 3)
        return 0;
    if (sscanf(e->what, "%lld", &e->step) != 1)
        e->step = -1;
    return 1;
}

static FILE *open_log(const run *r, int worker)
{
    char name[64];
    snprintf(name, sizeof name, "worker-%d.log", worker);
    return open_in(r, name, "r");
}

/* The largest step in the logs so far. */
static long long largest_step(const run *r)
{
    long long most = 0;
    for (int i = 0; i < r->n_workers; i++) {
        entry e;
        FILE *f = open_log(r, i);
        while (f && read_entry(f, &e))
            most = e.step > most ? e.step : most;
        if (f)
            fclose(f);
    }
    return most;
}

static void look_at_entry(run *r, const entry *e)
{
    if (e->step > r->reached)
        r->reached = e->step;
    if (sscanf(e->what, "end %lld %lf", &r->final_step, &r->difference) == 2)
        r->ended = 1;
    for (int k = 0; e->step >= 0 && k < r->n_kills; k++)
        if (e->began_ns > r->kills[k].at_ns && e->step < r->kills[k].saved) {
            fprintf(stderr, "\nstep %lld after kill %d, although the checkpoint of %lld was complete\n", e->step, k,
                    r->kills[k].saved);
            r->lost++;
            return;
        }
}

static void look_at_wait(run *r, int worker, long long from_ns, long long to_ns)
{
    double s = (double)(to_ns - from_ns) * 1e-9;
    if (s <= r->longest_wait_s)
        return;
    r->longest_wait_s = s;
    r->longest_from_s = (double)(from_ns - r->began_ns) * 1e-9;
    r->longest_worker = worker;
}

/* Everything that a worker and its replacements have done. */
static void look_at_log(run *r, int worker)
{
    entry e;
    long long last_ns = r->began_ns;
    int done = 0;
    FILE *f = open_log(r, worker);
    while (f && read_entry(f, &e)) {
        look_at_entry(r, &e);
        look_at_wait(r, worker, last_ns, e.ended_ns);
        last_ns = e.ended_ns;
        done = e.step < 0;
    }
    if (f)
        fclose(f);
    if (!done || worker == 0) /* a worker that has left waits for nothing; the chief must complete the job */
        look_at_wait(r, worker, last_ns, r->ended_ns);
}

/* ---- a run ---- */

static void start(run *r, const options *o)
{
    char ps[16], workers[16];
    snprintf(ps, sizeof ps, "%d", r->n_ps);
    snprintf(workers, sizeof workers, "%d", r->n_workers);
    r->began_ns = now_ns();
    r->launcher = fork();
    if (r->launcher != 0)
        return;
    FILE *out = open_in(r, "output", "w");
    if (!out || dup2(fileno(out), 1) < 0 || dup2(fileno(out), 2) < 0)
        _exit(127);
    execl(o->launcher, o->launcher, "launch", "--ps", ps, "--workers", workers, "--restarts", "1000", "--", o->program, r->folder,
          r->how, (char *)NULL);
    _exit(127);
}

/* Whether the launcher has ended; waits for that until the given time. */
static int has_ended(run *r, long long until_ns)
{
    int st;
    while (r->launcher && waitpid(r->launcher, &st, WNOHANG) != r->launcher) {
        if (now_ns() >= until_ns)
            return 0;
        usleep(2000);
    }
    if (r->launcher) {
        r->ended_ns = now_ns();
        r->exit_code = WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
        r->launcher = 0;
    }
    return 1;
}

static void say_enough(run *r)
{
    char from[256], to[256];
    r->last_step = largest_step(r) + LAST_STEPS;
    FILE *f = open_in(r, "enough.new", "w");
    if (!f)
        return;
    fprintf(f, "%lld\n", r->last_step);
    fclose(f);
    snprintf(from, sizeof from, "%s/enough.new", r->folder);
    snprintf(to, sizeof to, "%s/enough", r->folder);
    rename(from, to); /* the file is complete or does not exist */
}

/* Waits until a worker has left, so that the next kill hits a job that is ending. */
static void wait_for_end(run *r, long long until_ns)
{
    entry e = {.step = 0};
    while (now_ns() < until_ns && !has_ended(r, now_ns() + 2000000))
        for (int i = 0; i < r->n_workers; i++) {
            FILE *f = open_log(r, i);
            while (f && read_entry(f, &e) && e.step >= 0)
                ;
            if (f)
                fclose(f);
            if (e.step < 0)
                return;
        }
}

static void kill_now(run *r)
{
    killing k = {.saved = newest_saved(r)};
    do
        k.at_ns = now_ns();
    while (!has_ended(r, k.at_ns + 1000000) && !kill_one(r, k.task));
    if (r->launcher)
        r->kills[r->n_kills++] = k;
}

/* The last kill comes shortly before the end; every other run has one more after the end has begun. */
static void do_kills(run *r, int n)
{
    for (int i = 0; i < n; i++) {
        int after_ms = rand() % (i < n - 1 ? 1500 : LAST_STEPS);
        if (i == n - 1)
            say_enough(r);
        if (has_ended(r, now_ns() + after_ms * 1000000LL))
            return;
        kill_now(r);
    }
    if (rand() % 2) {
        wait_for_end(r, now_ns() + 20 * 1000000000LL);
        kill_now(r);
    }
}

/* Everything that the launcher started is now a child of this process. */
static void count_left_behind(run *r)
{
    usleep(100000); /* the system ends the launcher's children with it: let it */
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    int pid;
    while ((pid = waitpid(-1, NULL, WNOHANG)) == 0) {
        DIR *d = opendir("/proc");
        for (struct dirent *e; d && (e = readdir(d));)
            if (atoi(e->d_name) > 0 && parent_of(atoi(e->d_name)) == getpid()) {
                r->n_left_behind++;
                kill(atoi(e->d_name), SIGKILL);
                waitpid(atoi(e->d_name), NULL, 0);
            }
        if (d)
            closedir(d);
    }
}

static int is_wrong(const run *r)
{
    return r->exit_code != 0 || !r->ended || !(r->difference < 1e-3) || r->final_step < r->last_step || newest_saved(r) < r->last_step || r->n_left_behind > 0 ||
           r->longest_wait_s > WAIT_LIMIT_S;
}

static void play(run *r, const options *o)
{
    start(r, o);
    do_kills(r, o->kills);
    if (!has_ended(r, now_ns() + GIVE_UP_S * 1000000000LL)) {
        kill(r->launcher, SIGKILL);
        has_ended(r, now_ns() + 10000000000LL);
        r->exit_code = -1;
    }
    count_left_behind(r);
    for (int i = 0; i < r->n_workers; i++)
        look_at_log(r, i);
}

static void remove_folder(const run *r)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", r->folder);
    int ignored = system(command);
    (void)ignored;
}

/* ---- all of them ---- */

static void read_options(int argc, char **argv, options *o)
{
    *o = (options){.runs = 30, .kills = 10, .seed = (unsigned)time(NULL)};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--launcher") == 0)
            o->launcher = argv[i + 1];
        if (strcmp(argv[i], "--program") == 0)
            o->program = argv[i + 1];
        if (strcmp(argv[i], "--runs") == 0)
            o->runs = atoi(argv[i + 1]);
        if (strcmp(argv[i], "--kills") == 0)
            o->kills = atoi(argv[i + 1]);
        if (strcmp(argv[i], "--seed") == 0)
            o->seed = (unsigned)atoi(argv[i + 1]);
        if (strcmp(argv[i], "--keep") == 0)
            o->keep = atoi(argv[i + 1]);
    }
}

static void report(const run *r, int number, unsigned seed)
{
    fprintf(stderr,
            "\nrun %d of seed %u, %s on %d ps and %d workers: exit code %d, %d kills, step %lld of %lld, difference %g, lost %d, "
            "longest wait %.1f s of worker %d from %.1f s on, %d processes left behind; what was written is in %s\n",
            number, seed, r->how, r->n_ps, r->n_workers, r->exit_code, r->n_kills, r->ended ? r->final_step : r->reached,
            r->last_step, r->ended ? r->difference : -1.0, r->lost, r->longest_wait_s, r->longest_worker, r->longest_from_s, r->n_left_behind, r->folder);
    for (int i = 0; i < r->n_kills; i++)
        fprintf(stderr, "  %.2f s %s%s", (double)(r->kills[i].at_ns - r->began_ns) * 1e-9, r->kills[i].task, i + 1 < r->n_kills ? "" : "\n");
}

int main(int argc, char **argv)
{
    options o;
    static run r;
    int kills = 0, wrong = 0, lost = 0;
    double longest = 0;
    static const char *const ways[] = {"async", "sync", "bounded:2", "backup"};
    read_options(argc, argv, &o);
    if (!o.launcher || !o.program || o.kills < 1 || o.kills > MAX_KILLS)
        return 2;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    srand(o.seed);
    mr_progress *bar = mr_progress_new(stderr, "kill -9 of tasks", 0, o.runs);
    for (int i = 0; i < o.runs; i++) {
        int large = i / 4 % 2;
        r = (run){.folder = "/tmp/millrace-soak-kill-XXXXXX", .how = ways[i % 4], .n_ps = 1 + large, .n_workers = 2 + large, .exit_code = -1};
        if (!mkdtemp(r.folder))
            return 1;
        play(&r, &o);
        kills += r.n_kills;
        lost += r.lost;
        wrong += is_wrong(&r);
        longest = r.longest_wait_s > longest ? r.longest_wait_s : longest;
        if (is_wrong(&r) || r.lost || o.keep)
            report(&r, i, o.seed);
        else
            remove_folder(&r);
        mr_progress_update(bar, i + 1, "kills %d  wrong %d  lost %d  longest wait %.1f s", kills, wrong, lost, longest);
    }
    mr_progress_end(bar);
    printf("runs %d kills %d wrong %d lost %d longest_wait_s %.1f seed %u\n", o.runs, kills, wrong, lost, longest, o.seed);
    return wrong || lost;
}
