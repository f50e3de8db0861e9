/* cli/launch_plan_test.c */
#include "cli/launch_plan.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "tests/harness/test.h"

static const char *const schedulers[] = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMI_RANK",
                                         "PMI_SIZE", "SLURM_PROCID", "SLURM_STEP_ID", "SLURM_JOB_ID", "TF_CONFIG"};

static mr_launch_plan_args asked(int64_t ps, int64_t workers)
{
    for (int i = 0; i < MR_COUNT(schedulers); i++)
        unsetenv(schedulers[i]);
    return (mr_launch_plan_args){.cluster = MR_CLUSTER_ARGS, .n_ps = ps, .n_workers = workers};
}

/* "ps/0 a:1 by a, worker/0 b:2": each task, its address, and the host of ssh. */
static const char *told(const mr_launch_plan *p)
{
    static char text[2048];
    text[0] = 0;
    for (int i = 0; i < p->cluster.tasks.n; i++) {
        const mr_task_address *t = &p->cluster.tasks.p[i];
        const char *host = p->hosts ? p->hosts[i] : NULL;
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s/%d %s%s%s", i ? ", " : "", t->job, t->number, t->address,
                 host ? " by " : "", host ? host : "");
    }
    return text;
}

static void check(const mr_launch_plan_args *a, int only, const char *expected)
{
    mr_launch_plan p;
    MR_CHECK_OK(mr_launch_plan_make(a, &p));
    MR_CHECK_STR(told(&p), expected);
    MR_CHECK_INT(p.only, only);
    mr_launch_plan_deinit(&p);
}

MR_TEST(plan_of_one_machine_has_free_ports_or_those_asked_for)
{
    mr_launch_plan_args a = asked(1, 2);
    mr_launch_plan p;
    MR_CHECK_OK(mr_launch_plan_make(&a, &p));
    MR_CHECK_INT(p.cluster.tasks.n, 3);
    MR_CHECK(strcmp(p.cluster.tasks.p[0].address, p.cluster.tasks.p[1].address) != 0);
    MR_CHECK(!mr_launch_plan_is_chief(&p, 0) && mr_launch_plan_is_chief(&p, 1) && !mr_launch_plan_is_chief(&p, 2));
    mr_launch_plan_deinit(&p);
    a.port = 5000;
    check(&a, -1, "ps/0 127.0.0.1:5000, worker/0 127.0.0.1:5001, worker/1 127.0.0.1:5002");
}

MR_TEST(plan_deals_ps_and_workers_out_to_hosts_in_turn)
{
    mr_launch_plan_args a = asked(2, 4);
    a.hosts = "a,me@b:2";
    check(&a, -1,
          "ps/0 a:2222 by a, ps/1 b:2223 by me@b, worker/0 b:2224 by me@b, worker/1 a:2225 by a, worker/2 b:2226 by "
          "me@b, "
          "worker/3 b:2227 by me@b");
}

MR_TEST(plan_leaves_no_host_idle_while_another_has_two_tasks)
{
    mr_launch_plan_args a = asked(1, 2);
    a.hosts = "a,b,c";
    check(&a, -1, "ps/0 a:2222 by a, worker/0 b:2223 by b, worker/1 c:2224 by c");
    a = asked(1, 3);
    a.hosts = "a,b,c";
    check(&a, -1, "ps/0 a:2222 by a, worker/0 b:2223 by b, worker/1 c:2224 by c, worker/2 a:2225 by a");
}

/* The address of the first task of a Slurm job, to be freed. */
static char *slurm_address(const char *job, const char *step, const char *size)
{
    mr_launch_plan_args a = asked(1, MR_NOT_GIVEN);
    mr_launch_plan p;
    setenv("SLURM_PROCID", "0", 1);
    setenv("SLURM_LOCALID", "0", 1);
    setenv("SLURM_NTASKS", size, 1);
    setenv("SLURM_JOB_NODELIST", "node7", 1);
    setenv("SLURM_TASKS_PER_NODE", size, 1);
    setenv("SLURM_JOB_ID", job, 1);
    setenv("SLURM_STEP_ID", step, 1);
    MR_CHECK_OK(mr_launch_plan_make(&a, &p));
    char *address = mr_strdup(p.cluster.tasks.p[0].address);
    mr_launch_plan_deinit(&p);
    return address;
}

MR_TEST(plan_of_slurm_jobs_on_the_same_nodes_has_other_ports)
{
    char *first = slurm_address("1000", "0", "4"), *same = slurm_address("1000", "0", "4"),
         *next = slurm_address("1001", "0", "4"), *step = slurm_address("1000", "1", "4");
    MR_CHECK_STR(first, same);
    MR_CHECK(strcmp(first, next) != 0 && strcmp(first, step) != 0 && strcmp(next, step) != 0);
    int64_t a = atoi(strrchr(first, ':') + 1), b = atoi(strrchr(next, ':') + 1);
    MR_CHECK(a >= 12288 && b >= 12288 && a + 8 <= 32768 && b + 8 <= 32768);
    MR_CHECK(a + 8 <= b || b + 8 <= a); /* four tasks and four launchers each */
    mr_free(first);
    mr_free(same);
    mr_free(next);
    mr_free(step);
}

MR_TEST(plan_tries_other_ports_on_other_hosts_after_one_was_taken)
{
    mr_launch_plan_args a = asked(0, 1);
    mr_launch_plan p;
    a.hosts = "a";
    a.retries = 1;
    MR_CHECK_OK(mr_launch_plan_make(&a, &p));
    MR_CHECK(p.chose_ports && strcmp(p.cluster.tasks.p[0].address, "a:2222") != 0);
    mr_launch_plan_deinit(&p);
    a.port = 5000;
    MR_CHECK_OK(mr_launch_plan_make(&a, &p));
    MR_CHECK(!p.chose_ports);
    mr_launch_plan_deinit(&p);
}

MR_TEST(plan_needs_no_ssh_for_this_machine)
{
    mr_launch_plan_args a = asked(0, 1);
    a.hosts = "localhost";
    check(&a, -1, "worker/0 localhost:2222");
}

MR_TEST(plan_of_a_rank_is_one_task_and_knows_its_launchers)
{
    mr_launch_plan_args a = asked(1, MR_NOT_GIVEN);
    mr_launch_plan p;
    setenv("OMPI_COMM_WORLD_RANK", "2", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "3", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "3", 1);
    check(&a, 2, "ps/0 127.0.0.1:2222, worker/0 127.0.0.1:2223, worker/1 127.0.0.1:2224");
    MR_CHECK_OK(mr_launch_plan_make(&a, &p));
    MR_CHECK_STR(p.launchers[2], "127.0.0.1:2227");
    MR_CHECK_STR(p.scheduler, "Open MPI");
    mr_launch_plan_deinit(&p);
    a.local = true;
    a.n_workers = 1;
    a.port = 7000;
    check(&a, -1, "ps/0 127.0.0.1:7000, worker/0 127.0.0.1:7001");
}

MR_TEST(plan_of_a_given_cluster_goes_to_the_hosts_of_its_addresses)
{
    mr_launch_plan_args a = asked(MR_NOT_GIVEN, MR_NOT_GIVEN);
    a.cluster.cluster = "{\"cluster\": {\"chief\": [\"c:1\"], \"worker\": [\"127.0.0.1:2\", \"d:3\"]}}";
    check(&a, -1, "chief/0 c:1 by c, worker/0 127.0.0.1:2, worker/1 d:3 by d");
    a.cluster.job = "worker";
    a.cluster.task = 1;
    check(&a, 2, "chief/0 c:1, worker/0 127.0.0.1:2, worker/1 d:3");
}

MR_TEST(plan_prefers_what_was_asked_for_to_tf_config)
{
    mr_launch_plan_args a = asked(MR_NOT_GIVEN, MR_NOT_GIVEN);
    setenv("TF_CONFIG", "{\"cluster\": {\"worker\": [\"127.0.0.1:9\"]}, \"task\": {\"type\": \"worker\", \"index\": 0}}", 1);
    check(&a, 0, "worker/0 127.0.0.1:9");
    a.n_ps = 0;
    a.port = 6000;
    check(&a, -1, "worker/0 127.0.0.1:6000");
}

MR_TEST(plan_chief_is_the_job_of_that_name)
{
    mr_launch_plan_args a = asked(MR_NOT_GIVEN, MR_NOT_GIVEN);
    mr_launch_plan p;
    a.cluster.cluster = "{\"cluster\": {\"chief\": [\"c:1\"], \"worker\": [\"d:2\"]}}";
    MR_CHECK_OK(mr_launch_plan_make(&a, &p));
    MR_CHECK(mr_launch_plan_is_chief(&p, 0) && !mr_launch_plan_is_chief(&p, 1));
    mr_launch_plan_deinit(&p);
}

MR_TEST(plan_with_a_zookeeper_leaves_ports_open_unless_one_is_asked_for)
{
    mr_launch_plan_args a = asked(1, 1);
    a.cluster.zookeeper = a.zookeeper = "zoo:1";
    check(&a, -1, "ps/0 127.0.0.1:0, worker/0 127.0.0.1:0");
    a.hosts = "a,b";
    check(&a, -1, "ps/0 a:0 by a, worker/0 b:0 by b");
    a.port = 5000;
    check(&a, -1, "ps/0 a:5000 by a, worker/0 b:5001 by b");
}

MR_TEST(plan_of_one_task_among_as_many_needs_no_addresses_with_a_zookeeper)
{
    mr_launch_plan_args a = asked(1, 2);
    mr_launch_plan p;
    a.cluster.job = "worker";
    a.cluster.task = 1;
    MR_CHECK_ERR(mr_launch_plan_make(&a, &p), MR_INVALID_ARGUMENT, "--job worker needs a cluster");
    a.cluster.zookeeper = a.zookeeper = "zoo:1";
    check(&a, 2, "ps/0 zk:0, worker/0 zk:0, worker/1 zk:0");
    a.cluster.task = 2;
    MR_CHECK_ERR(mr_launch_plan_make(&a, &p), MR_INVALID_ARGUMENT, "there is no task 2 of job 'worker'");
}

MR_TEST(plan_of_a_given_cluster_starts_tasks_without_an_address_here)
{
    mr_launch_plan_args a = asked(MR_NOT_GIVEN, MR_NOT_GIVEN);
    a.cluster.zookeeper = a.zookeeper = "zoo:1";
    a.cluster.cluster = "{\"cluster\": {\"ps\": [\"zk\"], \"worker\": [\"b:0\"]}}";
    check(&a, -1, "ps/0 zk:0, worker/0 b:0 by b");
}
