/* graph/gradient_programs_test.c -- gradients of random programs against finite differences.  A
 * failing program's number is printed. */
#include "graph/gradient_fixture.h"
#include "graph/random_program_fixture.h"

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

/* ---- damaged programs ---- */
static uint64_t random_state;

static int pick(int n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int)((random_state >> 33) % (uint64_t)n);
}

static void damage(mr_graph *g)
{
    mr_node *n = g->nodes.p[pick(g->nodes.n)], *src = g->nodes.p[pick(g->nodes.n)];
    if (pick(4) == 0)
        mr_node_add_control(n, src);
    else if (n->n_in > 0 && src->n_out > 0) /* refused when the types differ */
        mr_status_free(mr_node_set_input(n, pick(n->n_in), (mr_out){src, pick(src->n_out)}));
}

/* Whatever is asked of whatever graph, an answer or an error comes back. */
MR_TEST(gradients_of_damaged_programs_do_no_harm)
{
    mr_test_deadline(120);
    random_state = mr_test_random();
    for (int round = 0; round < 150; round++) {
        mr_gtrial t;
        mr_gradient dx[MR_RANDOM_PROGRAM_INPUTS];
        mr_gtrial_init(&t, MR_RANDOM_PROGRAM_INPUTS);
        mr_out y = mr_random_program(&t.b, t.x, (uint64_t)pick(100000), false, false);
        for (int i = pick(6); i >= 0; i--)
            damage(t.g);
        mr_status_free(mr_graph_gradients(t.g, &y, 1, t.x, t.n_x, NULL, dx));
        mr_out any = {t.g->nodes.p[pick(t.g->nodes.n)], 0};
        if (any.node->n_out > 0)
            mr_status_free(mr_graph_gradients(t.g, &any, 1, t.x, t.n_x, NULL, dx));
        mr_gtrial_deinit(&t);
    }
}
