/* capi/status_test.c */
#include <errno.h>

#include "base/memory.h"
#include "capi/internal.h"
#include "tests/harness/test.h"

static TF_Status *error(TF_Code code, const char *message)
{
    TF_Status *s = TF_NewStatus();
    TF_SetStatus(s, code, message);
    return s;
}

static void check(TF_Status *s, TF_Code code, const char *message)
{
    MR_CHECK_INT(TF_GetCode(s), code);
    MR_CHECK_STR(TF_Message(s), message);
}

MR_TEST(capi_status_starts_ok)
{
    TF_Status *s = TF_NewStatus();
    check(s, TF_OK, "");
    TF_DeleteStatus(s);
    TF_DeleteStatus(NULL);
}

MR_TEST(capi_status_keeps_code_and_a_copy_of_the_message)
{
    char message[] = "100% gone";
    TF_Status *s = error(TF_NOT_FOUND, message);
    message[0] = 'X';
    check(s, TF_NOT_FOUND, "100% gone");
    TF_DeleteStatus(s);
}

MR_TEST(capi_status_ok_drops_the_message)
{
    TF_Status *s = error(TF_NOT_FOUND, "gone");
    TF_SetStatus(s, TF_OK, "ignored");
    check(s, TF_OK, "");
    TF_DeleteStatus(s);
}

MR_TEST(capi_status_accepts_its_own_message)
{
    TF_Status *s = error(TF_NOT_FOUND, "gone");
    TF_SetStatus(s, TF_INTERNAL, TF_Message(s));
    check(s, TF_INTERNAL, "gone");
    TF_DeleteStatus(s);
}

MR_TEST(capi_status_accepts_no_message)
{
    TF_Status *s = error(TF_ABORTED, NULL);
    check(s, TF_ABORTED, "");
    TF_DeleteStatus(s);
}

MR_TEST(capi_status_codes_that_are_none_become_unknown)
{
    TF_Status *s = error((TF_Code)17, "odd");
    check(s, TF_UNKNOWN, "odd");
    TF_SetStatus(s, (TF_Code)-1, "odder");
    check(s, TF_UNKNOWN, "odder");
    TF_DeleteStatus(s);
}

MR_TEST(capi_status_every_code_is_that_of_our_own)
{
    TF_Status *s = TF_NewStatus();
    for (int code = TF_CANCELLED; code <= TF_UNAUTHENTICATED; code++) {
        mr_capi_set_status(s, mr_error((mr_code)code, "x"));
        MR_CHECK_INT(TF_GetCode(s), code);
    }
    TF_DeleteStatus(s);
}

MR_TEST(capi_status_takes_our_own_and_gives_it_back)
{
    TF_Status *s = TF_NewStatus();
    mr_capi_set_status(s, mr_invalid("node '%s'", "a"));
    check(s, TF_INVALID_ARGUMENT, "node 'a'");
    MR_CHECK_ERR(mr_capi_status_copy(s), MR_INVALID_ARGUMENT, "node 'a'");
    mr_capi_set_status(s, NULL);
    check(s, TF_OK, "");
    MR_CHECK(mr_capi_status_copy(s) == NULL);
    TF_DeleteStatus(s);
}

MR_TEST(capi_status_without_memory_still_is_an_error)
{
    TF_Status *s = TF_NewStatus();
    mr_memory_fail_after(1);
    TF_SetStatus(s, TF_NOT_FOUND, "gone");
    mr_memory_fail_after(0);
    MR_CHECK_INT(TF_GetCode(s), TF_RESOURCE_EXHAUSTED);
    TF_DeleteStatus(s);
}

MR_TEST(capi_status_from_errno)
{
    static const struct {
        int err;
        TF_Code code;
    } want[] = {
        {EINVAL, TF_INVALID_ARGUMENT},
        {ETIMEDOUT, TF_DEADLINE_EXCEEDED},
        {ENOENT, TF_NOT_FOUND},
        {EEXIST, TF_ALREADY_EXISTS},
        {EACCES, TF_PERMISSION_DENIED},
        {ENOTEMPTY, TF_FAILED_PRECONDITION},
        {ENOSPC, TF_RESOURCE_EXHAUSTED},
        {EFBIG, TF_OUT_OF_RANGE},
        {ENOSYS, TF_UNIMPLEMENTED},
        {EAGAIN, TF_UNAVAILABLE},
        {EDEADLK, TF_ABORTED},
        {ECANCELED, TF_CANCELLED},
        {EADDRINUSE, TF_FAILED_PRECONDITION},
        {9999, TF_UNKNOWN},
    };
    TF_Status *s = TF_NewStatus();
    for (int i = 0; i < MR_COUNT(want); i++) {
        TF_SetStatusFromIOError(s, want[i].err, "x");
        MR_CHECK_INT(TF_GetCode(s), want[i].code);
    }
    TF_SetStatusFromIOError(s, ENOENT, "/a/b");
    check(s, TF_NOT_FOUND, "/a/b; No such file or directory");
    TF_SetStatusFromIOError(s, 0, "fine");
    check(s, TF_OK, "");
    TF_DeleteStatus(s);
}

/* ---- payloads ---- */

static void list(const char *key, const char *value, void *capture)
{
    mr_str_printf(capture, "%s=%s;", key, value);
}

static void check_payloads(const TF_Status *s, const char *want)
{
    mr_str got = {0};
    TF_ForEachPayload(s, list, &got);
    MR_CHECK_STR(mr_str_z(&got), want);
    mr_str_deinit(&got);
}

MR_TEST(capi_status_payloads_are_told_in_order)
{
    TF_Status *s = error(TF_INTERNAL, "x");
    check_payloads(s, "");
    TF_SetPayload(s, "b", "1");
    TF_SetPayload(s, "a", "2");
    TF_SetPayload(s, "b", "3");
    check_payloads(s, "b=3;a=2;");
    TF_DeleteStatus(s);
}

MR_TEST(capi_status_ok_carries_no_payload)
{
    TF_Status *s = TF_NewStatus();
    TF_SetPayload(s, "a", "1");
    check_payloads(s, "");
    TF_DeleteStatus(s);
}

MR_TEST(capi_status_a_new_error_drops_payloads)
{
    TF_Status *s = error(TF_INTERNAL, "x");
    TF_SetPayload(s, "a", "1");
    TF_SetStatus(s, TF_INTERNAL, "y");
    check_payloads(s, "");
    TF_DeleteStatus(s);
}

MR_TEST(capi_status_payload_without_memory_is_left_out)
{
    TF_Status *s = error(TF_INTERNAL, "x");
    for (int i = 1; i <= 2; i++) {
        mr_memory_fail_after(i);
        TF_SetPayload(s, "a", "1");
        mr_memory_fail_after(0);
        check_payloads(s, "");
    }
    TF_DeleteStatus(s);
}
