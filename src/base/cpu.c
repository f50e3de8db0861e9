/* base/cpu.c -- how many cores this process may use.
 *
 * A container sees all cores of its host in the affinity mask but may have the time of only a few:
 * the cgroup's CPU quota. /proc/self/cgroup names our group; a limit may be set at any level above
 * it. Inside a container the named path is often the host's and does not exist below the mounted
 * root, so missing files are skipped and the search ends at the root, where the limit then is.
 *
 *     v2   0::/a/b                  ROOT/a/b/cpu.max              "max 100000" or "150000 100000"
 *     v1   4:cpu,cpuacct:/a/b       ROOT/cpu/a/b/cpu.cfs_quota_us      -1 or 150000
 *                                   ROOT/cpu/a/b/cpu.cfs_period_us     100000 */
#include <sched.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/thread.h"

#define NO_LIMIT INT32_MAX

/* Whole cores for a quota of time in each period, rounded up: half a core needs a thread too. */
static int cores_of(int64_t quota, int64_t period)
{
    if (quota <= 0 || period <= 0)
        return NO_LIMIT;
    int64_t cores = quota / period + (quota % period != 0);
    return (int)MR_MIN(cores, NO_LIMIT);
}

/* The file's text in *out; false when it cannot be read. */
static bool read_small(const char *path, mr_str *out)
{
    mr_str_clear(out);
    mr_status *st = mr_file_read_all(path, out);
    bool ok = st == NULL;
    mr_status_free(st);
    return ok;
}

static int limit_v2(const char *dir, mr_str *text)
{
    char *path = mr_printf("%s/cpu.max", dir);
    int64_t quota = 0, period = 0;
    mr_sv word, rest = {NULL, 0};
    if (read_small(path, text))
        rest = mr_sv_trim(mr_str_view(text));
    mr_free(path);
    if (!mr_sv_cut(&rest, ' ', &word) || !mr_sv_to_i64(word, &quota) ||
        !mr_sv_to_i64(rest, &period))
        return NO_LIMIT; /* "max", or no such file */
    return cores_of(quota, period);
}

static int64_t read_i64(const char *dir, const char *name, mr_str *text)
{
    char *path = mr_printf("%s/%s", dir, name);
    int64_t value = 0;
    if (!read_small(path, text) || !mr_sv_to_i64(mr_sv_trim(mr_str_view(text)), &value))
        value = 0;
    mr_free(path);
    return value;
}

static int limit_v1(const char *dir, mr_str *text)
{
    return cores_of(read_i64(dir, "cpu.cfs_quota_us", text),
                    read_i64(dir, "cpu.cfs_period_us", text));
}

/* The smallest limit of a group and all above it. */
static int limit_upwards(const char *root, mr_sv group, int (*limit)(const char *, mr_str *))
{
    mr_str text = {0};
    int least = NO_LIMIT;
    for (;;) {
        char *dir = mr_printf("%s%.*s", root, MR_SV_ARG(group));
        int here = limit(dir, &text);
        least = MR_MIN(least, here);
        mr_free(dir);
        if (group.n == 0)
            break;
        while (group.n && group.p[--group.n] != '/')
            ;
    }
    mr_str_deinit(&text);
    return least;
}

static bool lists_cpu(mr_sv controllers)
{
    mr_sv one;
    while (mr_sv_cut(&controllers, ',', &one))
        if (mr_sv_is(one, "cpu"))
            return true;
    return false;
}

/* The smallest limit over all levels of all lines of /proc/self/cgroup: an empty list of controllers means v2. */
int mr_cpu_quota(const char *cgroup_root, const char *self_cgroup)
{
    mr_str text = {0};
    int least = NO_LIMIT;
    char *v1_root = mr_printf("%s/cpu", cgroup_root);
    mr_sv lines = {NULL, 0}, line, id, controllers;
    if (read_small(self_cgroup, &text))
        lines = mr_str_view(&text);
    while (mr_sv_cut(&lines, '\n', &line)) {
        if (!mr_sv_cut(&line, ':', &id) || !mr_sv_cut(&line, ':', &controllers) || !line.p)
            continue;
        int here = NO_LIMIT;
        if (controllers.n == 0)
            here = limit_upwards(cgroup_root, line, limit_v2);
        else if (lists_cpu(controllers))
            here = limit_upwards(v1_root, line, limit_v1);
        least = MR_MIN(least, here);
    }
    mr_free(v1_root);
    mr_str_deinit(&text);
    return least;
}

static int affinity_count(void)
{
    /* The kernel refuses a set that is too small for its cores. */
    for (int n_cpus = 1024; n_cpus <= 1 << 20; n_cpus *= 4) {
        cpu_set_t *set = CPU_ALLOC(n_cpus);
        size_t bytes = CPU_ALLOC_SIZE(n_cpus);
        int count = set && sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (count > 0)
            return count;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

int mr_cpu_count(void)
{
    int allowed = affinity_count(), quota = mr_cpu_quota("/sys/fs/cgroup", "/proc/self/cgroup");
    return MR_MIN(allowed, quota);
}
