/* capi/logging_test.c -- each test is a process of its own, so listeners registered here stay here.
 */
#include "tensorflow/c/logging.h"

#include <stdlib.h>

#include "base/log.h"
#include "capi/internal.h"
#include "millrace/millrace.h"
#include "tests/harness/test.h"

static mr_str heard;

static void listen(const char *text)
{
    mr_str_printf(&heard, "<%s>", text);
}

static void listen_too(const char *text)
{
    mr_str_printf(&heard, "(%s)", text);
}

static void bring_another(const char *text)
{
    (void)text;
    TF_RegisterLogListener(listen);
}

MR_TEST(capi_log_reaches_every_listener_in_order)
{
    TF_Log(TF_INFO, "nobody hears");
    TF_RegisterLogListener(listen);
    TF_RegisterLogListener(listen_too);
    TF_Log(TF_INFO, "%s %d", "line", 1);
    MR_CHECK_STR(mr_str_z(&heard), "<line 1>(line 1)");
}

MR_TEST(capi_log_hears_the_library)
{
    TF_RegisterLogListener(listen);
    mr_warn("from %s", "inside");
    MR_CHECK_STR(mr_str_z(&heard), "<from inside>");
}

static void listen_by_level(int level, const char *text)
{
    mr_str_printf(&heard, "%d:%s;", level, text);
}

MR_TEST(capi_log_tells_the_level_to_who_wants_it)
{
    mr_register_log_listener(listen_by_level);
    mr_info("so it is");
    mr_warn("beware");
    TF_Log(TF_ERROR, "bad");
    MR_CHECK_STR(mr_str_z(&heard), "0:so it is;1:beware;2:bad;");
}

MR_TEST(capi_log_fatal_does_not_end_the_process)
{
    TF_RegisterLogListener(listen);
    TF_Log(TF_FATAL, "bad");
    MR_CHECK_STR(mr_str_z(&heard), "<bad>");
}

MR_TEST(capi_log_carries_long_lines_whole)
{
    TF_RegisterLogListener(listen);
    TF_Log(TF_ERROR, "%05000d", 7);
    MR_CHECK_INT(heard.n, 5002);
}

MR_TEST(capi_log_no_listener_is_ignored)
{
    TF_RegisterLogListener(NULL);
    TF_Log(TF_INFO, "x");
    TF_RegisterLogListener(listen);
    TF_Log(TF_INFO, "y");
    MR_CHECK_STR(mr_str_z(&heard), "<y>");
}

MR_TEST(capi_log_listener_may_register_another)
{
    TF_RegisterLogListener(bring_another);
    TF_Log(TF_INFO, "a"); /* the new one stands further down the list and hears it too */
    MR_CHECK_STR(mr_str_z(&heard), "<a>");
}

MR_TEST(capi_vlog_obeys_the_environment)
{
    TF_RegisterLogListener(listen);
    unsetenv("TF_CPP_MAX_VLOG_LEVEL");
    TF_VLog(0, "zero");
    TF_VLog(1, "one");
    setenv("TF_CPP_MAX_VLOG_LEVEL", "2", 1);
    TF_VLog(2, "two");
    TF_VLog(3, "three");
    MR_CHECK_STR(mr_str_z(&heard), "<zero><two>");
}

MR_TEST(capi_dvlog_speaks_in_debug_builds_only)
{
    TF_RegisterLogListener(listen);
    TF_DVLog(0, "x");
#ifdef MR_DEBUG
    MR_CHECK_STR(mr_str_z(&heard), "<x>");
#else
    MR_CHECK_STR(mr_str_z(&heard), "");
#endif
}
