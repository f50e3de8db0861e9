/* tests/harness/log.c -- captures the library's log, for tests that wait for a line. */
#include "tests/harness/log.h"

#include "base/log.h"
#include "base/long_wait.h"
#include "base/memory.h"
#include "base/str.h"
#include "base/thread.h"

static mr_mutex mu = {PTHREAD_MUTEX_INITIALIZER};
static mr_cond changed;
static mr_str text MR_GUARDED_BY(mu); /* all lines */

static void hear(void *arg, mr_log_level level, const char *file, int line, const char *what)
{
    (void)arg, (void)level, (void)file, (void)line;
    mr_lock(&mu);
    mr_str_printf(&text, "%s\n", what);
    mr_cond_broadcast(&changed);
    mr_unlock(&mu);
}

void mr_test_log_begin(int64_t wait_period_ns)
{
    mr_cond_init(&changed);
    mr_long_wait_set_period_ns(wait_period_ns);
    mr_log_listen(hear, NULL);
}

static int count_locked(const char *part) MR_REQUIRES(mu);
static int count_locked(const char *part)
{
    int n = 0;
    for (const char *p = mr_str_z(&text); (p = strstr(p, part)); p++)
        n++;
    return n;
}

void mr_test_log_wait(const char *part, int times)
{
    mr_lock(&mu);
    while (count_locked(part) < times)
        mr_cond_wait(&changed, &mu);
    mr_unlock(&mu);
}

int mr_test_log_count(const char *part)
{
    mr_lock(&mu);
    int n = count_locked(part);
    mr_unlock(&mu);
    return n;
}

void mr_test_log_end(void)
{
    mr_log_listen(NULL, NULL);
    mr_long_wait_set_period_ns(0);
    mr_lock(&mu);
    mr_str_deinit(&text);
    mr_unlock(&mu);
    mr_cond_deinit(&changed);
}
