/* tests/fuzz/driver.c -- distributes the runs to child processes, and reports which of them failed.
 *
 * The driver itself runs nothing: it prepares the target once, forks one child per core with a batch of runs each, and
 * supervises them. If a child dies, the number of the failed run is in memory shared with it; the rest of its batch
 * goes to a new child. A child whose run takes too long gets SIGABRT to print its stack and is then killed. A leak is
 * only detected at the end of a batch, so the batch is repeated with a check after each run.
 *
 * Failures that look the same (the sanitizer's summary line) are counted, but shown and saved only once. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/vec.h"
#include "tests/fuzz/slot.h"

#define SAVE_FOLDER "build/fuzz"
enum { MOST_RUNS_A_BATCH = 4000, MOST_KINDS = 25, MOST_FAILURES = 500, TEXT_BYTES = 160 };

typedef struct range {
    int64_t begin, end;
    bool check_each; /* it leaks: find the run */
    bool found;      /* the leak is already known */
} range;

typedef struct child {
    pid_t pid; /* 0: free */
    range work;
    int output_fd;
    bool late; /* past its deadline: it was asked to print its stack */
    int64_t late_ns;
    char folder[128];
    fuzz_slot *slot;
} child;

typedef struct driver {
    const fuzz_target *target;
    const fuzz_options *o;
    fuzz_result *result;
    child *children;
    int n_children;
    int64_t next, end;   /* runs not assigned yet */
    MR_VEC(range) again; /* the rest of unfinished batches */
    int64_t *counts;
    int n_counts;
    _Atomic bool *stop; /* shared with the children */
    char folder[64];
    int64_t began_ns, shown_ns;
    int shown_tenth;
    MR_VEC(char *) seen; /* texts of failures */
} driver;

static void die(const char *what)
{
    fprintf(stderr, "fuzz: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void *shared(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        die("mmap");
    return p;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

/* ---- failures ---- */

/* The first informative frame of a stack: not the allocator. */
static bool telling_frame(mr_sv line)
{
    static const char *const dull[] = {"src/base/memory.c", "src/base/arena.c", "src/base/str.c",
                                       "src/base/vec.c", "src/tensor/allocator.c"};
    if (!memmem(line.p, line.n, " in ", 4) || !memmem(line.p, line.n, " src/", 5))
        return false;
    for (int i = 0; i < MR_COUNT(dull); i++)
        if (memmem(line.p, line.n, dull[i], strlen(dull[i])))
            return false;
    return true;
}

/* Appends "in FUNCTION FILE:LINE" of the first informative frame. */
static void add_frame(mr_sv output, char *out)
{
    mr_sv line;
    while (mr_sv_cut(&output, '\n', &line))
        if (telling_frame(line)) {
            const char *at = memmem(line.p, line.n, " in ", 4);
            size_t n = strlen(out);
            snprintf(out + n, TEXT_BYTES - n, "%.*s", (int)(line.p + line.n - at), at);
            return;
        }
}

/* The line of the output that contains a mark; *rest is the text after the mark. */
static bool find_line(mr_sv output, const char *mark, mr_sv *line, mr_sv *rest)
{
    while (mr_sv_cut(&output, '\n', line)) {
        const char *hit = memmem(line->p, line->n, mark, strlen(mark));
        if (hit) {
            const char *from = hit + strlen(mark);
            *rest = (mr_sv){from, (size_t)(line->p + line->n - from)};
            return true;
        }
    }
    return false;
}

/* The text of a child's output that identifies the failure, and where it happened. Equal texts are considered the same
 * failure, so varying parts are left out: sizes, addresses, and in our own messages everything after a semicolon. */
static void telling_text(mr_sv output, char *out)
{
    static const char *const marks[] = {"runtime error: ", "assertion failed", "out of memory"};
    mr_sv line, rest, word;
    if (find_line(output, "BROKEN: ", &line, &rest)) {
        mr_sv_cut(&rest, ';', &word);
        snprintf(out, TEXT_BYTES, "%.*s", MR_SV_ARG(word));
        return;
    }
    for (int i = 0; i < MR_COUNT(marks); i++)
        if (find_line(output, marks[i], &line, &rest)) {
            snprintf(out, TEXT_BYTES, "%.*s", MR_SV_ARG(line));
            return;
        }
    if (!find_line(output, "SUMMARY: AddressSanitizer: ", &line, &rest))
        return;
    mr_sv_cut(&rest, ' ', &word);
    if (word.n && word.p[0] > '9') /* the kind of error; else a number of bytes */
        snprintf(out, TEXT_BYTES, "%.*s", MR_SV_ARG(word));
    add_frame(output, out);
}

static void read_output(const child *c, mr_str *out)
{
    char chunk[4096];
    for (off_t at = 0; out->n < 4u << 20;) {
        ssize_t n = pread(c->output_fd, chunk, sizeof(chunk), at);
        if (n <= 0)
            break;
        mr_str_append(out, chunk, (size_t)n);
        at += n;
    }
}

static void write_file(const char *path, mr_sv bytes)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes.p, 1, bytes.n, f) != bytes.n)
        fprintf(stderr, "fuzz: cannot write %s: %s\n", path, strerror(errno));
    if (f)
        fclose(f);
}

/* True the first time. */
static bool is_new(driver *d, const char *text)
{
    for (int i = 0; i < d->seen.n; i++)
        if (strcmp(d->seen.p[i], text) == 0)
            return false;
    mr_vec_push(&d->seen, mr_strdup(text));
    return true;
}

static void save(const driver *d, const child *c, int64_t run, const mr_str *output)
{
    char path[256];
    mr_status_free(mr_dir_make(SAVE_FOLDER));
    const char *stem = SAVE_FOLDER "/%s-%llu-%lld.%s";
    snprintf(path, sizeof(path), stem, d->target->name, (unsigned long long)d->o->seed,
             (long long)run, "txt");
    write_file(path, mr_str_view(output));
    printf("    report %s\n", path);
    if (c->slot->n_input) {
        snprintf(path, sizeof(path), stem, d->target->name, (unsigned long long)d->o->seed,
                 (long long)run, "input");
        write_file(path, (mr_sv){c->slot->input, c->slot->n_input});
        printf("    input  %s\n", path);
    }
}

static void failed(driver *d, const child *c, fuzz_kind kind, int64_t run, const char *fallback)
{
    fuzz_result *res = d->result;
    mr_str output = {0};
    char text[TEXT_BYTES];
    snprintf(text, sizeof(text), "%s", fallback);
    read_output(c, &output);
    telling_text(mr_str_view(&output), text);
    res->n_failures++;
    res->n_of_kind[kind]++;
    if (res->first_run < 0) {
        res->first_run = run;
        res->first_kind = kind;
        snprintf(res->first_text, sizeof(res->first_text), "%s", text);
    }
    if (is_new(d, text) && !d->o->quiet) {
        static const char *const kinds[] = {"", "hangs: ", "leaks: ", ""};
        printf("FAIL %s seed %llu run %lld: %s%s\n", d->target->name,
               (unsigned long long)d->o->seed, (long long)run, kinds[kind], text);
        printf("    replay fuzz %s --seed %llu --only %lld\n", d->target->name,
               (unsigned long long)d->o->seed, (long long)run);
        save(d, c, run, &output);
        fflush(stdout);
    }
    if (d->o->first || d->seen.n >= MOST_KINDS || res->n_failures >= MOST_FAILURES)
        atomic_store(d->stop, true);
    mr_str_deinit(&output);
}

/* ---- children ---- */

static bool take_work(driver *d, range *out)
{
    if (d->again.n > 0) {
        *out = mr_vec_pop(&d->again);
        return true;
    }
    if (d->next >= d->end || atomic_load(d->stop))
        return false;
    int64_t fair = (d->end - d->next) / (4 * d->n_children) +
                   1; /* small batches at the end keep all cores busy */
    int64_t n = MR_MIN(MR_MAX(fair, 50), MOST_RUNS_A_BATCH);
    *out = (range){d->next, MR_MIN(d->next + n, d->end), false, false};
    d->next = out->end;
    return true;
}

static void start(driver *d, child *c, range work)
{
    fuzz_slot *s = c->slot;
    c->work = work;
    c->late = false;
    atomic_store(&s->run, work.begin);
    atomic_store(&s->n_done, 0);
    atomic_store(&s->started_ns, 0);
    memset(s->counts, 0, (size_t)d->n_counts * sizeof(int64_t));
    c->output_fd = memfd_create("fuzz output", MFD_CLOEXEC);
    if (c->output_fd < 0)
        die("memfd_create");
    bool alone = d->o->only >= 0 || d->o->input;
    fuzz_batch b = {d->target, d->o->seed, work.begin,  work.end, work.check_each,
                    alone,     c->folder,  d->o->input, d->stop};
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0) {
        setpgid(0, 0);
        if (!alone) {
            dup2(c->output_fd, 1);
            dup2(c->output_fd, 2);
        }
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        fuzz_child(s, &b, false);
    }
    c->pid = pid;
}

static void add_counts(driver *d, const child *c)
{
    d->result->n_runs += c->work.check_each ? 0 : atomic_load(&c->slot->n_done);
    for (int i = 0; i < d->n_counts && !c->work.check_each; i++)
        d->counts[i] += c->slot->counts[i];
}

static void do_again(driver *d, range r)
{
    if (r.begin < r.end && (r.check_each || !atomic_load(d->stop)))
        mr_vec_push(&d->again, r);
}

/* The leak checker stops the other threads of its process, and may crash if one of them is just ending. The runs are
 * done by then, and only this one check is lost. */
static bool leak_check_broke_down(const child *c)
{
    mr_str output = {0};
    read_output(c, &output);
    bool so = strstr(mr_str_z(&output), "LeakSanitizer has encountered a fatal error") != NULL;
    mr_str_deinit(&output);
    return so;
}

/* How a child ended. */
static void ended(driver *d, child *c, int wstatus)
{
    int64_t run = atomic_load(&c->slot->run);
    int code = WIFEXITED(wstatus) ? WEXITSTATUS(wstatus) : -1;
    char fallback[80];
    add_counts(d, c);
    kill(-c->pid, SIGKILL);
    c->pid = 0;
    range rest = {run + 1, c->work.end, c->work.check_each, true};
    if (code == FUZZ_EXIT_LEAK && !c->work.check_each && c->work.end - c->work.begin > 1) {
        do_again(d, (range){c->work.begin, run + 1, true, false});
    } else if (code == FUZZ_EXIT_LEAK) {
        failed(d, c, FUZZ_LEAK, run, "memory is lost");
        do_again(d, rest);
    } else if (code == FUZZ_EXIT_DONE && c->work.check_each && !c->work.found) {
        snprintf(fallback, sizeof(fallback), "memory is leaked in a run up to %lld",
                 (long long)run);
        failed(d, c, FUZZ_LEAK, c->work.begin, fallback);
    } else if (code != FUZZ_EXIT_DONE && !(code == 1 && leak_check_broke_down(c))) {
        if (WIFSIGNALED(wstatus))
            snprintf(fallback, sizeof(fallback), "ended by signal %d (%s)", WTERMSIG(wstatus),
                     strsignal(WTERMSIG(wstatus)));
        else
            snprintf(fallback, sizeof(fallback), "ended with exit code %d", code);
        failed(d, c,
               c->late                    ? FUZZ_HANG
               : code == FUZZ_EXIT_BROKEN ? FUZZ_BROKEN
                                          : FUZZ_CRASH,
               run, fallback);
        d->result->n_runs += !c->work.check_each; /* the failed one counts as a run */
        do_again(d, rest);
    }
    close(c->output_fd);
}

/* The stacks of all threads, if a debugger is installed: a signal shows only one. */
static void show_threads(const child *c)
{
    char target[32];
    snprintf(target, sizeof(target), "%d", (int)c->pid);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(c->output_fd, 1);
        dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), 2);
        unsetenv("LD_PRELOAD");
        execlp("timeout", "timeout", "60", "gdb", "-p", target, "-batch", "-ex",
               "thread apply all bt 40", (char *)NULL);
        _exit(127);
    }
    if (pid > 0)
        waitpid(pid, NULL, 0);
}

static void kill_late(driver *d)
{
    int64_t now = mr_now_ns();
    for (child *c = d->children; c < d->children + d->n_children; c++) {
        int64_t began = atomic_load(&c->slot->started_ns);
        if (!c->pid || (!began && !c->late) ||
            (began && now - began < d->o->deadline_s * INT64_C(1000000000)))
            continue;
        if (!c->late) {
            c->late = true;
            show_threads(c);
            c->late_ns = mr_now_ns();
            kill(c->pid, SIGABRT);
        } else if (now - c->late_ns > INT64_C(3000000000)) {
            kill(-c->pid, SIGKILL);
        }
    }
}

static void reap(driver *d)
{
    int wstatus;
    for (pid_t pid; (pid = waitpid(-1, &wstatus, WNOHANG)) > 0;)
        for (child *c = d->children; c < d->children + d->n_children; c++)
            if (c->pid == pid)
                ended(d, c, wstatus);
}

/* ---- progress ---- */

static double elapsed(const driver *d) { return (double)(mr_now_ns() - d->began_ns) * 1e-9; }

static int64_t n_done(const driver *d)
{
    int64_t n = d->result->n_runs;
    for (const child *c = d->children; c < d->children + d->n_children; c++)
        if (c->pid && !c->work.check_each)
            n += atomic_load(&c->slot->n_done);
    return n;
}

/* On a terminal, a progress line; otherwise a line for every tenth of the runs. */
static void progress(driver *d)
{
    int64_t done = n_done(d), now = mr_now_ns();
    int tenth = (int)(done * 10 / MR_MAX(d->o->runs, 1));
    bool live = isatty(2);
    if (d->o->quiet || d->o->only >= 0 ||
        (live ? now - d->shown_ns < 300000000 : tenth <= d->shown_tenth))
        return;
    d->shown_ns = now;
    d->shown_tenth = tenth;
    fprintf(stderr, "%sfuzz %s %lld of %lld, %.0f a second, %lld failures%s", live ? "\r" : "",
            d->target->name, (long long)done, (long long)d->o->runs,
            (double)done / MR_MAX(elapsed(d), 1e-3), (long long)d->result->n_failures,
            live ? "   " : "\n");
}

static void end_progress(void)
{
    if (isatty(2))
        fprintf(stderr, "\r%70s\r", "");
}

/* ---- the whole ---- */

static void make_children(driver *d)
{
    d->n_children = MR_MAX(d->o->jobs, 1);
    d->children = mr_new_array(child, d->n_children);
    size_t bytes = sizeof(fuzz_slot) + (size_t)d->n_counts * sizeof(int64_t);
    for (int i = 0; i < d->n_children; i++) {
        snprintf(d->children[i].folder, sizeof(d->children[i].folder), "%s/%d", d->folder, i);
        d->children[i].slot = shared(bytes);
    }
}

/* In memory if there is such a file system: targets write small files all the time. */
static void make_folder(driver *d)
{
    const char *tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : getenv("TMPDIR");
    snprintf(d->folder, sizeof(d->folder), "%s/millrace-fuzz-XXXXXX",
             tmp && strlen(tmp) < 40 ? tmp : "/tmp");
    if (!mkdtemp(d->folder))
        die("mkdtemp");
}

static bool any_running(const driver *d)
{
    for (int i = 0; i < d->n_children; i++)
        if (d->children[i].pid)
            return true;
    return false;
}

static void release(driver *d)
{
    size_t bytes = sizeof(fuzz_slot) + (size_t)d->n_counts * sizeof(int64_t);
    for (int i = 0; i < d->n_children; i++)
        munmap(d->children[i].slot, bytes);
    munmap((void *)d->stop, sizeof(*d->stop));
    nftw(d->folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    for (int i = 0; i < d->seen.n; i++)
        mr_free(d->seen.p[i]);
    mr_vec_deinit(&d->seen);
    mr_vec_deinit(&d->again);
    mr_free(d->children);
    mr_free(d->counts);
}

/* On an interrupt: kills all children and removes all files. */
static void abandon(driver *d)
{
    for (int i = 0; i < d->n_children; i++)
        if (d->children[i].pid) {
            kill(-d->children[i].pid, SIGKILL);
            waitpid(d->children[i].pid, NULL, 0);
        }
    nftw(d->folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    exit(130);
}

static void wait_a_little(driver *d, const sigset_t *watched)
{
    struct timespec tick = {0, 100000000};
    int sig = sigtimedwait(watched, NULL, &tick);
    if (sig == SIGINT || sig == SIGTERM)
        abandon(d);
    if (d->o->seconds > 0 && elapsed(d) > d->o->seconds)
        atomic_store(d->stop, true);
    kill_late(d);
    reap(d);
    progress(d);
}

static void run_children(driver *d)
{
    sigset_t watched, before;
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    sigaddset(&watched, SIGINT);
    sigaddset(&watched, SIGTERM);
    sigprocmask(SIG_BLOCK, &watched, &before);
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < d->n_children; i++) {
            range work;
            if (!d->children[i].pid && take_work(d, &work)) {
                start(d, &d->children[i], work);
                more = true;
            }
        }
        more |= any_running(d) || d->again.n > 0;
        if (more)
            wait_a_little(d, &watched);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    end_progress();
}

static void print_summary(driver *d)
{
    fuzz_result *r = d->result;
    mr_str line = {0};
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    bool kept =
        d->target->summary(d->counts, MR_MAX(r->n_runs, 1), out, d->o->quiet ? NULL : stdout);
    bool alone = d->o->only >= 0 || d->o->input; /* one run proves nothing about shares */
    r->ok = (kept || alone) && r->n_failures == 0;
    fclose(out);
    mr_str_printf(&line, "fuzz_%s runs %lld failures %lld%s%s seconds %.1f rate %.0f seed %llu\n",
                  d->target->name, (long long)r->n_runs, (long long)r->n_failures, n ? " " : "",
                  text, r->seconds, (double)r->n_runs / MR_MAX(r->seconds, 1e-3),
                  (unsigned long long)d->o->seed);
    if (!d->o->quiet)
        fputs(mr_str_z(&line), stdout);
    fflush(stdout);
    free(text);
    mr_str_deinit(&line);
}

void fuzz_drive(const fuzz_target *t, const fuzz_options *o, fuzz_result *out)
{
    driver d = {.target = t, .o = o, .result = out, .began_ns = mr_now_ns()};
    *out = (fuzz_result){.first_run = -1};
    d.n_counts = t->n_counts();
    d.counts = mr_new_array(int64_t, d.n_counts + 1);
    d.stop = shared(sizeof(*d.stop));
    d.next = o->only >= 0 ? o->only : 0;
    d.end = o->only >= 0 ? o->only + 1 : o->input ? 1 : o->runs;
    make_folder(&d);
    make_children(&d);
    if (o->no_fork) {
        fuzz_child(d.children[0].slot,
                   &(fuzz_batch){t, o->seed, d.next, d.end, false, true, ".", o->input, d.stop},
                   true);
        out->ok = true;
    } else {
        run_children(&d);
        out->seconds = elapsed(&d);
        print_summary(&d);
    }
    release(&d);
}

void fuzz_try_form(fuzz_run *r, int form, mr_str *bytes, void (*replay)(fuzz_run *r, mr_sv input))
{
    mr_str input = {0};
    mr_str_appendc(&input, (char)form);
    mr_str_append(&input, mr_str_z(bytes), bytes->n);
    fuzz_note(r, mr_str_view(&input));
    replay(r, mr_str_view(&input));
    mr_str_deinit(&input);
    mr_str_deinit(bytes);
}

bool fuzz_shares(const char *target, const char *const *names, const int64_t *counts, int n, int64_t runs, int forms, FILE *out, FILE *err)
{
    bool ok = true;
    for (int i = 0; i < n; i++) {
        double share = 100.0 * (double)counts[i] * forms / (double)runs;
        fprintf(out, "%s%s_percent %.1f", i ? " " : "", names[i], share);
        ok &= runs < 1000 || share >= 10;
    }
    if (!ok && err)
        fprintf(err, "fuzz %s: too few inputs are accepted\n", target);
    return ok;
}
