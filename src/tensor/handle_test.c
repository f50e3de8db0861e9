#include "tensor/tensor.h"

#include "base/memory.h"
#include "tests/harness/test.h"

static int n_freed;
static void probe_free(mr_object *o)
{
    n_freed++;
    mr_free(o);
}
static const mr_object_type probe_type = {"probe", probe_free};

static mr_object *new_probe(void)
{
    mr_object *o = mr_new(mr_object);
    mr_object_init(o, &probe_type);
    return o;
}

MR_TEST(object_is_freed_with_its_last_reference)
{
    mr_object *o = new_probe();
    MR_CHECK(mr_object_ref(o) == o);
    mr_object_unref(o);
    MR_CHECK_INT(n_freed, 0);
    mr_object_unref(o);
    MR_CHECK_INT(n_freed, 1);
    mr_object_unref(NULL);
    MR_CHECK(mr_object_ref(NULL) == NULL);
}

MR_TEST(object_tensors_own_a_reference_each)
{
    mr_object *o = new_probe();
    mr_tensor *t = mr_tensor_of(MR_VARIANT, 1, (int64_t[]){3}, (mr_object *[]){o, NULL, o}),
              *c = NULL;
    mr_object_unref(o);
    MR_CHECK_OK(mr_tensor_copy(NULL, t, &c));
    MR_CHECK(mr_tensor_equal(t, c));
    mr_tensor_unref(t);
    MR_CHECK_INT(n_freed, 0);
    mr_tensor_zero(c);
    MR_CHECK_INT(n_freed, 1);
    MR_CHECK(MR_DATA(mr_object *, c)[0] == NULL);
    mr_tensor_unref(c);
}

static mr_handle *new_handle(mr_arena *a, const char *name)
{
    struct mr_handle_part parts[] = {
        {MR_FLOAT, mr_pshape_matrix(a, -1, 3)},
        {MR_STRING, &mr_pshape_unknown},
    };
    return mr_handle_new("/device:CPU:0", "localhost", name, "tensorflow::Var", 2, parts);
}

MR_TEST(handle_keeps_its_own_texts_and_shapes)
{
    mr_arena a;
    char name[] = "w";
    mr_arena_init(&a, 0);
    mr_handle *h = new_handle(&a, name);
    name[0] = 'x';
    mr_arena_deinit(&a);
    MR_CHECK_STR(h->name, "w");
    MR_CHECK_STR(MR_PSHAPE_TEXT(h->parts[0].shape), "[?,3]");
    MR_CHECK_INT(h->type_hash, mr_hash64("tensorflow::Var", 15));
    mr_object_unref(&h->base);
    h = mr_handle_new(NULL, NULL, NULL, NULL, 0, NULL);
    MR_CHECK_STR(h->device, "");
    mr_object_unref(&h->base);
}

MR_TEST(handle_proto_round_trip)
{
    mr_arena a;
    mr_str bytes = {0};
    mr_handle *back = NULL;
    mr_arena_init(&a, 0);
    mr_handle *h = new_handle(&a, "w");
    mr_handle_encode(h, &bytes);
    MR_CHECK_OK(mr_handle_decode(mr_str_view(&bytes), &back));
    MR_CHECK_STR(back->device, "/device:CPU:0");
    MR_CHECK_STR(back->container, "localhost");
    MR_CHECK_STR(back->name, "w");
    MR_CHECK_STR(back->type_name, "tensorflow::Var");
    MR_CHECK(back->type_hash == h->type_hash);
    MR_CHECK_INT(back->n_parts, 2);
    MR_CHECK_INT(back->parts[1].dtype, MR_STRING);
    MR_CHECK_INT(back->parts[1].shape->rank, -1);
    MR_CHECK(mr_pshape_eq(back->parts[0].shape, h->parts[0].shape));
    mr_object_unref(&back->base);
    mr_object_unref(&h->base);
    mr_str_deinit(&bytes);
    mr_arena_deinit(&a);
}

MR_TEST(handle_decode_refuses_bad_bytes)
{
    mr_arena a;
    mr_str bytes = {0};
    mr_handle *h = NULL;
    mr_arena_init(&a, 0);
    mr_handle *good = new_handle(&a, "w");
    mr_handle_encode(good, &bytes);
    for (size_t n = 1; n < bytes.n; n++) { /* cut: an error or fewer fields, never a crash */
        mr_status *st = mr_handle_decode((mr_sv){bytes.p, n}, &h);
        if (!st)
            mr_object_unref(&h->base);
        mr_status_free(st);
    }
    MR_CHECK_ERR(mr_handle_decode(MR_SV("\x1a\x05xy"), &h), MR_INVALID_ARGUMENT,
                 "ResourceHandleProto");
    MR_CHECK_ERR(mr_handle_decode(MR_SV("\x1a\x03" "a\0b"), &h), MR_INVALID_ARGUMENT, "NUL");
    MR_CHECK_ERR(mr_handle_decode(MR_SV("\x32\x02\x08\x80"), &h), MR_INVALID_ARGUMENT,
                 "DtypeAndShape");
    MR_CHECK_OK(mr_handle_decode(MR_SV(""), &h));
    MR_CHECK_STR(h->name, "");
    mr_object_unref(&h->base);
    mr_object_unref(&good->base);
    mr_str_deinit(&bytes);
    mr_arena_deinit(&a);
}

MR_TEST(resource_tensors_compare_by_name)
{
    mr_arena a;
    mr_arena_init(&a, 0);
    mr_handle *h[] = {new_handle(&a, "w"), new_handle(&a, "w"), new_handle(&a, "b"), NULL};
    mr_tensor *t[4];
    for (int i = 0; i < 4; i++)
        t[i] = mr_tensor_of(MR_RESOURCE, 0, NULL, &h[i]);
    MR_CHECK(mr_tensor_equal(t[0], t[1]));
    MR_CHECK(!mr_tensor_equal(t[0], t[2]));
    MR_CHECK(!mr_tensor_equal(t[0], t[3]));
    MR_CHECK(mr_tensor_equal(t[3], t[3]));
    for (int i = 0; i < 4; i++) {
        mr_tensor_unref(t[i]);
        mr_object_unref(h[i] ? &h[i]->base : NULL);
    }
    mr_arena_deinit(&a);
}
