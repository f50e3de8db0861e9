/* capi/buffer_test.c */
#include "base/memory.h"
#include "capi/internal.h"
#include "tests/harness/test.h"

static int n_freed;
static size_t freed_bytes;

static void count_free(void *data, size_t length)
{
    (void)data;
    n_freed++;
    freed_bytes = length;
}

MR_TEST(capi_buffer_new_is_empty)
{
    TF_Buffer *b = TF_NewBuffer();
    MR_CHECK(b->data == NULL && b->length == 0 && b->data_deallocator == NULL);
    TF_DeleteBuffer(b);
    TF_DeleteBuffer(NULL);
}

MR_TEST(capi_buffer_from_string_copies)
{
    char bytes[] = "a\0b";
    TF_Buffer *b = TF_NewBufferFromString(bytes, 3);
    bytes[0] = 'X';
    MR_CHECK_INT(b->length, 3);
    MR_CHECK(memcmp(b->data, "a\0b", 3) == 0);
    TF_Buffer fields = TF_GetBuffer(b);
    MR_CHECK(fields.data == b->data && fields.length == 3);
    TF_DeleteBuffer(b);
}

MR_TEST(capi_buffer_of_no_bytes)
{
    TF_Buffer *b = TF_NewBufferFromString(NULL, 0);
    MR_CHECK_INT(b->length, 0);
    TF_DeleteBuffer(b);
}

MR_TEST(capi_buffer_without_memory_is_null)
{
    mr_memory_fail_after(1);
    TF_Buffer *b = TF_NewBufferFromString("abc", 3);
    mr_memory_fail_after(0);
    MR_CHECK(b == NULL);
}

MR_TEST(capi_buffer_frees_with_the_clients_function)
{
    TF_Buffer *b = TF_NewBuffer();
    *b = (TF_Buffer){"static", 6, count_free};
    TF_DeleteBuffer(b);
    MR_CHECK_INT(n_freed, 1);
    MR_CHECK_INT(freed_bytes, 6);
}

MR_TEST(capi_buffer_without_deallocator_leaves_the_data)
{
    TF_Buffer *b = TF_NewBuffer();
    b->data = "static";
    TF_DeleteBuffer(b);
}

MR_TEST(capi_buffer_takes_over_a_string)
{
    mr_str s = {0};
    mr_str_appendz(&s, "bytes");
    const char *p = s.p;
    TF_Buffer *b = TF_NewBuffer();
    MR_CHECK(mr_capi_buffer_from_str(b, &s));
    MR_CHECK(b->data == p && b->length == 5);
    MR_CHECK(s.p == NULL && s.n == 0);
    MR_CHECK(mr_sv_is(mr_capi_buffer_view(b), "bytes"));
    TF_DeleteBuffer(b);
}

MR_TEST(capi_buffer_that_holds_data_is_not_filled)
{
    mr_str s = {0};
    mr_str_appendz(&s, "new");
    TF_Buffer *b = TF_NewBufferFromString("old", 3);
    MR_CHECK(!mr_capi_buffer_from_str(b, &s));
    MR_CHECK_STR(mr_str_z(&s), "new");
    MR_CHECK_ERR(mr_capi_buffer_fill(b, &s), MR_INVALID_ARGUMENT, "non-empty");
    MR_CHECK(s.p == NULL);
    MR_CHECK(mr_sv_is(mr_capi_buffer_view(b), "old"));
    TF_DeleteBuffer(b);
}

MR_TEST(capi_buffer_view_of_nothing_is_empty)
{
    TF_Buffer empty = {0};
    MR_CHECK_INT(mr_capi_buffer_view(NULL).n, 0);
    MR_CHECK_INT(mr_capi_buffer_view(&empty).n, 0);
    mr_str s = {0};
    TF_Buffer *b = mr_capi_buffer_new(&s);
    MR_CHECK_INT(b->length, 0);
    TF_DeleteBuffer(b);
}
