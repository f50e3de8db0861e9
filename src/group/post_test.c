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

/* A message without bytes, number n of member 1. */
static mr_net_call message(uint64_t key, uint64_t number)
{
    uint8_t head[MR_POST_HEAD];
    mr_net_call c = {.net = &net, .method = MR_POST_METHOD};
    mr_post_head_write(&(mr_post_head){1, key, number, 0}, head);
    MR_CHECK(mr_bytes_add_copy(&c.body, head, sizeof head));
    return c;
}

MR_TEST(post_forgets_a_message_whose_sender_gave_up)
{
    mr_post *p = mr_post_new();
    for (int i = 0; i < 2 * MR_POST_PARKED; i++) { /* of generations that never come: they would fill it */
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
