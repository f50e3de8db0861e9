/* base/log_test.c */
#include "base/log.h"

#include <stdio.h>

#include "base/memory.h"
#include "tests/harness/test.h"

typedef struct heard {
    int n;
    mr_log_level level;
    size_t text_n;
    char text[64];
} heard;

static void hear(void *arg, mr_log_level level, const char *file, int line, const char *text)
{
    heard *h = arg;
    MR_CHECK(strstr(file, "log_test.c") && line > 0);
    h->n++;
    h->level = level;
    h->text_n = strlen(text);
    snprintf(h->text, sizeof(h->text), "%s", text);
}

MR_TEST(log_is_silent_without_a_listener) { mr_info("nobody %s", "hears"); }

MR_TEST(log_tells_its_listener_until_it_is_taken_away)
{
    heard h = {0};
    mr_log_listen(hear, &h);
    mr_warn("%d of %d", 1, 2);
    MR_CHECK_STR(h.text, "1 of 2");
    MR_CHECK_INT(h.level, MR_LOG_WARNING);
    mr_log_listen(NULL, NULL);
    mr_warn("more");
    MR_CHECK_INT(h.n, 1);
}

MR_TEST(log_passes_long_lines_whole_or_cut_when_memory_is_out)
{
    heard h = {0};
    mr_log_listen(hear, &h);
    mr_info("%2000d", 1);
    MR_CHECK_INT(h.text_n, 2000);
    mr_memory_fail_after(1);
    mr_info("%2000d", 1);
    MR_CHECK_INT(h.text_n, 511);
    mr_log_listen(NULL, NULL);
}

static void hear_and_log(void *arg, mr_log_level level, const char *file, int line,
                         const char *text)
{
    hear(arg, level, file, line, text);
    mr_info("from inside"); /* dropped */
    mr_log_listen(hear, arg);
}

MR_TEST(log_listener_may_log_and_replace_itself)
{
    heard h = {0};
    mr_log_listen(hear_and_log, &h);
    mr_info("first");
    MR_CHECK_STR(h.text, "first");
    mr_info("second");
    MR_CHECK_INT(h.n, 2);
    mr_log_listen(NULL, NULL);
}
