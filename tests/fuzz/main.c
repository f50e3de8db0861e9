/* tests/fuzz/main.c -- the command line of the fuzzers.
 *
 *     fuzz all                                 everything, as much as `make fuzz` promises
 *     fuzz all --percent 1                     a hundredth of it, with the same seeds: `make fuzz-quick`
 *     fuzz ops graph --runs 5000 --seed 7      some targets
 *     fuzz graph --seed 7 --only 1234          one run again, alone
 *     fuzz graph --input build/fuzz/x.input    an input that was saved */
#include <stdlib.h>
#include <unistd.h>

#include "base/memory.h"
#include "tests/fuzz/fuzz.h"

static const fuzz_target *const targets[] = {&fuzz_ops,   &fuzz_graph, &fuzz_bundle, &fuzz_text,
                                             &fuzz_proto, &fuzz_net,   &fuzz_spec,   &fuzz_cluster,
                                             &fuzz_naming, &fuzz_plan, &fuzz_costs,  &fuzz_devices,
                                             &fuzz_trace, &fuzz_regex,
                                             &fuzz_record, &fuzz_events, &fuzz_example,
                                             &fuzz_checkpoint_v1, &fuzz_csv, &fuzz_proto_pool,
                                             &fuzz_saved_model, &fuzz_ps_codec, &fuzz_ps, &fuzz_federated,
                                             &fuzz_jpeg,  &fuzz_png,   &fuzz_gif,    &fuzz_bmp,
                                             &fuzz_wav, &fuzz_lmdb, &fuzz_group, &fuzz_distbelief,
                                             &fuzz_board};

typedef struct settings {
    fuzz_options o;
    double percent;
    bool wanted[MR_COUNT(targets)];
} settings;

static int help(void)
{
    puts("fuzz TARGET... [option value]...      TARGET: all, or of");
    for (int i = 0; i < MR_COUNT(targets); i++)
        printf("    %-8s %s\n", targets[i]->name, targets[i]->about);
    puts("options:\n"
         "    --runs N       how many (default: what `make fuzz` does)\n"
         "    --percent P    of that\n"
         "    --seed S       of the random numbers (default 1)\n"
         "    --seconds T    at most, each target\n"
         "    --jobs J       processes (default: one a core)\n"
         "    --deadline T   seconds one run may take (default 20)\n"
         "    --only N       run N alone, telling what it does\n"
         "    --input FILE   an input saved in build/fuzz\n"
         "    --first        stop at the first failure\n"
         "    --no-fork      in this process, for a debugger (with --only or --input)\n"
         "MILLRACE_GOLDEN: folder of golden files to start from (default: ../shared/golden, or else tests/golden)");
    return 2;
}

/* An option with a value; false if the option is unknown. */
static bool set_value(settings *s, const char *name, const char *value)
{
    fuzz_options *o = &s->o;
    if (strcmp(name, "--runs") == 0)
        o->runs = strtoll(value, NULL, 10);
    else if (strcmp(name, "--percent") == 0)
        s->percent = strtod(value, NULL);
    else if (strcmp(name, "--seed") == 0)
        o->seed = strtoull(value, NULL, 0);
    else if (strcmp(name, "--seconds") == 0)
        o->seconds = strtod(value, NULL);
    else if (strcmp(name, "--jobs") == 0)
        o->jobs = atoi(value);
    else if (strcmp(name, "--deadline") == 0)
        o->deadline_s = atoi(value);
    else if (strcmp(name, "--only") == 0)
        o->only = strtoll(value, NULL, 10);
    else if (strcmp(name, "--input") == 0)
        o->input = realpath(value, NULL); /* children change their folder */
    else
        return false;
    return true;
}

static bool set_word(settings *s, const char *word)
{
    bool known = false;
    if (strcmp(word, "--first") == 0)
        return s->o.first = true;
    if (strcmp(word, "--no-fork") == 0)
        return s->o.no_fork = true;
    for (int i = 0; i < MR_COUNT(targets); i++)
        if (strcmp(word, "all") == 0 || strcmp(word, targets[i]->name) == 0)
            known = s->wanted[i] = true;
    return known;
}

static bool parse(int argc, char **argv, settings *s)
{
    bool any = false;
    for (int i = 1; i < argc; i++) {
        if (i + 1 < argc && set_value(s, argv[i], argv[i + 1]))
            i++;
        else if (!set_word(s, argv[i]))
            return false;
    }
    for (int i = 0; i < MR_COUNT(targets); i++)
        any |= s->wanted[i];
    return any;
}

static bool run_target(const fuzz_target *t, const settings *s)
{
    fuzz_options o = s->o;
    fuzz_result r;
    if (t->prepare)
        t->prepare();
    if (o.runs <= 0)
        o.runs = (int64_t)((double)t->n_runs() * s->percent / 100);
    o.runs = MR_MAX(o.runs, 1);
    if (o.input && !t->replay) {
        fprintf(stderr, "fuzz: %s does not read inputs; use --only\n", t->name);
        return false;
    }
    if ((o.only >= 0 || o.input))
        o.jobs = 1;
    fuzz_drive(t, &o, &r);
    return r.ok;
}

int main(int argc, char **argv)
{
    static settings s; /* its strings are not leaks of the library */
    s.o = (fuzz_options){
        .seed = 1, .only = -1, .jobs = (int)sysconf(_SC_NPROCESSORS_ONLN), .deadline_s = 20};
    s.percent = 100;
    bool ok = true;
    if (!parse(argc, argv, &s))
        return help();
    for (int i = 0; i < MR_COUNT(targets); i++)
        if (s.wanted[i])
            ok &= run_target(targets[i], &s);
    return !ok;
}
