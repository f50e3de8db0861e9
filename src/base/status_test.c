/* base/status_test.c */
#include "base/memory.h"
#include "tests/harness/test.h"

MR_TEST(status_keeps_code_and_message)
{
    mr_status *s = mr_error(MR_NOT_FOUND, "node '%s' of %d", "a", 3);
    MR_CHECK_INT(mr_status_code(s), MR_NOT_FOUND);
    MR_CHECK_STR(mr_status_message(s), "node 'a' of 3");
    mr_status_free(s);
}

MR_TEST(status_null_is_ok)
{
    MR_CHECK_INT(mr_status_code(NULL), MR_OK);
    MR_CHECK_STR(mr_status_message(NULL), "");
    MR_CHECK(mr_status_copy(NULL) == NULL);
    MR_CHECK(mr_status_append(NULL, "x") == NULL);
    mr_status_free(NULL);
}

MR_TEST(status_error_with_code_ok_is_internal)
{
    MR_CHECK_ERR(mr_error(MR_OK, "odd"), MR_INTERNAL, "odd");
}

MR_TEST(status_append_and_prepend_join_texts)
{
    mr_status *s = mr_invalid("b");
    s = mr_status_append(s, "%s", "c");
    s = mr_status_prepend(s, "%s: ", "a");
    MR_CHECK_STR(mr_status_message(s), "a: bc");
    mr_status_free(s);
}

MR_TEST(status_copy_is_independent_and_keeps_derived)
{
    mr_status *s = mr_status_mark_derived(mr_error(MR_CANCELLED, "x"));
    mr_status *copy = mr_status_copy(s);
    mr_status_free(s);
    MR_CHECK(mr_status_is_derived(copy));
    MR_CHECK_ERR(copy, MR_CANCELLED, "x");
}

MR_TEST(status_update_keeps_the_first_root_error)
{
    mr_status *kept = NULL;
    mr_status_update(&kept, NULL);
    MR_CHECK(kept == NULL);
    mr_status_update(&kept, mr_status_mark_derived(mr_error(MR_CANCELLED, "derived")));
    MR_CHECK_STR(mr_status_message(kept), "derived");
    mr_status_update(&kept, mr_error(MR_ABORTED, "root"));
    MR_CHECK_STR(mr_status_message(kept), "root");
    mr_status_update(&kept, mr_error(MR_ABORTED, "later root"));
    mr_status_update(&kept, mr_status_mark_derived(mr_error(MR_CANCELLED, "late")));
    mr_status_update(&kept, NULL);
    MR_CHECK_ERR(kept, MR_ABORTED, "root");
}

MR_TEST(status_without_memory_still_is_an_error)
{
    for (int n = 1; n <= 2; n++) {
        mr_memory_fail_after(n);
        mr_status *s = mr_invalid("lost");
        mr_memory_fail_after(0);
        s = mr_status_mark_derived(mr_status_prepend(mr_status_append(s, "x"), "y"));
        mr_status *copy = mr_status_copy(s);
        mr_status_free(s);
        MR_CHECK(!mr_status_is_derived(copy));
        MR_CHECK_ERR(copy, MR_RESOURCE_EXHAUSTED, "out of memory");
    }
}

MR_TEST(status_append_without_memory_keeps_the_message)
{
    for (int n = 1; n <= 2; n++) {
        mr_status *s = mr_invalid("kept");
        mr_memory_fail_after(n);
        s = mr_status_append(s, " lost");
        mr_memory_fail_after(0);
        MR_CHECK_STR(mr_status_message(s), "kept");
        mr_status_free(s);
    }
}

MR_TEST(status_code_names_cover_every_number)
{
    MR_CHECK_STR(mr_code_name(MR_OK), "OK");
    MR_CHECK_STR(mr_code_name(MR_UNAUTHENTICATED), "UNAUTHENTICATED");
    MR_CHECK_STR(mr_code_name((mr_code)17), "UNKNOWN");
    MR_CHECK_STR(mr_code_name((mr_code)-1), "UNKNOWN");
}

static mr_status *ensure(bool cond)
{
    MR_ENSURE(cond);
    return NULL;
}

MR_TEST(status_ensure_gives_internal)
{
    MR_CHECK_OK(ensure(true));
    MR_CHECK_ERR(ensure(false), MR_INTERNAL, "expected cond");
}

MR_TEST(status_keeps_its_reason_in_copies_and_longer_messages)
{
    mr_status *st = mr_status_set_reason(mr_error(MR_UNAVAILABLE, "gone"), MR_REASON_HUNG_UP);
    st = mr_status_prepend(mr_status_append(st, " away"), "peer: ");
    mr_status *copy = mr_status_copy(st);
    MR_CHECK_INT(mr_status_reason(st), MR_REASON_HUNG_UP);
    MR_CHECK_INT(mr_status_reason(copy), MR_REASON_HUNG_UP);
    MR_CHECK_STR(mr_status_message(copy), "peer: gone away");
    MR_CHECK_INT(mr_status_reason(NULL), MR_REASON_NONE);
    mr_status_free(copy);
    mr_status_free(st);
}
