/* cli/launch_view.c -- reads what tasks write and report, and shows it as lines and as a table. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/report.h"
#include "cli/agent.h"
#include "cli/launch_internal.h"

#define SECOND INT64_C(1000000000)
#define FRAME_NS (SECOND / 10)
#define SILENT_NS (3 * SECOND) /* a worker without a step for so long is shown as waiting */
enum { MAX_REPORT = 2048, MAX_REPORTS = 256 };

void mr_launch_say(mr_launcher *l, const char *fmt, ...)
{
    va_list ap;
    mr_str text = {0};
    if (l->o->quiet)
        return;
    va_start(ap, fmt);
    mr_str_vprintf(&text, fmt, ap);
    va_end(ap);
    mr_screen_say(l->screen, mr_str_z(&text));
    mr_str_deinit(&text);
}

/* ---- reports ---- */

mr_status *mr_launch_listen(mr_launcher *l)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (!l->o->folder)
        return NULL;
    int n = snprintf(a.sun_path, sizeof a.sun_path, "%s/status", l->o->folder);
    l->status = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (n >= (int)sizeof a.sun_path || l->status < 0 || bind(l->status, (struct sockaddr *)&a, sizeof a) < 0)
        return mr_error(MR_FAILED_PRECONDITION, "cannot create the socket %s/status: %s", l->o->folder,
                        strerror(errno));
    return NULL;
}

void mr_launch_forget(mr_launched *t)
{
    mr_free(t->waiting);
    t->waiting = NULL;
    t->reported = false;
    t->own = t->own_ns = 0;
    t->rate = t->step_rate = -1;
    t->step_ns = 0;
    t->loss = NAN;
}

/* Updates the steps per second of a worker: measured over at least half a second, then smoothed. A smaller count than
 * before means a new process; measuring starts again. */
static void measure_worker(mr_launched *t, int64_t own, int64_t now)
{
    if (t->own_ns == 0 || own < t->own) {
        t->own = own;
        t->own_ns = now;
        return;
    }
    double seconds = (double)(now - t->own_ns) * 1e-9;
    if (seconds < 0.5)
        return;
    double rate = (double)(own - t->own) / seconds;
    t->rate = t->rate < 0 ? rate : 0.5 * t->rate + 0.5 * rate;
    t->own = own;
    t->own_ns = now;
}

/* Updates the global steps per second, from which the remaining time of the training is computed. */
static void measure_training(mr_launched *t, int64_t step, int64_t now)
{
    double seconds = (double)(now - t->step_ns) * 1e-9;
    if (t->step_ns && step >= t->step_was && seconds < 1)
        return;
    if (t->step_ns && step > t->step_was) {
        double rate = (double)(step - t->step_was) / seconds;
        t->step_rate = t->step_rate < 0 ? rate : 0.7 * t->step_rate + 0.3 * rate;
    }
    t->step_was = step;
    t->step_ns = now;
}

static void take_report(mr_launched *t, const mr_report *r)
{
    int64_t now = mr_now_ns();
    t->reported = t->began = true;
    if (r->step >= 0)
        measure_training(t, r->step, now);
    if (r->own > t->own || t->own_ns == 0)
        t->heard_ns = now;
    t->step = r->step;
    measure_worker(t, r->own, now);
    mr_free(t->waiting);
    t->waiting = mr_strndup(r->waiting.p, r->waiting.n);
}

/* Passes a line on unchanged, to the launcher on the other side of ssh. */
static void hand_on(int stream, const char *mark, mr_sv line)
{
    mr_str out = {0};
    mr_str_appendz(&out, mark);
    mr_str_append(&out, line.p, line.n);
    mr_str_appendc(&out, '\n');
    mr_screen_write(stream, out.p, out.n);
    mr_str_deinit(&out);
}

/* Stores the figures of a worker. Workers are numbered across the jobs "chief" and "worker", in the order of tasks. */
static void take_figures(mr_launcher *l, const mr_report_figures *f)
{
    int64_t number = 0;
    for (int i = 0; i < l->n; i++) {
        const char *job = l->tasks[i].what->job;
        if ((strcmp(job, "worker") != 0 && strcmp(job, "chief") != 0) || number++ != f->worker)
            continue;
        l->tasks[i].judged = true;
        l->tasks[i].figures = *f;
    }
}

void mr_launch_tell_figures(mr_launcher *l)
{
    for (int i = 0; i < l->n; i++) {
        const mr_report_figures *f = &l->tasks[i].figures;
        if (!l->tasks[i].judged)
            continue;
        mr_str late = {0};
        if (f->late)
            mr_str_printf(&late, ", %lld came too late", (long long)f->late);
        mr_launch_say(l, "%s: %lld iterations%s, waited %.1f s for others, staleness %.2f, at most %lld", l->tasks[i].name,
                      (long long)f->iterations, mr_str_z(&late), (double)f->waited_ms / 1000, f->staleness, (long long)f->staleness_max);
        mr_str_deinit(&late);
    }
}

/* Handles a message of a task other than its progress report. */
static void take_news(mr_launcher *l, const mr_report_news *n)
{
    for (int i = 0; i < l->n; i++) {
        mr_launched *t = &l->tasks[i];
        if (!mr_sv_is(n->task, t->name))
            continue;
        switch (n->kind) {
        case MR_REPORT_READY: t->began = true; break;
        case MR_REPORT_PORT_TAKEN: t->port_taken = true; break;
        case MR_REPORT_PROGRESS:
            t->loss = n->loss == n->loss ? n->loss : t->loss;
            t->last_step = n->last_step >= 0 ? n->last_step : t->last_step;
            break;
        case MR_REPORT_LOG: mr_screen_line(l->screen, t->number, t->name, l->name_width, 2, n->text); break;
        }
    }
}

/* Handles one report. An agent passes valid reports on to its launcher. */
static void hear_text(mr_launcher *l, mr_sv text)
{
    mr_report r;
    mr_report_figures f;
    mr_report_news news;
    bool is_figures = mr_report_figures_parse(text, &f), is_news = mr_report_news_parse(text, &news),
         is_report = mr_report_parse(text, &r);
    if (l->o->bare && (is_figures || is_news || is_report) && !memchr(text.p, '\n', text.n))
        hand_on(2, MR_AGENT_REPORT, text);
    if (l->o->bare)
        return;
    if (is_figures)
        take_figures(l, &f);
    if (is_news)
        take_news(l, &news);
    for (int i = 0; is_report && i < l->n; i++)
        if (mr_sv_is(r.task, l->tasks[i].name))
            take_report(&l->tasks[i], &r);
}

void mr_launch_hear(mr_launcher *l)
{
    char text[MAX_REPORT];
    ssize_t n;
    for (int i = 0; i < MAX_REPORTS && (n = recv(l->status, text, sizeof text, MSG_DONTWAIT)) >= 0; i++)
        hear_text(l, (mr_sv){text, (size_t)n});
}

/* ---- lines ---- */

typedef struct line_arg {
    mr_launcher *l;
    mr_launched *t;
    int stream;
} line_arg;

static void keep_line(mr_launcher *l, mr_launched *t, mr_sv line)
{
    l->n_in_a_row = l->last_writer == t->number ? l->n_in_a_row + 1 : 1;
    l->last_writer = t->number;
    mr_str *to = &t->last_lines[t->next_line];
    t->next_line = (t->next_line + 1) % MR_LAST_LINES;
    mr_str_clear(to);
    mr_str_append(to, line.p, line.n);
}

bool mr_launch_lines_are_last(const mr_launcher *l, const mr_launched *t)
{
    int n = 0;
    for (int i = 0; i < MR_LAST_LINES; i++)
        n += t->last_lines[i].n > 0;
    return n == 0 || (l->last_writer == t->number && l->n_in_a_row >= n);
}

void mr_launch_repeat_lines(mr_launcher *l, const mr_launched *t)
{
    for (int i = 0; i < MR_LAST_LINES && !l->o->quiet; i++) {
        const mr_str *line = &t->last_lines[(t->next_line + i) % MR_LAST_LINES];
        if (line->n)
            mr_screen_line(l->screen, t->number, t->name, l->name_width, 2, mr_str_view(line));
    }
}

/* Handles one line of output. On stderr, an agent sends reports between the lines of its task. */
static void take_line(void *arg, mr_sv line)
{
    line_arg *a = arg;
    if (a->l->o->bare)
        hand_on(a->stream, "", line);
    else if (a->t->what->host && a->stream == 2 && line.p[0] == MR_AGENT_REPORT[0]) {
        a->t->agent_up = true;
        hear_text(a->l, (mr_sv){line.p + 1, line.n - 1});
    } else {
        keep_line(a->l, a->t, line);
        mr_screen_line(a->l->screen, a->t->number, a->t->name, a->l->name_width, a->stream, line);
    }
}

/* A last line without a newline is shown when the pipe ends. */
bool mr_launch_read(mr_launcher *l, mr_launched *t, int stream)
{
    char buf[8192];
    line_arg arg = {l, t, stream};
    int *fd = &t->process.out[stream - 1];
    ssize_t n = read(*fd, buf, sizeof buf);
    if (n > 0)
        mr_lines_add(&t->lines[stream - 1], buf, (size_t)n, take_line, &arg);
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return true;
    mr_lines_end(&t->lines[stream - 1], take_line, &arg);
    close(*fd);
    *fd = -1;
    return false;
}

/* ---- the table ---- */

static mr_row_state state_of(const mr_launcher *l, const mr_launched *t, int64_t now)
{
    if (t->done || (!t->process.pid && l->ending))
        return MR_ROW_DONE;
    if (l->ending)
        return MR_ROW_ENDING;
    if (!t->process.pid)
        return MR_ROW_RESTARTING;
    if (strcmp(t->what->job, "ps") == 0)
        return MR_ROW_SERVING;
    if (!t->reported)
        return MR_ROW_STARTING;
    return t->waiting[0] || now - t->heard_ns > SILENT_NS ? MR_ROW_WAITING : MR_ROW_TRAINING;
}

/* The row of a task in the table. The text in r.waiting may be in `note`, which must live as long as the row. */
static mr_row row_of(const mr_launcher *l, const mr_launched *t, int64_t now, char *note, size_t n_note)
{
    mr_row r = {.name = t->name,
                .host = t->what->host,
                .state = state_of(l, t, now),
                .step = t->reported ? t->step : -1,
                .rate = t->reported ? t->rate : -1,
                .restarts = t->n_restarts,
                .waiting = t->waiting ? t->waiting : "",
                .judged = t->judged,
                .loss = t->loss,
                .left_s = -1,
                .waited_s = (double)t->figures.waited_ms / 1000,
                .staleness = t->figures.staleness,
                .late = t->figures.late};
    bool waits = r.state == MR_ROW_WAITING;
    int64_t silent = (now - t->heard_ns) / SECOND;
    if (waits && silent >= 3) {
        snprintf(note, n_note, "%s%sno step for %lld s", r.waiting, r.waiting[0] ? ", " : "", (long long)silent);
        r.waiting = note;
    }
    if (r.state == MR_ROW_TRAINING && t->last_step >= 0 && t->step_rate > 0)
        r.left_s = (double)MR_MAX(t->last_step - t->step, 0) / t->step_rate;
    if (waits || r.state == MR_ROW_DONE)
        r.rate = waits && r.step >= 0 ? 0 : -1;
    else if (r.state == MR_ROW_RESTARTING || r.state == MR_ROW_ENDING)
        r.waiting = "";
    return r;
}

static void draw_table(mr_launcher *l, int64_t now)
{
    enum { NOTE = 512 };
    mr_row *rows = mr_new_array(mr_row, l->n);
    char *notes = mr_new_array(char, (size_t)l->n * NOTE);
    for (int i = 0; i < l->n; i++)
        rows[i] = row_of(l, &l->tasks[i], now, notes + (size_t)i * NOTE, NOTE);
    mr_screen_draw(l->screen, &(mr_task_table){rows, l->n, (now - l->began_ns) / SECOND});
    mr_free(rows);
    mr_free(notes);
}

void mr_launch_show(mr_launcher *l)
{
    int64_t now = mr_now_ns();
    if (!mr_screen_has_table(l->screen)) {
        l->draw_at_ns = INT64_MAX;
    } else if (now >= l->draw_at_ns) {
        draw_table(l, now);
        l->draw_at_ns = now + FRAME_NS;
    }
}
