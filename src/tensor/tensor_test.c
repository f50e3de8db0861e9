#include "tensor/tensor.h"

#include <stdlib.h>

#include "base/memory.h"
#include "tests/harness/test.h"

#define DIMS(...) (int64_t[]){__VA_ARGS__}

static mr_tensor *new_tensor(mr_dtype dtype, int rank, const int64_t *dims)
{
    mr_tensor *t = NULL;
    MR_CHECK_OK(mr_tensor_new(NULL, dtype, rank, dims, &t));
    return t;
}

static mr_tensor *counting(int64_t rows, int64_t cols)
{
    mr_tensor *t = new_tensor(MR_INT32, 2, DIMS(rows, cols));
    for (int64_t i = 0; i < t->n; i++)
        MR_DATA(int32_t, t)[i] = (int32_t)i;
    return t;
}

static int64_t in_use(mr_allocator *a)
{
    mr_allocator_stats s;
    mr_allocator_get_stats(a, &s);
    return s.in_use;
}

/* ---- making ---- */

MR_TEST(tensor_new_is_aligned_and_knows_its_shape)
{
    for (int64_t n = 0; n < 5000; n += 1 + n / 3) {
        mr_tensor *t = new_tensor(MR_FLOAT, 2, DIMS(n, 3));
        MR_CHECK((uintptr_t)t->data % 64 == 0);
        MR_CHECK_INT(t->n, 3 * n);
        MR_CHECK_INT(mr_tensor_bytes(t), 12 * n);
        MR_CHECK_INT(mr_tensor_buffer_bytes(t), 12 * n);
        memset(t->data, 0x5a, mr_tensor_bytes(t));
        MR_CHECK_INT(t->rank, 2);
        MR_CHECK_INT(t->dims[0], n);
        MR_CHECK(mr_tensor_sole(t));
        mr_tensor_unref(t);
    }
}

MR_TEST(tensor_of_every_type_and_rank)
{
    int64_t dims[MR_MAX_RANK];
    for (int i = 0; i < MR_MAX_RANK; i++)
        dims[i] = i == 7 ? 3 : 1;
    for (int type = 1; type < 40; type++) {
        if (!mr_dtype_valid(type))
            continue;
        for (int rank = 0; rank <= MR_MAX_RANK; rank += 1 + rank / 2) {
            mr_tensor *t = NULL;
            MR_CHECK_OK(mr_tensor_zeros(NULL, (mr_dtype)type, rank, dims, &t));
            MR_CHECK_INT(t->n, rank > 7 ? 3 : 1);
            MR_CHECK_INT(t->rank, rank);
            MR_CHECK_INT(*(char *)t->data, 0);
            mr_tensor_unref(t);
        }
    }
    mr_tensor *t = new_tensor(MR_BOOL, MR_MAX_RANK, dims);
    mr_tensor_unref(t);
    MR_CHECK_ERR(mr_tensor_new(NULL, MR_BOOL, 255, dims, &t), MR_INVALID_ARGUMENT, "254");
}

MR_TEST(tensor_new_refuses_bad_types_and_shapes)
{
    mr_tensor *t = NULL;
    MR_CHECK_ERR(mr_tensor_new(NULL, MR_INVALID, 0, NULL, &t), MR_INVALID_ARGUMENT, "type");
    MR_CHECK_ERR(mr_tensor_new(NULL, (mr_dtype)101, 0, NULL, &t), MR_INVALID_ARGUMENT, "float_ref");
    MR_CHECK_ERR(mr_tensor_new(NULL, MR_FLOAT, 1, DIMS(-1), &t), MR_INVALID_ARGUMENT, "negative");
    MR_CHECK_ERR(mr_tensor_new(NULL, MR_FLOAT, 2, DIMS((int64_t)1 << 40, (int64_t)1 << 40), &t),
                 MR_INVALID_ARGUMENT, "too many");
}

MR_TEST(tensor_new_says_which_tensor_did_not_fit)
{
    mr_tensor *t = NULL;
    MR_CHECK_ERR(
        mr_tensor_new(NULL, MR_FLOAT, 2, DIMS((int64_t)1 << 40, 1024), &t), MR_RESOURCE_EXHAUSTED,
        "OOM when allocating tensor with shape[1099511627776,1024] and type float on CPU by "
        "allocator cpu");
    MR_CHECK_ERR(mr_tensor_new(NULL, MR_DOUBLE, 1, DIMS(INT64_MAX), &t), MR_RESOURCE_EXHAUSTED,
                 "OOM");
    mr_allocator *b = mr_budget_new(NULL, "step", 1000);
    MR_CHECK_ERR(mr_tensor_new(b, MR_FLOAT, 1, DIMS(251), &t), MR_RESOURCE_EXHAUSTED, "1000 bytes");
    MR_CHECK_ERR(mr_tensor_new(b, MR_FLOAT, 1, DIMS(100000), &t), MR_RESOURCE_EXHAUSTED, "step");
    MR_CHECK_INT(in_use(b), 0);
    mr_budget_free(b);
}

MR_TEST(tensor_new_survives_refused_memory)
{
    mr_tensor *t = NULL;
    for (int bytes = 4; bytes < 100000; bytes *= 20) {
        mr_memory_fail_after(1);
        MR_CHECK_ERR(mr_tensor_new(NULL, MR_INT8, 1, DIMS(bytes), &t), MR_RESOURCE_EXHAUSTED,
                     "OOM");
    }
}

MR_TEST(tensor_returns_its_memory_to_the_budget)
{
    mr_allocator *b = mr_budget_new(NULL, "step", 0);
    for (int64_t n = 0; n < 10000; n = 3 * n + 1) {
        mr_tensor *t = NULL, *v = NULL;
        MR_CHECK_OK(mr_tensor_new(b, MR_DOUBLE, 1, &n, &t));
        MR_CHECK(in_use(b) >= 8 * n);
        MR_CHECK_OK(mr_tensor_rows(t, 0, n, &v));
        mr_tensor_unref(t); /* the first header goes, the buffer stays */
        MR_CHECK(in_use(b) >= 8 * n);
        mr_tensor_unref(v);
        MR_CHECK_INT(in_use(b), 0);
    }
    mr_budget_free(b);
}

MR_TEST(tensor_new_bytes_keeps_the_asked_size)
{
    mr_tensor *t = NULL, *row = NULL;
    MR_CHECK_OK(mr_tensor_new_bytes(NULL, MR_FLOAT, 2, DIMS(2, 2), 100, &t));
    MR_CHECK_INT(mr_tensor_bytes(t), 16);
    MR_CHECK_INT(mr_tensor_buffer_bytes(t), 100);
    MR_CHECK_OK(mr_tensor_rows(t, 0, 1, &row));
    MR_CHECK_INT(mr_tensor_buffer_bytes(row), 8);
    mr_tensor_unref(row);
    mr_tensor_unref(t);
    MR_CHECK_OK(
        mr_tensor_new_bytes(NULL, MR_FLOAT, 1, DIMS(10), 3, &t)); /* too few are made enough */
    MR_CHECK_INT(mr_tensor_buffer_bytes(t), 40);
    mr_tensor_unref(t);
}

/* An allocator as a device has: its memory is not for headers. */
static int n_device_blocks;
static void *device_alloc(mr_allocator *a, size_t bytes)
{
    (void)a;
    n_device_blocks++;
    return malloc(bytes ? bytes : 1);
}
static void device_free(mr_allocator *a, void *p, size_t bytes)
{
    (void)a, (void)bytes;
    n_device_blocks--;
    free(p);
}

MR_TEST(tensor_headers_stay_out_of_device_memory)
{
    mr_allocator device = {.name = "gpu", .alloc = device_alloc, .free = device_free};
    mr_tensor *t = NULL, *s = NULL;
    MR_CHECK_OK(mr_tensor_new(&device, MR_FLOAT, 0, NULL, &t));
    MR_CHECK_INT(n_device_blocks, 1);
    char *data = t->data;
    MR_CHECK((char *)t + sizeof(*t) <= data || (char *)t >= data + 4);
    MR_CHECK_OK(mr_tensor_new(&device, MR_STRING, 0, NULL, &s)); /* strings are of the host */
    MR_CHECK_INT(n_device_blocks, 1);
    mr_tensor_unref(t);
    mr_tensor_unref(s);
    MR_CHECK_INT(n_device_blocks, 0);
}

/* ---- sharing ---- */

MR_TEST(tensor_sole_needs_header_and_buffer_alone)
{
    mr_tensor *t = counting(4, 2), *other = mr_tensor_ref(t), *row = NULL;
    MR_CHECK(!mr_tensor_sole(t));
    mr_tensor_unref(other);
    MR_CHECK(mr_tensor_sole(t));
    MR_CHECK_OK(mr_tensor_rows(t, 1, 1, &row));
    MR_CHECK(!mr_tensor_sole(t) && !mr_tensor_sole(row));
    mr_tensor_unref(t);
    MR_CHECK(mr_tensor_sole(row));
    row->readonly = true;
    MR_CHECK(!mr_tensor_sole(row));
    mr_tensor_unref(row);
    MR_CHECK(mr_tensor_ref(NULL) == NULL);
    mr_tensor_unref(NULL);
}

MR_TEST(tensor_rows_share_the_buffer)
{
    mr_tensor *t = counting(5, 3), *r = NULL, *rr = NULL;
    MR_CHECK_OK(mr_tensor_rows(t, 1, 3, &r));
    MR_CHECK_STR(MR_TENSOR_SHAPE(r), "[3,3]");
    MR_CHECK_INT(MR_DATA(int32_t, r)[0], 3);
    MR_CHECK(mr_tensor_shares_buffer(t, r));
    MR_CHECK_OK(mr_tensor_rows(r, 2, 1, &rr)); /* rows of rows */
    mr_tensor_unref(t);
    mr_tensor_unref(r);
    MR_CHECK_INT(MR_DATA(int32_t, rr)[2], 11);
    mr_tensor_unref(rr);
}

MR_TEST(tensor_rows_refuses_what_is_outside)
{
    mr_tensor *t = counting(5, 3), *s = mr_tensor_scalar_i32(1), *r = NULL;
    MR_CHECK_ERR(mr_tensor_rows(t, 3, 3, &r), MR_INVALID_ARGUMENT, "[5,3]");
    MR_CHECK_ERR(mr_tensor_rows(t, -1, 1, &r), MR_INVALID_ARGUMENT, "-1");
    MR_CHECK_ERR(mr_tensor_rows(t, INT64_MAX, INT64_MAX, &r), MR_INVALID_ARGUMENT, "rows");
    MR_CHECK_ERR(mr_tensor_rows(t, 0, -1, &r), MR_INVALID_ARGUMENT, "rows");
    MR_CHECK_ERR(mr_tensor_rows(s, 0, 1, &r), MR_INVALID_ARGUMENT, "scalar");
    MR_CHECK_OK(mr_tensor_rows(t, 5, 0, &r));
    MR_CHECK_INT(r->n, 0);
    mr_tensor_unref(r);
    mr_tensor_unref(t);
    mr_tensor_unref(s);
}

MR_TEST(tensor_rows_of_empty_tensors)
{
    mr_tensor *t = new_tensor(MR_FLOAT, 2, DIMS(0, 3)), *u = new_tensor(MR_FLOAT, 2, DIMS(4, 0)),
              *r = NULL;
    MR_CHECK_OK(mr_tensor_rows(t, 0, 0, &r));
    mr_tensor_unref(r);
    MR_CHECK_OK(mr_tensor_rows(u, 1, 2, &r));
    MR_CHECK_STR(MR_TENSOR_SHAPE(r), "[2,0]");
    mr_tensor_unref(r);
    mr_tensor_unref(t);
    mr_tensor_unref(u);
}

MR_TEST(tensor_view_reshapes_and_retypes)
{
    mr_tensor *t = counting(4, 3), *v = NULL;
    MR_CHECK_OK(mr_tensor_view(t, MR_INT32, 3, DIMS(2, 2, 3), &v));
    MR_CHECK(v->data == t->data && mr_tensor_shares_buffer(t, v));
    MR_CHECK_INT(mr_tensor_buffer_bytes(v), 48);
    mr_tensor_unref(v);
    MR_CHECK_OK(mr_tensor_view(t, MR_UINT8, 1, DIMS(48), &v));
    MR_CHECK_INT(MR_DATA(uint8_t, v)[4], 1);
    mr_tensor_unref(v);
    MR_CHECK_ERR(mr_tensor_view(t, MR_INT32, 1, DIMS(11), &v), MR_INVALID_ARGUMENT, "48 bytes");
    MR_CHECK_ERR(mr_tensor_view(t, MR_STRING, 1, DIMS(2), &v), MR_INVALID_ARGUMENT, "string");
    MR_CHECK_ERR(mr_tensor_view(t, MR_INVALID, 1, DIMS(2), &v), MR_INVALID_ARGUMENT, "type");
    mr_tensor_unref(t);
}

MR_TEST(tensor_view_at_an_odd_address_is_a_copy)
{
    mr_tensor *t = new_tensor(MR_UINT8, 1, DIMS(9)), *r = NULL, *v = NULL;
    for (int i = 0; i < 9; i++)
        MR_DATA(uint8_t, t)[i] = (uint8_t)i;
    MR_CHECK_OK(mr_tensor_rows(t, 1, 8, &r));
    MR_CHECK_OK(mr_tensor_view(r, MR_INT32, 1, DIMS(2), &v));
    MR_CHECK_INT((uintptr_t)v->data % 4, 0);
    MR_CHECK_INT(MR_DATA(int32_t, v)[0], 0x04030201);
    mr_tensor_unref(t);
    mr_tensor_unref(r);
    mr_tensor_unref(v);
}

MR_TEST(tensor_views_outlive_each_other_in_any_order)
{
    for (int order = 0; order < 6; order++) {
        static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                         {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
        mr_tensor *t[3] = {counting(3, 2)};
        MR_CHECK_OK(mr_tensor_rows(t[0], 1, 2, &t[1]));
        MR_CHECK_OK(mr_tensor_view(t[1], MR_INT32, 1, DIMS(4), &t[2]));
        for (int i = 0; i < 3; i++) {
            int k = orders[order][i];
            MR_CHECK_INT(MR_DATA(int32_t, t[k])[1], k == 0 ? 1 : 3);
            mr_tensor_unref(t[k]);
        }
    }
}

MR_TEST(tensor_copy_shares_nothing)
{
    mr_tensor *t = counting(2, 2), *c = NULL;
    t->readonly = true;
    MR_CHECK_OK(mr_tensor_copy(NULL, t, &c));
    MR_CHECK(mr_tensor_equal(t, c) && !mr_tensor_shares_buffer(t, c) && mr_tensor_sole(c));
    MR_DATA(int32_t, c)[3] = 9;
    MR_CHECK(!mr_tensor_equal(t, c));
    mr_tensor_unref(t);
    mr_tensor_unref(c);
}

MR_TEST(tensor_equal_looks_at_type_shape_and_bits)
{
    mr_tensor *a = mr_tensor_scalar_f32(0.0f), *b = mr_tensor_scalar_f32(-0.0f),
              *nan1 = mr_tensor_scalar_f32(NAN), *nan2 = mr_tensor_scalar_f32(NAN),
              *i = mr_tensor_scalar_i32(0), *v = NULL;
    MR_CHECK(!mr_tensor_equal(a, b));
    MR_CHECK(mr_tensor_equal(nan1, nan2));
    MR_CHECK(!mr_tensor_equal(a, i));
    MR_CHECK_OK(mr_tensor_view(a, MR_FLOAT, 1, DIMS(1), &v));
    MR_CHECK(!mr_tensor_equal(a, v));
    mr_tensor *all[] = {a, b, nan1, nan2, i, v};
    for (int k = 0; k < MR_COUNT(all); k++)
        mr_tensor_unref(all[k]);
}

/* ---- memory of others ---- */

typedef struct lender {
    int n_freed;
    void *data;
    size_t bytes;
} lender;

static void take_back(void *data, size_t bytes, void *arg)
{
    lender *l = arg;
    l->n_freed++;
    l->data = data;
    l->bytes = bytes;
}

MR_TEST(tensor_adopt_uses_the_memory_and_returns_it_once)
{
    static float data[6] = {1, 2, 3, 4, 5, 6};
    lender l = {0};
    mr_tensor *t = NULL, *r = NULL;
    MR_CHECK_OK(mr_tensor_adopt(MR_FLOAT, 2, DIMS(2, 2), data, sizeof(data), take_back, &l, &t));
    MR_CHECK(t->data == data);
    MR_CHECK_INT(mr_tensor_buffer_bytes(t), 24);
    MR_CHECK(!mr_tensor_sole(t)); /* not ours to write on */
    MR_CHECK_OK(mr_tensor_rows(t, 1, 1, &r));
    mr_tensor_unref(t);
    MR_CHECK_INT(l.n_freed, 0);
    mr_tensor_unref(r);
    MR_CHECK_INT(l.n_freed, 1);
    MR_CHECK(l.data == data);
    MR_CHECK_INT(l.bytes, 24);
}

MR_TEST(tensor_adopt_at_any_alignment)
{
    static char room[256];
    for (int offset = 0; offset < 16; offset++) {
        static const mr_dtype types[] = {MR_INT8,   MR_HALF,      MR_FLOAT,
                                         MR_DOUBLE, MR_COMPLEX64, MR_COMPLEX128};
        for (int k = 0; k < MR_COUNT(types); k++) {
            lender l = {0};
            mr_tensor *t = NULL;
            size_t bytes = 3 * mr_dtype_size(types[k]);
            for (size_t i = 0; i < bytes; i++)
                room[(size_t)offset + i] = (char)(i + 1);
            MR_CHECK_OK(
                mr_tensor_adopt(types[k], 1, DIMS(3), room + offset, bytes, take_back, &l, &t));
            MR_CHECK_INT(l.n_freed, t->data != room + offset); /* copied: freed at once */
            MR_CHECK(memcmp(t->data, room + offset, bytes) == 0);
            MR_CHECK_INT((uintptr_t)t->data % MR_MIN(mr_dtype_size(types[k]), 4), 0);
            mr_tensor_unref(t);
            MR_CHECK_INT(l.n_freed, 1);
        }
    }
}

MR_TEST(tensor_adopt_returns_the_memory_when_it_fails)
{
    static char data[64];
    mr_tensor *t = NULL;
    lender l = {0};
    MR_CHECK_ERR(mr_tensor_adopt(MR_FLOAT, 1, DIMS(17), data, 64, take_back, &l, &t),
                 MR_INVALID_ARGUMENT, "68 bytes, but 64");
    MR_CHECK_INT(l.n_freed, 1);
    MR_CHECK_ERR(mr_tensor_adopt(MR_INVALID, 1, DIMS(1), data, 64, take_back, &l, &t),
                 MR_INVALID_ARGUMENT, "type");
    MR_CHECK_INT(l.n_freed, 2);
    MR_CHECK_ERR(mr_tensor_adopt(MR_FLOAT, 1, DIMS(1), NULL, 64, take_back, &l, &t),
                 MR_INVALID_ARGUMENT, "no data");
    MR_CHECK_INT(l.n_freed, 3);
    mr_memory_fail_after(1); /* the copy of misaligned data */
    MR_CHECK_ERR(mr_tensor_adopt(MR_FLOAT, 1, DIMS(1), data + 1, 63, take_back, &l, &t),
                 MR_RESOURCE_EXHAUSTED, "OOM");
    MR_CHECK_INT(l.n_freed, 4);
}

MR_TEST(tensor_adopt_of_nothing)
{
    lender l = {0};
    mr_tensor *t = NULL;
    MR_CHECK_OK(mr_tensor_adopt(MR_FLOAT, 1, DIMS(0), NULL, 0, take_back, &l, &t));
    MR_CHECK(t->data != NULL);
    MR_CHECK_INT(mr_tensor_buffer_bytes(t), 0);
    mr_tensor_unref(t);
    MR_CHECK_INT(l.n_freed, 1);
    MR_CHECK(l.data == NULL);
    MR_CHECK_OK(mr_tensor_adopt(MR_FLOAT, 0, NULL, &(float){3}, 4, NULL, NULL, &t));
    mr_tensor_unref(t);
}

/* ---- strings ---- */

static const char *const long_text = "a string that is longer than the 22 bytes kept inside";

MR_TEST(tensor_strings_are_set_and_read)
{
    mr_tensor *t = new_tensor(MR_STRING, 1, DIMS(3));
    MR_CHECK_INT(mr_tensor_str_at(t, 2).n, 0); /* new ones are empty */
    MR_CHECK_OK(mr_tensor_set_str(t, 0, MR_SV("a\0b")));
    MR_CHECK_OK(mr_tensor_set_str(t, 1, mr_sv_of(long_text)));
    MR_CHECK(mr_sv_eq(mr_tensor_str_at(t, 0), MR_SV("a\0b")));
    MR_CHECK(mr_sv_is(mr_tensor_str_at(t, 1), long_text));
    MR_CHECK_INT(TF_TString_GetCapacity(MR_DATA(TF_TString, t) + 1) % 16, 15);
    MR_CHECK_OK(mr_tensor_set_str(t, 1, mr_tensor_str_at(t, 1))); /* from itself */
    MR_CHECK(mr_sv_is(mr_tensor_str_at(t, 1), long_text));
    MR_CHECK_OK(mr_tensor_set_str(t, 1, MR_SV("short again")));
    MR_CHECK(mr_sv_is(mr_tensor_str_at(t, 1), "short again"));
    mr_tensor_unref(t); /* LeakSanitizer watches */
}

MR_TEST(tensor_string_copies_are_deep)
{
    mr_tensor *t = mr_tensor_vector_str(2, (const char *[]){"x", long_text}), *c = NULL;
    MR_CHECK_OK(mr_tensor_copy(NULL, t, &c));
    MR_CHECK(mr_tensor_equal(t, c));
    mr_tensor_unref(t);
    MR_CHECK(mr_sv_is(mr_tensor_str_at(c, 1), long_text));
    MR_CHECK_OK(mr_tensor_try_copy_elements(c, 0, c, 1, 1));
    MR_CHECK(mr_sv_is(mr_tensor_str_at(c, 0), long_text));
    mr_tensor_zero(c);
    MR_CHECK_INT(mr_tensor_str_at(c, 0).n, 0);
    mr_tensor_unref(c);
}

MR_TEST(tensor_string_memory_may_be_refused)
{
    mr_tensor *t = mr_tensor_vector_str(2, (const char *[]){"x", long_text}), *c = NULL;
    mr_memory_fail_after(1);
    MR_CHECK_ERR(mr_tensor_set_str(t, 0, mr_sv_of(long_text)), MR_RESOURCE_EXHAUSTED, "string");
    MR_CHECK(mr_sv_is(mr_tensor_str_at(t, 0), "x"));
    mr_memory_fail_after(2);
    MR_CHECK_ERR(mr_tensor_copy(NULL, t, &c), MR_RESOURCE_EXHAUSTED, "string");
    MR_CHECK_ERR(mr_tensor_set_str(t, 0, (mr_sv){long_text, SIZE_MAX / 2}), MR_RESOURCE_EXHAUSTED,
                 "OOM");
    mr_tensor_unref(t);
}

MR_TEST(tensor_rows_of_strings_free_nothing_twice)
{
    mr_tensor *t = mr_tensor_vector_str(3, (const char *[]){long_text, long_text, long_text}),
              *r = NULL;
    MR_CHECK_OK(mr_tensor_rows(t, 1, 1, &r));
    mr_tensor_unref(t);
    MR_CHECK(mr_sv_is(mr_tensor_str_at(r, 0), long_text));
    mr_tensor_unref(r);
}

/* A packed string tensor as a mapped file has it: elements, then the text they point to. */
typedef struct packed {
    TF_TString s[3];
    char text[8];
} packed;

static void set_offset(TF_TString *s, const char *text, size_t n)
{
    memset(s, 0, sizeof(*s));
    s->u.offset.size = (uint32_t)(n << 2 | TF_TSTR_OFFSET);
    s->u.offset.offset = (uint32_t)(text - (const char *)s);
}

MR_TEST(tensor_offset_strings_stay_inside_their_buffer)
{
    packed p = {.text = "millrace"};
    lender l = {0};
    mr_tensor *t = NULL, *c = NULL;
    set_offset(&p.s[0], p.text, 8);
    set_offset(&p.s[1], p.text + 1, 8); /* one byte too long */
    set_offset(&p.s[2], p.text, 8);
    p.s[2].u.offset.offset = UINT32_MAX;
    MR_CHECK_OK(mr_tensor_adopt(MR_STRING, 1, DIMS(3), &p, sizeof(p), take_back, &l, &t));
    MR_CHECK(mr_sv_is(mr_tensor_str_at(t, 0), "millrace"));
    MR_CHECK_INT(mr_tensor_str_at(t, 1).n, 0);
    MR_CHECK_INT(mr_tensor_str_at(t, 2).n, 0);
    MR_CHECK_OK(mr_tensor_copy(NULL, t, &c)); /* the copy is its own */
    mr_tensor_unref(t);
    memset(&p, 0xff, sizeof(p));
    MR_CHECK(mr_sv_is(mr_tensor_str_at(c, 0), "millrace"));
    MR_CHECK_INT(TF_TString_GetType(MR_DATA(TF_TString, c)), TF_TSTR_SMALL);
    mr_tensor_unref(c);
}

MR_TEST(tensor_adopted_strings_are_freed_by_their_owner)
{
    TF_TString *s = mr_new_array(TF_TString, 2);
    lender l = {0};
    mr_tensor *t = NULL;
    TF_TString_Copy(&s[0], long_text, strlen(long_text));
    TF_TString_AssignView(&s[1], long_text, 8);
    MR_CHECK_OK(mr_tensor_adopt(MR_STRING, 1, DIMS(2), s, 2 * sizeof(*s), take_back, &l, &t));
    MR_CHECK(mr_sv_is(mr_tensor_str_at(t, 1), "a string"));
    mr_tensor_unref(t);
    MR_CHECK_INT(l.n_freed, 1);
    MR_CHECK(TF_TString_GetType(&s[0]) == TF_TSTR_LARGE); /* untouched */
    MR_CHECK_STR(s[0].u.large.ptr, long_text);
    TF_TString_Dealloc(&s[0]);
    mr_free(s);
}

MR_TEST(tensor_misaligned_strings_are_copied)
{
    char room[80];
    TF_TString s = {{{0}}};
    lender l = {0};
    mr_tensor *t = NULL;
    TF_TString_AssignView(&s, long_text, strlen(long_text));
    memcpy(room + 3, &s, sizeof(s));
    MR_CHECK_OK(mr_tensor_adopt(MR_STRING, 0, NULL, room + 3, sizeof(s), take_back, &l, &t));
    MR_CHECK_INT(l.n_freed, 1);
    MR_CHECK(mr_sv_is(mr_tensor_str_at(t, 0), long_text));
    mr_tensor_unref(t);
}

/* ---- threads ---- */

static void share(void *arg)
{
    mr_tensor *t = arg;
    for (int i = 0; i < 5000; i++) {
        mr_tensor *mine = mr_tensor_ref(t), *row = NULL, *copy = NULL;
        MR_CHECK_OK(mr_tensor_rows(mine, i % 4, 1, &row));
        MR_CHECK(!mr_tensor_sole(row));
        MR_CHECK_OK(mr_tensor_copy(NULL, row, &copy));
        mr_tensor_unref(mine);
        MR_CHECK_INT(MR_DATA(int32_t, row)[1], i % 4 * 2 + 1);
        mr_tensor_unref(row);
        MR_CHECK(mr_tensor_sole(copy));
        mr_tensor_unref(copy);
    }
    mr_tensor_unref(t);
}

MR_TEST(tensor_is_shared_between_threads)
{
    mr_allocator *b = mr_budget_new(NULL, "shared", 0);
    mr_tensor *t = NULL;
    mr_thread threads[4];
    MR_CHECK_OK(mr_tensor_new(b, MR_INT32, 2, DIMS(4, 2), &t));
    for (int i = 0; i < 8; i++)
        MR_DATA(int32_t, t)[i] = i;
    for (int i = 0; i < 4; i++)
        MR_CHECK_INT(mr_thread_start(&threads[i], "share", share, mr_tensor_ref(t)), 0);
    mr_tensor_unref(t); /* the last thread frees it */
    for (int i = 0; i < 4; i++)
        mr_thread_join(&threads[i]);
    MR_CHECK_INT(in_use(b), 0);
    mr_budget_free(b);
}

/* ---- values ---- */

static const char *summary(mr_tensor *t, int64_t limit)
{
    static mr_str out;
    mr_str_clear(&out);
    mr_tensor_summarize(t, limit, &out);
    mr_tensor_unref(t);
    return mr_str_z(&out);
}

MR_TEST(tensor_summary_has_brackets_from_rank_2_on)
{
    static const int32_t v[] = {1, 2, 3, 4, 0};
    MR_CHECK_STR(summary(mr_tensor_vector_i32(5, v), 16), "1 2 3 4 0");
    MR_CHECK_STR(summary(mr_tensor_of(MR_INT32, 2, DIMS(2, 2), v), -1), "[1 2][3 4]");
    MR_CHECK_STR(summary(mr_tensor_of(MR_INT32, 4, DIMS(2, 2, 1, 1), v), 16),
                 "[[[1]][[2]]][[[3]][[4]]]");
    MR_CHECK_STR(summary(mr_tensor_scalar_i32(-7), 3), "-7");
    MR_CHECK_STR(summary(mr_tensor_vector_i32(0, NULL), 3), "");
}

MR_TEST(tensor_summary_says_when_it_is_cut)
{
    static const int32_t v[] = {1, 2, 3, 4, 5, 6};
    MR_CHECK_STR(summary(mr_tensor_vector_i32(6, v), 3), "1 2 3...");
    MR_CHECK_STR(summary(mr_tensor_of(MR_INT32, 4, DIMS(2, 2, 1, 1), v), 3),
                 "[[[1]][[2]]][[[3]]]...");
    MR_CHECK_STR(summary(mr_tensor_of(MR_INT32, 2, DIMS(2, 3), v), 3), "[1 2 3]...");
    MR_CHECK_STR(summary(mr_tensor_of(MR_INT32, 2, DIMS(2, 3), v), 4), "[1 2 3][4...]...");
    MR_CHECK_STR(summary(mr_tensor_of(MR_INT32, 2, DIMS(2, 3), v), 0), "...");
    MR_CHECK_STR(summary(mr_tensor_scalar_i32(1), 0), "...");
}

MR_TEST(tensor_summary_of_floats_brings_them_back)
{
    MR_CHECK_STR(summary(mr_tensor_scalar_f32(0.1f), 3), "0.1");
    MR_CHECK_STR(summary(mr_tensor_scalar_f32(1 / 3.0f), 3), "0.333333343");
    MR_CHECK_STR(summary(mr_tensor_scalar_f32(1e10f), 3), "1e+10");
    MR_CHECK_STR(summary(mr_tensor_scalar_f32(-INFINITY), 3), "-inf");
    MR_CHECK_STR(summary(mr_tensor_scalar_f32(NAN), 3), "nan");
    MR_CHECK_STR(summary(mr_tensor_of(MR_DOUBLE, 0, NULL, &(double){1 / 3.0}), 3),
                 "0.33333333333333331");
    MR_CHECK_STR(summary(mr_tensor_of(MR_HALF, 0, NULL, &(uint16_t){0x3e00}), 3), "1.5");
    MR_CHECK_STR(summary(mr_tensor_of(MR_COMPLEX64, 0, NULL, &(mr_c64){1.5f + 2 * I}), 3),
                 "(1.5,2)");
    MR_CHECK_STR(summary(mr_tensor_of(MR_FLOAT8_E5M2, 0, NULL, &(uint8_t){0x3e}), 3), "1.5");
    MR_CHECK_STR(summary(mr_tensor_of(MR_FLOAT8_E4M3FN, 1, DIMS(3), (uint8_t[]){0x3c, 0x7e, 1}), 3),
                 "1.5 448 0.001953125");
}

MR_TEST(tensor_summary_of_integers_bools_and_strings)
{
    MR_CHECK_STR(summary(mr_tensor_of(MR_BOOL, 1, DIMS(2), (bool[]){true, false}), 3), "1 0");
    MR_CHECK_STR(summary(mr_tensor_of(MR_INT8, 0, NULL, &(int8_t){-5}), 3), "-5");
    MR_CHECK_STR(summary(mr_tensor_of(MR_UINT64, 0, NULL, &(uint64_t){UINT64_MAX}), 3),
                 "18446744073709551615");
    MR_CHECK_STR(summary(mr_tensor_of(MR_QUINT8, 0, NULL, &(uint8_t){200}), 3), "200");
    MR_CHECK_STR(summary(mr_tensor_scalar_str(MR_SV("it's\n\1 \xc3\xa9")), 3),
                 "it\\'s\\n\\001 \xc3\xa9");
    MR_CHECK_STR(summary(new_tensor(MR_VARIANT, 0, NULL), 3), "Variant<type: [empty]>");
}

MR_TEST(tensor_with_only_a_shape_may_be_larger_than_memory)
{
    mr_tensor *t = NULL;
    MR_CHECK_OK(mr_tensor_shape_only(MR_FLOAT, 2, DIMS((int64_t)1 << 30, (int64_t)1 << 30), &t));
    MR_CHECK_INT(t->n, (int64_t)1 << 60);
    MR_CHECK_INT(t->dims[1], (int64_t)1 << 30);
    mr_tensor_unref(t);
    MR_CHECK_ERR(mr_tensor_shape_only(MR_DOUBLE, 1, DIMS((int64_t)1 << 61), &t), MR_INVALID_ARGUMENT, "too large");
}
