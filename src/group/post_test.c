/* group/post_test.c -- messages that wait in a post office, from a net that only notes what it is told. */
#include "group/post.h"

#include "tests/harness/test.h"

static int n_replies;
static mr_code last_code;
static bool has_left; /* before anybody watches */

static void reply(mr_net_call *c, mr_status *st, mr_bytes *body)
{
    (void)body;
    c->cancelled = NULL;
    n_replies++;
    last_code = mr_status_code(st);
    mr_status_free(st);
    mr_bytes_deinit(&c->body);
}

static bool on_cancel(mr_net_call *c, void (*fn)(void *arg, mr_net_call *c), void *arg)
{
    c->cancelled = fn;
    c->cancelled_arg = arg;
    return !has_left;
}

static const mr_net net = {.reply = reply, .on_cancel = on_cancel};

/* Number n of member 1; its bytes are nowhere, and nobody looks at them before they are received. */
static mr_net_call message_of(uint64_t key, uint64_t number, size_t bytes)
{
    uint8_t head[MR_POST_HEAD];
    mr_net_call c = {.net = &net, .method = MR_POST_METHOD};
    mr_post_head_write(&(mr_post_head){1, key, number, bytes}, head);
    MR_CHECK(mr_bytes_add_copy(&c.body, head, sizeof head));
    mr_bytes_add(&c.body, (mr_piece){.data = "", .n = bytes});
    return c;
}

static mr_net_call message(uint64_t key, uint64_t number) { return message_of(key, number, 0); }

MR_TEST(post_forgets_a_message_whose_sender_gave_up)
{
    mr_post *p = mr_post_new();
    for (int i = 0; i < 2 * MR_POST_PENDING; i++) { /* of generations that never come: they would fill it */
        mr_net_call c = message(7, (uint64_t)i);
        mr_post_handle(p, &c);
        MR_CHECK_INT(n_replies, i);
        c.cancelled(c.cancelled_arg, &c);
        MR_CHECK_INT(n_replies, i + 1);
        MR_CHECK_INT(last_code, MR_CANCELLED);
    }
    mr_post_free(p);
}

MR_TEST(post_forgets_an_early_message_whose_sender_gave_up)
{
    mr_post *p = mr_post_new();
    mr_transport *t = mr_post_transport(p, 7, 0, 2, NULL);
    mr_net_call c = message(7, 0);
    mr_post_handle(p, &c);
    c.cancelled(c.cancelled_arg, &c);
    MR_CHECK_INT(n_replies, 1);
    mr_transport_free(t);
    MR_CHECK_INT(n_replies, 1);
    mr_post_free(p);
}

MR_TEST(post_keeps_no_message_of_who_has_left_already)
{
    mr_post *p = mr_post_new();
    mr_net_call c = message(7, 0);
    has_left = true;
    mr_post_handle(p, &c);
    MR_CHECK_INT(last_code, MR_CANCELLED);
    mr_post_free(p);
    MR_CHECK_INT(n_replies, 1);
}

MR_TEST(post_bounds_the_bytes_that_wait)
{
    enum { N = 4 };
    size_t part = MR_POST_PENDING_BYTES / N;
    mr_net_call c[N], more;
    mr_post *p = mr_post_new();
    for (int i = 0; i < N; i++) {
        c[i] = message_of(7 + (uint64_t)i, 0, part);
        mr_post_handle(p, &c[i]);
    }
    MR_CHECK_INT(n_replies, 0);
    more = message_of(7, 1, 1);
    mr_post_handle(p, &more);
    MR_CHECK_INT(last_code, MR_RESOURCE_EXHAUSTED);
    c[0].cancelled(c[0].cancelled_arg, &c[0]); /* makes room */
    mr_transport *t = mr_post_transport(p, 8, 0, 2, NULL);
    mr_transport_free(t); /* so does the end of a generation */
    MR_CHECK_INT(n_replies, 3);
    more = message_of(7, 1, 2 * part);
    mr_post_handle(p, &more);
    MR_CHECK_INT(n_replies, 3);
    mr_post_free(p);
}

MR_TEST(post_keeps_one_message_of_any_size)
{
    mr_post *p = mr_post_new();
    mr_net_call c = message_of(7, 0, 2 * (size_t)MR_POST_PENDING_BYTES);
    mr_post_handle(p, &c);
    MR_CHECK_INT(n_replies, 0);
    mr_post_free(p);
    MR_CHECK_INT(last_code, MR_UNAVAILABLE);
}
