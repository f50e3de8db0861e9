/* capi/distbelief_test.c -- a Downpour replica whose model is partitioned over tasks of a cluster. */
#include "capi/training_fixture.h"
#include "distbelief/downpour.h"
#include "ps/client.h"
#include "tests/harness/test.h"

MR_TEST(downpour_replica_may_lie_on_several_tasks)
{
    training_fixture fixture;
    line_net l;
    mr_session *s;
    mr_ps *ps;
    float wb[2];
    training_fixture_begin(&fixture, 1, 1);
    line_begin(&l, 1, 0); /* its variables are on a ps task, the rest is on the worker */
    /* Gradients that are several steps late would let so long a step swing further and further. */
    mr_downpour_options o = {.struct_size = sizeof o, .update = MR_PS_SGD, .rate = 0.1f, .most_behind = 1};
    mr_downpour_replica *p = mr_downpour_replica_new(l.net, l.loss, &o);
    mr_node *init = mr_nn_initializer(l.net);
    MR_CHECK_OK(mr_status_copy(l.net->s.st));
    MR_CHECK_OK(training_fixture_open(&fixture, 0, l.graph, &s));
    MR_CHECK_OK(mr_session_run(s, &(mr_run_args){.targets = &init, .n_targets = 1}, NULL, NULL));
    MR_CHECK_OK(mr_ps_open(&(mr_ps_options){.struct_size = sizeof(mr_ps_options)}, &ps));
    MR_CHECK_OK(mr_downpour_replica_start(p, s, ps));
    for (int i = 0; i < 300; i++) {
        mr_tensor *values[2];
        line_batch(i * 16, 16, values);
        mr_run_args a = {.feeds = (const mr_out[]){l.x, l.y}, .feed_values = values, .n_feeds = 2};
        MR_CHECK_OK(mr_downpour_replica_train(p, &a, NULL));
        mr_tensor_unref(values[0]);
        mr_tensor_unref(values[1]);
    }
    MR_CHECK_OK(mr_downpour_replica_finish(p));
    MR_CHECK_OK(mr_downpour_replica_fetch(p));
    MR_CHECK_OK(line_run(&l, s, 0, 1, NULL, (const mr_out[]){l.w, l.b}, 2, wb));
    MR_CHECK_NEAR(wb[0], 2, 0.05);
    MR_CHECK_NEAR(wb[1], 1, 0.05);
    mr_downpour_replica_free(p);
    mr_ps_close(ps);
    mr_session_free(s);
    line_end(&l);
    training_fixture_end(&fixture);
}
