/* base/report.c -- sends reports about what this task is doing.
 *
 * There may be a hundred thousand steps per second; at most ten per second are reported. */
#include "base/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"

#define PAUSE_NS (100 * INT64_C(1000000))
#define LONG_NS (1000 * INT64_C(1000000))
enum { MAX_TEXT = 1024 };

static struct {
    int fd; /* -1: there is no watcher */
    struct sockaddr_un to;
    const char *task;
    mr_mutex mu;
    int64_t step, own MR_GUARDED_BY(mu); /* own: since the process began */
    int64_t told_ns MR_GUARDED_BY(mu);
    bool waits MR_GUARDED_BY(mu);
    const char *blocked MR_GUARDED_BY(mu); /* NULL: by nothing */
    int64_t blocked_ns MR_GUARDED_BY(mu);  /* since when */
    int64_t progress_ns MR_GUARDED_BY(mu); /* when progress was last reported */
    double loss MR_GUARDED_BY(mu);         /* NaN, or the last one */
    int64_t last_step MR_GUARDED_BY(mu);   /* likewise; -1 */
} watch = {.fd = -1, .step = -1, .loss = NAN, .last_step = -1};

static void look_for_watcher(void)
{
    const char *path = getenv("MILLRACE_STATUS"), *task = getenv("MILLRACE_TASK");
    mr_mutex_init(&watch.mu);
    if (!path || !path[0] || strlen(path) >= sizeof watch.to.sun_path || !task || !task[0])
        return;
    watch.to.sun_family = AF_UNIX;
    memcpy(watch.to.sun_path, path, strlen(path) + 1);
    watch.task = mr_strdup(task);
    watch.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static bool is_watched(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, look_for_watcher);
    return watch.fd >= 0;
}

static void tell_locked(const char *waiting) MR_REQUIRES(watch.mu)
{
    char text[MAX_TEXT];
    int n = snprintf(text, sizeof text, "%s %lld %lld %s", watch.task, (long long)watch.step, (long long)watch.own, waiting);
    (void)sendto(watch.fd, text, (size_t)MR_MIN(n, MAX_TEXT - 1), MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&watch.to,
                 sizeof watch.to);
}

/* Sends a report at most every PAUSE_NS, except for the first step after a wait, which is reported at once. */
void mr_report_step(int64_t step)
{
    if (!is_watched())
        return;
    int64_t now = mr_now_ns();
    mr_lock(&watch.mu);
    watch.step = step;
    watch.own++;
    watch.blocked = NULL;
    if (watch.waits || now - watch.told_ns >= PAUSE_NS) {
        tell_locked("");
        watch.told_ns = now;
        watch.waits = false;
    }
    mr_unlock(&watch.mu);
}

void mr_report_waiting(const char *what)
{
    if (!is_watched())
        return;
    mr_lock(&watch.mu);
    tell_locked(what);
    watch.waits = true;
    mr_unlock(&watch.mu);
}

void mr_report_blocked(const char *what)
{
    if (!is_watched())
        return;
    int64_t now = mr_now_ns();
    mr_lock(&watch.mu);
    watch.blocked = what;
    watch.blocked_ns = now;
    mr_unlock(&watch.mu);
}

void mr_report_beat(void)
{
    if (!is_watched())
        return;
    int64_t now = mr_now_ns();
    mr_lock(&watch.mu);
    if (watch.blocked && now - watch.blocked_ns >= LONG_NS) {
        tell_locked(watch.blocked);
        watch.waits = true;
    }
    mr_unlock(&watch.mu);
}

void mr_report_tell_figures(const mr_report_figures *f)
{
    char text[MAX_TEXT];
    if (!is_watched())
        return;
    int n = snprintf(text, sizeof text, "figures %lld %lld %lld %lld %lld %lld", (long long)f->worker, (long long)f->iterations,
                     (long long)f->late, (long long)f->waited_ms, (long long)(f->staleness * 100 + 0.5), (long long)f->staleness_max);
    (void)sendto(watch.fd, text, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&watch.to, sizeof watch.to);
}

/* ---- news ---- */

static const char *const verbs[] = {[MR_REPORT_READY] = "ready",
                                    [MR_REPORT_PORT_TAKEN] = "taken",
                                    [MR_REPORT_PROGRESS] = "progress",
                                    [MR_REPORT_LOG] = "log"};

/* Sends one datagram, cut if it is too long. The caller has checked that there is a watcher. */
static void send_news(mr_report_kind kind, const char *rest)
{
    char text[MAX_TEXT];
    int n = snprintf(text, sizeof text, "%s %s%s%s", verbs[kind], watch.task, rest[0] ? " " : "", rest);
    (void)sendto(watch.fd, text, (size_t)MR_MIN(n, MAX_TEXT - 1), MSG_DONTWAIT | MSG_NOSIGNAL,
                 (struct sockaddr *)&watch.to, sizeof watch.to);
}

void mr_report_ready(void)
{
    if (is_watched())
        send_news(MR_REPORT_READY, "");
}

void mr_report_port_taken(void)
{
    if (is_watched())
        send_news(MR_REPORT_PORT_TAKEN, "");
}

/* Keeps the last loss and last step, so that a report contains both even if the caller passes only one of them. */
void mr_report_progress(double loss, int64_t last_step)
{
    char rest[64];
    if (!is_watched())
        return;
    int64_t now = mr_now_ns();
    mr_lock(&watch.mu);
    if (!isnan(loss))
        watch.loss = loss;
    if (last_step >= 0)
        watch.last_step = last_step;
    bool due = now - watch.progress_ns >= PAUSE_NS;
    if (due)
        watch.progress_ns = now;
    snprintf(rest, sizeof rest, "%.9g %lld", watch.loss, (long long)watch.last_step);
    mr_unlock(&watch.mu);
    if (due)
        send_news(MR_REPORT_PROGRESS, rest);
}

static void log_to_watcher(void *arg, mr_log_level level, const char *file, int line, const char *text)
{
    (void)arg, (void)level, (void)file, (void)line;
    send_news(MR_REPORT_LOG, text);
}

void mr_report_log(void)
{
    if (is_watched())
        mr_log_listen_if_silent(log_to_watcher, NULL);
}

static bool parse_progress(mr_sv rest, mr_report_news *out)
{
    mr_sv loss;
    char text[64], *end;
    if (!mr_sv_cut(&rest, ' ', &loss) || !rest.p || loss.n == 0 || loss.n >= sizeof text)
        return false;
    memcpy(text, loss.p, loss.n);
    text[loss.n] = 0;
    out->loss = strtod(text, &end);
    return *end == 0 && mr_sv_to_i64(rest, &out->last_step) && out->last_step >= -1;
}

bool mr_report_news_parse(mr_sv text, mr_report_news *out)
{
    mr_sv rest = text, verb;
    *out = (mr_report_news){.loss = NAN, .last_step = -1};
    if (!mr_sv_cut(&rest, ' ', &verb) || !rest.p || !mr_sv_cut(&rest, ' ', &out->task) || !out->task.n)
        return false;
    for (int i = 0; i < MR_COUNT(verbs); i++) {
        if (!mr_sv_is(verb, verbs[i]))
            continue;
        out->kind = (mr_report_kind)i;
        out->text = rest.p ? rest : MR_SV("");
        return i == MR_REPORT_PROGRESS ? rest.p && parse_progress(rest, out) : i == MR_REPORT_LOG || !rest.p;
    }
    return false;
}

/* ---- what others send ---- */

bool mr_report_figures_parse(mr_sv text, mr_report_figures *out)
{
    mr_sv rest = text, word;
    int64_t v[6];
    if (!mr_sv_cut(&rest, ' ', &word) || !mr_sv_is(word, "figures"))
        return false;
    for (int i = 0; i < MR_COUNT(v); i++)
        if (!mr_sv_cut(&rest, ' ', &word) || !mr_sv_to_i64(word, &v[i]) || v[i] < 0)
            return false;
    if (rest.p)
        return false;
    *out = (mr_report_figures){v[0], v[1], v[2], v[3], (double)v[4] / 100, v[5]};
    return true;
}

bool mr_report_parse(mr_sv text, mr_report *out)
{
    mr_sv rest = text, step, own;
    if (!mr_sv_cut(&rest, ' ', &out->task) || !out->task.n || !mr_sv_cut(&rest, ' ', &step) || !mr_sv_cut(&rest, ' ', &own) ||
        !mr_sv_to_i64(step, &out->step) || !mr_sv_to_i64(own, &out->own) || out->step < -1 || out->own < 0)
        return false;
    out->waiting = rest.p ? rest : MR_SV("");
    return true;
}
