/* dist/cluster_test.c */
#include "dist/cluster.h"

#include "tests/harness/test.h"
#include "wire/pb.h"

MR_TEST(cluster_is_sorted_and_found)
{
    mr_cluster c = {0};
    MR_CHECK_OK(mr_cluster_add_list(&c, MR_SV("worker"), MR_SV("a:1, b:2,[::1]:3")));
    MR_CHECK_OK(mr_cluster_add_list(&c, MR_SV("ps"), MR_SV("c:4")));
    MR_CHECK_INT(c.tasks.n, 4);
    MR_CHECK_STR(c.tasks.p[0].name, "/job:ps/replica:0/task:0");
    MR_CHECK_STR(c.tasks.p[3].address, "[::1]:3");
    MR_CHECK_INT(mr_cluster_find(&c, MR_SV("worker"), 1), 2);
    MR_CHECK_INT(mr_cluster_find(&c, MR_SV("worker"), 3), -1);
    MR_CHECK_INT(mr_cluster_count(&c, MR_SV("worker")), 3);
    MR_CHECK_INT(mr_cluster_find_named(&c, MR_SV("/job:worker/replica:0/task:2/device:CPU:0")), 3);
    MR_CHECK_INT(mr_cluster_find_named(&c, MR_SV("/job:worker/replica:0/task:20")), -1);
    mr_cluster_deinit(&c);
}

MR_TEST(cluster_refuses_what_cannot_be)
{
    mr_cluster c = {0};
    MR_CHECK_ERR(mr_cluster_add(&c, MR_SV("9"), 0, MR_SV("a:1")), MR_INVALID_ARGUMENT, "not a job name");
    MR_CHECK_ERR(mr_cluster_add(&c, MR_SV("w"), -1, MR_SV("a:1")), MR_INVALID_ARGUMENT, "no task -1");
    static const char *const bad[] = {"", "a", "a:", ":1", "a:70000", "a b:1", "a:1x", "a:-1"};
    for (int i = 0; i < (int)(sizeof bad / sizeof *bad); i++)
        MR_CHECK_ERR(mr_cluster_add(&c, MR_SV("w"), 0, mr_sv_of(bad[i])), MR_INVALID_ARGUMENT, "host:port");
    MR_CHECK_OK(mr_cluster_add(&c, MR_SV("w"), 0, MR_SV("a:1")));
    MR_CHECK_ERR(mr_cluster_add(&c, MR_SV("w"), 0, MR_SV("a:2")), MR_INVALID_ARGUMENT, "twice");
    mr_cluster_deinit(&c);
}

MR_TEST(cluster_travels_as_a_server_def)
{
    mr_cluster c = {0};
    mr_str def = {0};
    mr_pb_writer w;
    MR_CHECK_OK(mr_cluster_add_list(&c, MR_SV("ps"), MR_SV("c:4,d:5")));
    mr_pb_writer_init(&w, &def);
    size_t mark = mr_pb_begin(&w, 1);
    mr_cluster_encode(&c, &def);
    mr_pb_end(&w, mark);
    mr_pb_put_bytes(&w, 2, MR_SV("ps"));
    mr_pb_put_varint(&w, 3, 1);
    mr_pb_put_bytes(&w, 5, MR_SV("grpc"));
    mr_server_def d;
    MR_CHECK_OK(mr_server_def_decode(mr_str_view(&def), &d));
    MR_CHECK_STR(d.job, "ps");
    MR_CHECK_INT(d.task, 1);
    MR_CHECK_STR(d.cluster.tasks.p[1].address, "d:5");
    mr_server_def_deinit(&d);
    mr_pb_put_varint(&w, 3, 2);
    MR_CHECK_ERR(mr_server_def_decode(mr_str_view(&def), &d), MR_INVALID_ARGUMENT, "not in the cluster");
    mr_str_deinit(&def);
    mr_cluster_deinit(&c);
}

MR_TEST(cluster_comes_from_tf_config)
{
    mr_server_def d, e;
    mr_str text = {0};
    MR_CHECK_OK(mr_server_def_from_json(
        MR_SV("{\"cluster\": {\"worker\": [\"b:1\", \"b:2\"], \"ps\": {\"3\": \"a:1\"}, \"chief\": []}, "
              "\"task\": {\"type\": \"worker\", \"index\": 1, \"trial\": null}, \"environment\": \"cloud\"}"),
        &d));
    MR_CHECK_INT(d.cluster.tasks.n, 3);
    MR_CHECK_STR(d.cluster.tasks.p[0].name, "/job:ps/replica:0/task:3");
    MR_CHECK(strcmp(d.job, "worker") == 0 && d.task == 1);
    mr_server_def_to_json(&d.cluster, d.job, d.task, &text);
    MR_CHECK_STR(mr_str_z(&text), "{\"cluster\": {\"ps\": {\"3\": \"a:1\"}, \"worker\": [\"b:1\", \"b:2\"]}, "
                                  "\"task\": {\"type\": \"worker\", \"index\": 1}}");
    MR_CHECK_OK(mr_server_def_from_json(mr_str_view(&text), &e));
    MR_CHECK_INT(e.cluster.tasks.n, 3);
    MR_CHECK_STR(e.cluster.tasks.p[2].address, "b:2");
    mr_server_def_deinit(&d);
    mr_server_def_deinit(&e);
    mr_str_deinit(&text);
    MR_CHECK_ERR(mr_server_def_from_json(MR_SV("{\"cluster\": {\"w\": [\"a:1\"]}, \"task\": {\"type\": \"w\", \"index\": 1}}"), &d),
                 MR_INVALID_ARGUMENT, "task 1 of job \"w\"");
    MR_CHECK_ERR(mr_server_def_from_json(MR_SV("{\"cluster\": {\"w\": [\"a\"]}}"), &d), MR_INVALID_ARGUMENT, "host:port");
    MR_CHECK_ERR(mr_server_def_from_json(MR_SV("{\"cluster\": 1}"), &d), MR_INVALID_ARGUMENT, "bad JSON");
}

MR_TEST(cluster_takes_a_task_whose_address_will_be_told)
{
    mr_cluster c = {0}, back = {0};
    mr_str bytes = {0};
    MR_CHECK_OK(mr_cluster_add_list(&c, MR_SV("ps"), MR_SV("zk,a:1")));
    MR_CHECK_STR(c.tasks.p[0].address, MR_ADDRESS_ASKED);
    mr_cluster_encode(&c, &bytes);
    MR_CHECK_OK(mr_cluster_decode(&back, mr_str_view(&bytes)));
    MR_CHECK_STR(back.tasks.p[0].address, MR_ADDRESS_ASKED);
    mr_str_deinit(&bytes);
    mr_cluster_deinit(&back);
    mr_cluster_deinit(&c);
}
