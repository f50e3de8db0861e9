/* graph/op_text_test.c -- what an op's text means. */
#include "base/memory.h"
#include "graph/op.h"
#include "tests/harness/test.h"

/* Parses and prints back; or the error. */
static char *parsed(const char *sig, const char *attrs)
{
    mr_op op = {.name = "Foo", .sig = sig, .attrs = attrs};
    mr_op_def d;
    mr_arena a;
    mr_str out = {0};
    mr_arena_init(&a, 0);
    mr_status *st = mr_op_def_parse(&a, &op, &d);
    if (st)
        mr_str_printf(&out, "%s: %s", mr_code_name(mr_status_code(st)), mr_status_message(st));
    else
        mr_op_def_print(&out, &d);
    mr_status_free(st);
    mr_arena_deinit(&a);
    return mr_str_take(&out);
}

#define CHECK_PARSED(sig, attrs, expected) \
    do {                                   \
        char *text_ = parsed(sig, attrs);  \
        MR_CHECK_STR(text_, expected);     \
        mr_free(text_);                    \
    } while (0)

#define CHECK_REFUSED(sig, attrs, part)                                          \
    do {                                                                         \
        char *text_ = parsed(sig, attrs);                                        \
        if (!strstr(text_, part) || strncmp(text_, "INVALID_ARGUMENT", 16) != 0) \
            mr_test_fail(__FILE__, __LINE__, "%s", text_);                       \
        mr_free(text_);                                                          \
    } while (0)

MR_TEST(op_text_empty_signature)
{
    CHECK_PARSED(NULL, NULL, "Op<name=Foo; signature= -> >");
    CHECK_PARSED("->", "", "Op<name=Foo; signature= -> >");
    CHECK_PARSED(" x : float -> ", " ; ",
                 "INVALID_ARGUMENT: Op definition of 'Foo': an attr name is expected at "
                 "'; '");
}

MR_TEST(op_text_arguments_of_every_form)
{
    CHECK_PARSED(
        "a: float, b: Ref(T), c: N * T, d: L, e: Ref(N*int32) -> o: T, p: L",
        "T: type; N: int; L: list(type)",
        "Op<name=Foo; signature=a:float, b:Ref(T), c:N*T, d:L, e:Ref(N*int32) -> o:T, p:L; "
        "attr=T:type; attr=N:int,min=1; attr=L:list(type),min=1>");
}

MR_TEST(op_text_lists_of_arguments_have_a_minimum_of_1_unless_told)
{
    CHECK_PARSED(
        "c: N * float, d: L ->", "N: int >= 0; L: list(type) >= 0; M: int",
        "Op<name=Foo; signature=c:N*float, d:L -> ; attr=N:int,min=0; attr=L:list(type),min=0; "
        "attr=M:int>");
}

MR_TEST(op_text_type_sets)
{
    CHECK_PARSED(
        "",
        "T: {float, DT_INT32,half}; U: list({string}); V: quantizedtype; W: {quantizedtype, bool}",
        "Op<name=Foo; signature= -> ; attr=T:type,allowed=[DT_FLOAT, DT_INT32, DT_HALF]; "
        "attr=U:list(type),allowed=[DT_STRING]; "
        "attr=V:type,allowed=[DT_QINT8, DT_QUINT8, DT_QINT32, DT_QINT16, DT_QUINT16]; "
        "attr=W:type,allowed=[DT_QINT8, DT_QUINT8, DT_QINT32, DT_QINT16, DT_QUINT16, DT_BOOL]>");
}

MR_TEST(op_text_numbertype_has_17_types_and_realnumbertype_12)
{
    mr_op op = {.name = "Foo", .attrs = "T: numbertype; U: realnumbertype"};
    mr_op_def d;
    mr_arena a;
    mr_arena_init(&a, 0);
    MR_CHECK_OK(mr_op_def_parse(&a, &op, &d));
    MR_CHECK_INT(d.attrs[0].n_allowed, 17);
    MR_CHECK_INT(d.attrs[1].n_allowed, 12);
    mr_arena_deinit(&a);
}

MR_TEST(op_text_string_sets_in_both_quotes)
{
    CHECK_PARSED("", "p: {'SAME', \"VALID\"} = 'SAME'; q: list({'a;b'}) = [\"a;b\"]",
                 "Op<name=Foo; signature= -> ; attr=p:string,default=\"SAME\",allowed=[\"SAME\", "
                 "\"VALID\"]; "
                 "attr=q:list(string),default=[\"a;b\"],allowed=[\"a;b\"]>");
}

MR_TEST(op_text_single_defaults)
{
    CHECK_PARSED(
        "",
        "a: int = -3; b: float = 1e-4; c: float = -1; d: bool = true; e: type = DT_FLOAT; "
        "f: type = int64; g: string = ''; h: int >= 2 = 3; i: float = inf; j: int = 3 >= 2",
        "Op<name=Foo; signature= -> ; attr=a:int,default=-3; attr=b:float,default=0.0001; "
        "attr=c:float,default=-1; attr=d:bool,default=true; attr=e:type,default=DT_FLOAT; "
        "attr=f:type,default=DT_INT64; attr=g:string,default=\"\"; attr=h:int,default=3,min=2; "
        "attr=i:float,default=inf; attr=j:int,default=3,min=2>");
}

MR_TEST(op_text_list_defaults)
{
    CHECK_PARSED(
        "",
        "a: list(int) = [1, -2]; b: list(float) >= 1 = [0.75,1]; c: list(bool) = [true, false]; "
        "d: list(type) = [DT_FLOAT, int32]; e: list(shape) = [[], ?, [2,-1]]; f: list(string) = []",
        "Op<name=Foo; signature= -> ; attr=a:list(int),default=[1, -2]; "
        "attr=b:list(float),default=[0.75, 1],min=1; attr=c:list(bool),default=[true, false]; "
        "attr=d:list(type),default=[DT_FLOAT, DT_INT32]; "
        "attr=e:list(shape),default=[[], <unknown>, [2,?]]; attr=f:list(string),default=[]>");
}

MR_TEST(op_text_shape_defaults)
{
    CHECK_PARSED(
        "",
        "a: shape = ?; b: shape = []; c: shape = {}; d: shape = { unknown_rank: true }; "
        "e: shape = { dim { size: 2 } dim { size: -1 } }; f: shape = [2,?]",
        "Op<name=Foo; signature= -> ; attr=a:shape,default=<unknown>; attr=b:shape,default=[]; "
        "attr=c:shape,default=[]; attr=d:shape,default=<unknown>; attr=e:shape,default=[2,?]; "
        "attr=f:shape,default=[2,?]>");
}

MR_TEST(op_text_tensor_and_function_defaults)
{
    CHECK_PARSED(
        "",
        "a: tensor = uint8[4]{255,0,0,255}; b: tensor = { dtype: DT_INT32 tensor_shape {} int_val: "
        "7 }; "
        "c: func = { name: \"f}\" }; d: tensor = string[]{'x'}",
        "Op<name=Foo; signature= -> ; "
        "attr=a:tensor,default=Tensor<type: uint8 shape: [4] values: 255 0 0...>; "
        "attr=b:tensor,default=Tensor<type: int32 shape: [] values: 7>; attr=c:func,default=f}[]; "
        "attr=d:tensor,default=Tensor<type: string shape: [] values: x>>");
}

MR_TEST(op_text_escapes_in_strings)
{
    mr_op op = {.name = "Foo", .attrs = "a: string = 'q\\'\\n\\x41\\101\\\\'"};
    mr_op_def d;
    mr_arena a;
    mr_arena_init(&a, 0);
    MR_CHECK_OK(mr_op_def_parse(&a, &op, &d));
    MR_CHECK(mr_sv_is(d.attrs[0].deflt.s, "q'\nAA\\"));
    mr_arena_deinit(&a);
}

MR_TEST(op_text_errors_name_what_is_wrong)
{
    CHECK_REFUSED("x T", "T: type", "':' is expected after 'x'");
    CHECK_REFUSED("x: T", NULL, "'T' is neither a type nor an attr");
    CHECK_REFUSED("x: N * T", "N: float; T: type", "'N' is not an int attr");
    CHECK_REFUSED("x: N", "N: int", "attr 'N' is not a type");
    CHECK_REFUSED("x: Ref(float", NULL, "')' is expected after 'x'");
    CHECK_REFUSED("x: float y", NULL, "unexpected 'y'");
    CHECK_REFUSED("x: float, x: float", NULL, "duplicate input 'x'");
    CHECK_REFUSED("", "a: int; a: int", "duplicate attr 'a'");
    CHECK_REFUSED("", "a: foo", "unknown attr type 'foo'");
    CHECK_REFUSED("", "a: {float, foo}", "unknown type 'foo'");
    CHECK_REFUSED("", "a: {'x'", "'}' is expected");
    CHECK_REFUSED("", "a: int = x", "'x' is not an int");
    CHECK_REFUSED("", "a: string = x", "quoted string");
    CHECK_REFUSED("", "a: string = 'x", "not closed");
    CHECK_REFUSED("", "a: string >= 2", "minimum");
    CHECK_REFUSED("", "a: list(int) = 1", "'[' is expected");
    CHECK_REFUSED("", "a: shape = {", "'{' is not closed");
    CHECK_REFUSED("", "a: tensor = uint8[2]{1}", "has only 1");
}

MR_TEST(op_text_resources_in_the_signature_make_an_op_stateful)
{
    mr_arena a;
    mr_op_def d;
    mr_arena_init(&a, 0);
    MR_CHECK_OK(mr_op_def_parse(
        &a, &(mr_op){.name = "A", .sig = "x: N * resource ->", .attrs = "N: int"}, &d));
    MR_CHECK(d.flags & MR_STATEFUL);
    MR_CHECK_OK(mr_op_def_parse(&a, &(mr_op){.name = "A", .sig = "-> h: resource"}, &d));
    MR_CHECK(d.flags & MR_STATEFUL);
    MR_CHECK_OK(
        mr_op_def_parse(&a, &(mr_op){.name = "A", .sig = "x: T ->", .attrs = "T: type"}, &d));
    MR_CHECK(!(d.flags & MR_STATEFUL));
    mr_arena_deinit(&a);
}

MR_TEST(op_text_key_is_the_first_type_attr_unless_named)
{
    mr_arena a;
    mr_op_def d;
    mr_op op = {.name = "A", .attrs = "n: int; L: list(type); T: type; U: type"};
    mr_arena_init(&a, 0);
    MR_CHECK_OK(mr_op_def_parse(&a, &op, &d));
    MR_CHECK_STR(d.key->name, "T");
    op.key = "U";
    MR_CHECK_OK(mr_op_def_parse(&a, &op, &d));
    MR_CHECK_STR(d.key->name, "U");
    op.key = "n";
    MR_CHECK_ERR(mr_op_def_parse(&a, &op, &d), MR_INVALID_ARGUMENT, "key 'n' is not a type attr");
    mr_arena_deinit(&a);
}

/* ---- OpDef ---- */

MR_TEST(op_def_survives_encoding_and_decoding)
{
    mr_op op = {.name = "Foo",
                .doc = "a doc",
                .deprecated = 5,
                .flags = MR_STATEFUL | MR_AGGREGATE | MR_UNINIT_OK,
                .sig = "a: float, b: Ref(T), c: N * T, d: L -> o: T",
                .attrs = "T: {float, int32} = DT_INT32; N: int >= 2; L: list(type) = [DT_BOOL]; "
                         "s: {'x', 'y'} = 'x'; t: tensor = float[2]{1,2}; f: func"};
    mr_op_def d, back;
    mr_arena a;
    mr_str bytes = {0}, again = {0}, x = {0}, y = {0};
    mr_arena_init(&a, 0);
    MR_CHECK_OK(mr_op_def_parse(&a, &op, &d));
    mr_op_def_encode(&d, &bytes);
    MR_CHECK_OK(mr_op_def_decode(&a, mr_str_view(&bytes), &back));
    mr_op_def_print(&x, &d);
    mr_op_def_print(&y, &back);
    MR_CHECK_STR(mr_str_z(&x), mr_str_z(&y));
    MR_CHECK_INT(back.flags, op.flags);
    MR_CHECK_INT(back.deprecated, 5);
    MR_CHECK_STR(back.summary, "a doc");
    mr_op_def_encode(&back, &again);
    MR_CHECK(mr_sv_eq(mr_str_view(&bytes), mr_str_view(&again)));
    mr_str_deinit(&bytes);
    mr_str_deinit(&again);
    mr_str_deinit(&x);
    mr_str_deinit(&y);
    mr_arena_deinit(&a);
}

MR_TEST(op_def_keeps_fields_it_does_not_know)
{
    /* name "A", description (6) "d", an input "x" of type float with description (2) "e" */
    mr_sv bytes = MR_SV("\x0a\x01"
                        "A"
                        "\x12\x08"
                        "\x0a\x01x"
                        "\x12\x01"
                        "e"
                        "\x18\x01"
                        "\x32\x01"
                        "d");
    mr_op_def d;
    mr_arena a;
    mr_str again = {0};
    mr_arena_init(&a, 0);
    MR_CHECK_OK(mr_op_def_decode(&a, bytes, &d));
    MR_CHECK(mr_sv_is(d.extra, "\x32\x01"
                               "d"));
    mr_op_def_encode(&d, &again);
    MR_CHECK_INT(again.n, bytes.n);
    mr_str_deinit(&again);
    mr_arena_deinit(&a);
}

MR_TEST(op_def_defaults_must_be_values_of_their_attr)
{
    CHECK_REFUSED("", "T: {float} = DT_INT32",
                  "default of attr 'T': Value for attr 'T' of int32 is not in");
    CHECK_REFUSED("", "n: int >= 2 = 1", "must be at least minimum 2");
    mr_op_def d;
    mr_arena a;
    mr_arena_init(&a, 0);
    /* attr "T" of type "type" whose default is a list of types */
    MR_CHECK_ERR(mr_op_def_decode(&a,
                                  MR_SV("\x0a\x01"
                                        "A"
                                        "\x22\x0f\x0a\x01T\x12\x04type"
                                        "\x1a\x04\x0a\x02\x30\x01"),
                                  &d),
                 MR_INVALID_ARGUMENT, "with type 'list(type)' when 'type' expected");
    mr_arena_deinit(&a);
}

MR_TEST(op_def_decode_refuses_arguments_without_a_type)
{
    mr_op_def d;
    mr_arena a;
    mr_arena_init(&a, 0);
    MR_CHECK_ERR(mr_op_def_decode(&a,
                                  MR_SV("\x0a\x01"
                                        "A"
                                        "\x12\x03\x0a\x01x"),
                                  &d),
                 MR_INVALID_ARGUMENT, "exactly one");
    MR_CHECK_ERR(mr_op_def_decode(&a,
                                  MR_SV("\x0a\x01"
                                        "A"
                                        "\x12\x06\x0a\x01x\x22\x01T"),
                                  &d),
                 MR_INVALID_ARGUMENT, "unknown attr 'T'");
    MR_CHECK_ERR(mr_op_def_decode(&a, MR_SV(""), &d), MR_INVALID_ARGUMENT, "no name");
    mr_arena_deinit(&a);
}
