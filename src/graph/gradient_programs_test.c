/* graph/gradient_programs_test.c -- gradients of random programs against finite differences.  A
 * failing program's number is printed. */
#include "graph/gradient_trial_test.h"
#include "graph/random_program_test.h"

static void run_program(uint64_t seed, bool vectors, bool lazy)
{
    mr_gtrial t;
    mr_gtrial_init(&t, MR_RANDOM_PROGRAM_INPUTS);
    t.program = (int)seed;
    t.b.lazy = lazy;
    for (int i = 0; vectors && i < t.n_x; i++)
        mr_gtrial_vector(&t, i, 2, false);
    mr_gtrial_check(&t, mr_random_program(&t.b, t.x, seed, vectors, false));
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_of_random_programs)
{
    mr_test_deadline(120);
    uint64_t first = mr_test_random() % 100000;
    for (uint64_t seed = first; seed < first + 60; seed++)
        run_program(seed, false, false);
}

MR_TEST(gradients_of_random_programs_with_unknown_shapes)
{
    mr_test_deadline(120);
    uint64_t first = mr_test_random() % 100000;
    for (uint64_t seed = first; seed < first + 40; seed++)
        run_program(seed, true, false);
}

MR_TEST(gradients_of_random_programs_that_save_switches)
{
    mr_test_deadline(120);
    uint64_t first = mr_test_random() % 100000;
    for (uint64_t seed = first; seed < first + 40; seed++)
        run_program(seed, seed % 2, true);
}
