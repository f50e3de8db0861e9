/* ps/manager_test.c -- what the parameter manager answers, call by call. */
#include "ps/manager.h"

#include "base/clock.h"
#include "tests/harness/test.h"

enum { SERVER = 77 };

typedef struct call { /* of a server, which is this test */
    mr_net_request r; /* first */
    mr_mutex mu;
    mr_cond ended;
    bool done;
    mr_code code;
} call;

static void on_done(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    call *c = (call *)r;
    (void)reply;
    mr_lock(&c->mu);
    c->code = mr_status_code(st);
    c->done = true;
    mr_cond_signal(&c->ended);
    mr_unlock(&c->mu);
    mr_status_free(st);
}

static void start(call *c, mr_net_peer *to, const char *method)
{
    mr_pb_writer w;
    mr_str head = {0};
    *c = (call){.r = {.method = method, .done = on_done}};
    mr_mutex_init(&c->mu);
    mr_cond_init(&c->ended);
    mr_ps_head_begin(&w, &head);
    mr_pb_put_fixed64(&w, 1, SERVER);
    mr_pb_put_varint(&w, 2, true);
    mr_pb_put_bytes(&w, 3, MR_SV("inside:nowhere"));
    MR_CHECK_OK(mr_ps_head_end_alone(&w, &head, &c->r.body));
    mr_net_loop()->start(to, &c->r);
}

static mr_code wait_for(call *c)
{
    mr_lock(&c->mu);
    while (!c->done)
        mr_cond_wait(&c->ended, &c->mu);
    mr_unlock(&c->mu);
    mr_cond_deinit(&c->ended);
    mr_mutex_deinit(&c->mu);
    return c->code;
}

static mr_code ask(mr_net_peer *to, const char *method)
{
    call c;
    start(&c, to, method);
    return wait_for(&c);
}

/* The old connection may be seen to close only after the new Join: that is no loss of who has just joined. */
MR_TEST(ps_manager_ends_the_old_live_of_who_joins_again)
{
    call live;
    mr_net_peer *old, *new;
    mr_ps_manager *m;
    mr_ps_manager_options o = {.struct_size = sizeof o, .address = "inside:manager-test", .lost_ms = 60000};
    mr_test_deadline(60);
    MR_CHECK_OK(mr_ps_manager_open(&o, NULL, &m));
    MR_CHECK_OK(mr_net_loop()->connect(mr_net_loop(), o.address, NULL, NULL, &old));
    MR_CHECK_OK(mr_net_loop()->connect(mr_net_loop(), o.address, NULL, NULL, &new));
    MR_CHECK_INT(ask(old, MR_PS_MANAGER_SERVICE "Join"), MR_OK);
    start(&live, old, MR_PS_MANAGER_SERVICE "Live");
    MR_CHECK_INT(ask(new, MR_PS_MANAGER_SERVICE "Join"), MR_OK);
    MR_CHECK_INT(wait_for(&live), MR_ABORTED);
    mr_net_loop()->disconnect(old);
    MR_CHECK_INT(ask(new, MR_PS_MANAGER_SERVICE "Report"), MR_OK); /* NOT_FOUND: it is not known */
    mr_net_loop()->disconnect(new);
    mr_ps_manager_close(m);
}
