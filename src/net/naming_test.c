/* net/naming_test.c -- entries, specs, and the book of addresses, without a server. */
#include "base/memory.h"
#include "net/naming_book.h"
#include "tests/harness/test.h"

/* ---- entries ---- */

static bool reads(const char *text)
{
    mr_naming_entry e;
    return mr_naming_decode(mr_sv_of(text), &e);
}

static void goes_there_and_back(const char *address, uint64_t incarnation)
{
    mr_naming_entry e, back;
    mr_str text = {0};
    MR_CHECK_OK(mr_naming_entry_init(&e, address, incarnation));
    mr_naming_encode(&e, &text);
    MR_CHECK(text.n <= MR_NAMING_MAX_VALUE);
    MR_CHECK(mr_naming_decode(mr_str_view(&text), &back));
    MR_CHECK_STR(back.address, address);
    MR_CHECK(back.incarnation == incarnation);
    mr_str_deinit(&text);
}

MR_TEST(naming_entries_go_there_and_back)
{
    char longest[MR_NAMING_MAX_ADDRESS + 1] = {0};
    goes_there_and_back("127.0.0.1:2222", 1);
    goes_there_and_back("[fe80::1%eth0]:65535", UINT64_MAX);
    goes_there_and_back("ps-0.job_1.example.com:1", 0x0123456789abcdef);
    memset(longest, 'a', 253);
    strcat(longest, ":65535");
    goes_there_and_back(longest, 7);
}

MR_TEST(naming_entries_are_read_strictly)
{
    static const char *const bad[] = {
        "", " ", "a:1", "a:1 ", "a:1 1", "a:1 0000000000000000", "a:1 00000000000000001", "a:1 000000000000000g",
        "a:1 000000000000000A", "a:1  0000000000000001", " a:1 0000000000000001", "a:1 0000000000000001 ",
        "a:1 0000000000000001\n", "a 0000000000000001", ":1 0000000000000001", "a:0 0000000000000001",
        "a:01 0000000000000001", "a:65536 0000000000000001", "a:+1 0000000000000001", "a: 0000000000000001",
        "a:b:1 0000000000000001", "a/b:1 0000000000000001", "a,b:1 0000000000000001", "[::1:1 0000000000000001",
        "\x80:1 0000000000000001", "[]:1 0000000000000001", "0.0.0.0:1 0000000000000001",
    };
    MR_CHECK(reads("a:1 0000000000000001"));
    for (int i = 0; i < MR_COUNT(bad); i++)
        if (reads(bad[i]))
            MR_CHECK_STR(bad[i], "nothing");
    MR_CHECK(!mr_naming_decode((mr_sv){"a\0:1 0000000000000001", 21}, &(mr_naming_entry){0}));
    MR_CHECK(!mr_naming_decode((mr_sv){"a:1 0000000000000001\0", 21}, &(mr_naming_entry){0}));
}

MR_TEST(naming_entries_have_an_address_that_can_be_called)
{
    mr_naming_entry e;
    MR_CHECK_ERR(mr_naming_entry_init(&e, "127.0.0.1:0", 1), MR_INVALID_ARGUMENT, "127.0.0.1:0");
    MR_CHECK_ERR(mr_naming_entry_init(&e, "0.0.0.0:2222", 1), MR_INVALID_ARGUMENT, "MILLRACE_BIND");
    MR_CHECK_ERR(mr_naming_entry_init(&e, "[::]:2222", 1), MR_INVALID_ARGUMENT, "other tasks cannot call");
    MR_CHECK_ERR(mr_naming_entry_init(&e, "nonsense", 1), MR_INVALID_ARGUMENT, "nonsense");
}

/* ---- where a service is ---- */

static void is_taken_apart(const char *text, const char *servers, const char *path)
{
    mr_naming_spec s;
    MR_CHECK_OK(mr_naming_spec_parse(text, &s));
    MR_CHECK_STR(s.servers, servers);
    MR_CHECK_STR(s.path, path);
    mr_naming_spec_deinit(&s);
}

MR_TEST(naming_specs_are_servers_and_a_path)
{
    is_taken_apart("a:1", "a:1", "/millrace");
    is_taken_apart("a:1,b:2/jobs/mnist.1", "a:1,b:2", "/jobs/mnist.1");
    is_taken_apart("a,[::1],[::1]:3/x", "a:2181,[::1]:2181,[::1]:3", "/x");
}

MR_TEST(naming_specs_that_mean_nothing_are_refused)
{
    static const char *const bad[] = {"",     "/",      "/path", "a:1/",    "a:1//x", "a:1/x/", "a:1/./x", "a:1/..", "a:0",
                                      "a:1,", ",a:1",   "a b:1", "a:1/x y", "a:x",    "a:1?",   "a:1/\x01", "a:99999"};
    mr_naming_spec s;
    for (int i = 0; i < MR_COUNT(bad); i++)
        MR_CHECK_ERR(mr_naming_spec_parse(bad[i], &s), MR_INVALID_ARGUMENT, "is not the address of a ZooKeeper");
    char *longer = mr_printf("a:1/%02000d", 0);
    MR_CHECK_ERR(mr_naming_spec_parse(longer, &s), MR_INVALID_ARGUMENT, "is not the address of a ZooKeeper");
    mr_free(longer);
}

/* ---- the book ---- */

#define A1 "a:1 0000000000000001"
#define A2 "a:1 0000000000000002"
#define B2 "b:1 0000000000000002"

static const mr_sv nothing = {NULL, 0};

MR_TEST(naming_book_finds_a_task_and_follows_it)
{
    mr_book b;
    mr_book_init(&b, 2);
    MR_CHECK(!mr_book_address(&b, 1));
    MR_CHECK_INT(mr_book_found(&b, 1, nothing), MR_BOOK_ABSENT);
    MR_CHECK_INT(mr_book_found(&b, 1, nothing), MR_BOOK_NOTHING);
    MR_CHECK_INT(mr_book_found(&b, 1, MR_SV(A1)), MR_BOOK_FOUND);
    MR_CHECK_STR(mr_book_address(&b, 1), "a:1");
    MR_CHECK_INT(mr_book_found(&b, 1, MR_SV(A1)), MR_BOOK_NOTHING);
    MR_CHECK_INT(mr_book_found(&b, 1, MR_SV(B2)), MR_BOOK_MOVED);
    MR_CHECK_STR(mr_book_address(&b, 1), "b:1");
    MR_CHECK_INT(b.tasks[1].moves, 1);
    MR_CHECK(!mr_book_address(&b, 0));
    mr_book_deinit(&b);
}

MR_TEST(naming_book_keeps_an_address_whose_entry_has_gone)
{
    mr_book b;
    mr_book_init(&b, 1);
    MR_CHECK_INT(mr_book_found(&b, 0, MR_SV(A1)), MR_BOOK_FOUND);
    MR_CHECK_INT(mr_book_found(&b, 0, nothing), MR_BOOK_LEFT);
    MR_CHECK_INT(mr_book_found(&b, 0, nothing), MR_BOOK_NOTHING);
    MR_CHECK_STR(mr_book_address(&b, 0), "a:1");
    MR_CHECK_INT(mr_book_found(&b, 0, MR_SV(A1)), MR_BOOK_FOUND); /* it has entered again */
    MR_CHECK_INT(b.tasks[0].moves, 0);
    mr_book_deinit(&b);
}

MR_TEST(naming_book_takes_another_life_at_the_same_address_for_a_move)
{
    mr_book b;
    mr_book_init(&b, 1);
    MR_CHECK_INT(mr_book_found(&b, 0, MR_SV(A1)), MR_BOOK_FOUND);
    MR_CHECK_INT(mr_book_found(&b, 0, MR_SV(A2)), MR_BOOK_MOVED);
    MR_CHECK_INT(b.tasks[0].moves, 1);
    mr_book_deinit(&b);
}

MR_TEST(naming_book_ignores_what_it_cannot_read)
{
    mr_book b;
    mr_book_init(&b, 1);
    MR_CHECK_INT(mr_book_found(&b, 0, MR_SV("http://evil")), MR_BOOK_BAD);
    MR_CHECK(!mr_book_address(&b, 0));
    MR_CHECK_INT(mr_book_found(&b, 0, MR_SV("http://evil/2")), MR_BOOK_NOTHING); /* said once */
    MR_CHECK_INT(mr_book_found(&b, 0, MR_SV(A1)), MR_BOOK_FOUND);
    MR_CHECK_INT(mr_book_found(&b, 0, MR_SV("")), MR_BOOK_BAD);
    MR_CHECK_STR(mr_book_address(&b, 0), "a:1");
    mr_book_deinit(&b);
}

MR_TEST(naming_book_begins_with_the_addresses_of_the_spec)
{
    mr_book b;
    mr_book_init(&b, 3);
    mr_book_expect(&b, 0, "a:1");
    mr_book_expect(&b, 1, "a:1");
    mr_book_expect(&b, 2, "zk:0");
    MR_CHECK_STR(mr_book_address(&b, 0), "a:1");
    MR_CHECK(!mr_book_address(&b, 2));
    MR_CHECK_INT(mr_book_found(&b, 0, MR_SV(A1)), MR_BOOK_FOUND); /* as expected */
    MR_CHECK_INT(b.tasks[0].moves, 0);
    MR_CHECK_INT(mr_book_found(&b, 1, MR_SV(B2)), MR_BOOK_MOVED);
    MR_CHECK_INT(mr_book_found(&b, 2, MR_SV(B2)), MR_BOOK_FOUND);
    mr_book_deinit(&b);
}
