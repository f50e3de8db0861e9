/* net/segment_test.c -- memory that two processes see at once. */
#include "net/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/harness/test.h"

enum { MIB = 1 << 20 };

static struct {
    int kept, returned;
    uint32_t last;
} seen;

static void keep(void *owner) { (void)owner, seen.kept++; }
static void returned(void *owner, uint32_t id) { (void)owner, seen.returned++, seen.last = id; }

static mr_segment_table table = {.limit = 64 * MIB, .keep = keep, .returned = returned};

/* A file as a sender makes it, or not quite. */
static int make_file(int64_t bytes, int seals)
{
    int fd = memfd_create("test", MFD_ALLOW_SEALING);
    MR_CHECK(fd >= 0 && ftruncate(fd, bytes) == 0);
    MR_CHECK(posix_fallocate(fd, 0, bytes) == 0);
    MR_CHECK(fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

/* Taken and made. */
static mr_segment *take(mr_segment_pool *p, size_t n)
{
    mr_segment *s = mr_segment_take(p, n);
    if (s && !s->data && !mr_segment_make(p, s)) {
        mr_segment_trim(p, INT64_MAX);
        if (!mr_segment_make(p, s)) {
            mr_segment_discard(p, s);
            return NULL;
        }
    }
    return s;
}

/* As if it had been announced. */
static mr_segment *known(mr_segment *s)
{
    if (s && s->fd >= 0) {
        close(s->fd);
        s->fd = -1;
    }
    return s;
}

static const int all_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

MR_TEST(segment_written_by_one_is_read_by_the_other)
{
    mr_net_budget budget = {.limit = 8 * MIB};
    mr_segment_pool pool = {.budget = &budget};
    mr_segment *s = take(&pool, MIB);
    MR_CHECK(s && s->bytes >= MIB && s->fd >= 0);
    MR_CHECK_OK(mr_segment_map(&table, s->id, (int64_t)s->bytes, s->fd));
    s->fd = -1;
    memcpy(s->data + 64, "tensor", 6);
    mr_loan *l;
    mr_piece p;
    MR_CHECK_OK(mr_loan_begin(&table, s->id, &l));
    MR_CHECK_OK(mr_loan_piece(l, 64, 6, &p));
    mr_loan_drop(l);
    MR_CHECK(memcmp(p.data, "tensor", 6) == 0 && p.shared);
    MR_CHECK_INT(seen.returned, 0);
    mr_piece_drop(p);
    MR_CHECK_INT(seen.returned, 1);
    MR_CHECK_INT(seen.last, s->id);
    mr_segment_table_deinit(&table);
    mr_segment_pool_deinit(&pool);
    MR_CHECK_INT(budget.used, 0);
}

MR_TEST(segment_pool_fills_a_segment_again_once_it_is_back)
{
    mr_net_budget budget = {.limit = 8 * MIB};
    mr_segment_pool pool = {.budget = &budget};
    mr_segment *a = known(take(&pool, MIB)), *b = known(take(&pool, MIB));
    MR_CHECK(a && b && a != b);
    MR_CHECK(mr_segment_return(&pool, a->id, 5));
    MR_CHECK(!mr_segment_return(&pool, a->id, 6)); /* it has it already */
    MR_CHECK(!mr_segment_return(&pool, 0, 6) && !mr_segment_return(&pool, 3, 6) &&
             !mr_segment_return(&pool, UINT64_MAX, 6));
    MR_CHECK(take(&pool, MIB - 1000) == a);
    MR_CHECK(mr_segment_return(&pool, a->id, 7));
    MR_CHECK(take(&pool, 64 << 10) != a); /* too large to be wasted on that */
    mr_segment *c = take(&pool, MIB * 2);
    MR_CHECK(c->fd >= 0 && !mr_segment_return(&pool, c->id, 8)); /* which nobody was told of */
    mr_segment_pool_deinit(&pool);
}

MR_TEST(segment_pool_stays_within_its_budget)
{
    mr_net_budget budget = {.limit = 3 * MIB};
    mr_segment_pool pool = {.budget = &budget};
    mr_segment *a = known(take(&pool, MIB)), *b = known(take(&pool, MIB));
    MR_CHECK(a && b && !take(&pool, 2 * MIB));
    MR_CHECK(budget.used <= budget.limit);
    /* What lies unused makes room, and the receiver will hear of it. */
    MR_CHECK(mr_segment_return(&pool, a->id, 1) && mr_segment_return(&pool, b->id, 1));
    MR_CHECK(known(take(&pool, 2 * MIB + 1)));
    MR_CHECK_INT(pool.gone.n, 2);
    MR_CHECK(!take(&pool, SIZE_MAX - 5));
    mr_segment_pool_deinit(&pool);
    MR_CHECK_INT(budget.used, 0);
}

MR_TEST(segment_pool_trims_what_is_old_and_not_lent)
{
    mr_net_budget budget = {.limit = 16 * MIB};
    mr_segment_pool pool = {.budget = &budget};
    mr_segment *s[3];
    for (int i = 0; i < 3; i++)
        s[i] = known(take(&pool, MIB));
    uint32_t first = s[0]->id;
    mr_segment_return(&pool, s[0]->id, 10);
    mr_segment_return(&pool, s[1]->id, 20);
    mr_segment_trim(&pool, 15);
    MR_CHECK_INT(pool.gone.n, 1);
    MR_CHECK_INT(pool.gone.p[0], first);
    MR_CHECK(s[2]->lent && !s[1]->lent);
    mr_segment_pool_deinit(&pool);
}

MR_TEST(segment_table_refuses_what_could_harm)
{
    MR_CHECK_ERR(mr_segment_map(&table, 1, MIB, make_file(MIB, F_SEAL_GROW)), MR_INVALID_ARGUMENT,
                 "sealed");
    MR_CHECK_ERR(mr_segment_map(&table, 1, MIB, open("/dev/zero", O_RDWR)), MR_INVALID_ARGUMENT,
                 "sealed");
    MR_CHECK_ERR(mr_segment_map(&table, 1, 2 * MIB, make_file(MIB, all_seals)), MR_INVALID_ARGUMENT,
                 "bytes");
    MR_CHECK_ERR(mr_segment_map(&table, 0, MIB, make_file(MIB, all_seals)), MR_INVALID_ARGUMENT,
                 "segment id 0");
    MR_CHECK_ERR(mr_segment_map(&table, MR_SEGMENTS + 1, MIB, make_file(MIB, all_seals)),
                 MR_INVALID_ARGUMENT, "segment id");
    MR_CHECK_ERR(mr_segment_map(&table, 1, -1, make_file(MIB, all_seals)), MR_INVALID_ARGUMENT,
                 "-1 bytes");
    MR_CHECK_ERR(mr_segment_map(&table, 1, 0, make_file(MIB, all_seals)), MR_INVALID_ARGUMENT,
                 "0 bytes");
    MR_CHECK_ERR(mr_segment_map(&table, 1, 65 * MIB, make_file(MIB, all_seals)),
                 MR_INVALID_ARGUMENT, "bytes");
    int sparse = memfd_create("test", MFD_ALLOW_SEALING);
    MR_CHECK(ftruncate(sparse, MIB) == 0 && fcntl(sparse, F_ADD_SEALS, all_seals) == 0);
    MR_CHECK_ERR(mr_segment_map(&table, 1, MIB, sparse), MR_INVALID_ARGUMENT, "bytes");
    MR_CHECK_INT(table.bytes, 0);
}

MR_TEST(segment_table_keeps_numbers_apart)
{
    MR_CHECK_OK(mr_segment_map(&table, 7, MIB, make_file(MIB, all_seals)));
    MR_CHECK_ERR(mr_segment_map(&table, 7, MIB, make_file(MIB, all_seals)), MR_INVALID_ARGUMENT,
                 "segment id 7");
    MR_CHECK_ERR(mr_segment_forget(&table, 8), MR_INVALID_ARGUMENT, "segment 8");
    MR_CHECK_OK(mr_segment_forget(&table, 7));
    MR_CHECK_ERR(mr_segment_forget(&table, 7), MR_INVALID_ARGUMENT, "segment 7");
    MR_CHECK_INT(table.bytes, 0);
}

MR_TEST(segment_loans_are_bounded_and_not_doubled)
{
    mr_loan *l, *again;
    mr_piece p;
    MR_CHECK_OK(mr_segment_map(&table, 1, MIB, make_file(MIB, all_seals)));
    MR_CHECK_ERR(mr_loan_begin(&table, 2, &l), MR_INVALID_ARGUMENT, "segment 2, which does not exist");
    MR_CHECK_OK(mr_loan_begin(&table, 1, &l));
    MR_CHECK_ERR(mr_loan_begin(&table, 1, &again), MR_INVALID_ARGUMENT, "before it was returned");
    MR_CHECK_ERR(mr_loan_piece(l, MIB, 1, &p), MR_INVALID_ARGUMENT, "segment of");
    MR_CHECK_ERR(mr_loan_piece(l, 1, UINT64_MAX, &p), MR_INVALID_ARGUMENT, "segment of");
    MR_CHECK_ERR(mr_loan_piece(l, UINT64_MAX - 1, 2, &p), MR_INVALID_ARGUMENT, "segment of");
    MR_CHECK_OK(mr_loan_piece(l, MIB - 1, 1, &p));
    mr_loan_drop(l);
    MR_CHECK_INT(seen.returned, 0);
    mr_segment_table_deinit(&table); /* the piece outlives the connection */
    MR_CHECK_INT(*(const char *)p.data, 0);
    mr_piece_drop(p);
    MR_CHECK_INT(seen.returned, 1);
}
