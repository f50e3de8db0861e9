/* base/nearest.c -- finds the known word that a person probably meant. */
#include "base/nearest.h"

#include <string.h>

#include "base/memory.h"

enum { LONGEST = 60 }; /* longer words are not compared */

/* Row by row over the letters of a; only the last two rows are needed for the swap of two
 * neighbours. */
static int edit_distance(mr_sv a, mr_sv b)
{
    int rows[3][LONGEST + 1], *before = rows[0], *last = rows[1], *row = rows[2];
    for (int k = 0; k <= (int)b.n; k++)
        last[k] = k;
    for (int i = 1; i <= (int)a.n; i++) {
        row[0] = i;
        for (int k = 1; k <= (int)b.n; k++) {
            bool same = a.p[i - 1] == b.p[k - 1];
            row[k] = MR_MIN(MR_MIN(row[k - 1], last[k]) + 1, last[k - 1] + !same);
            if (i > 1 && k > 1 && a.p[i - 1] == b.p[k - 2] && a.p[i - 2] == b.p[k - 1])
                row[k] = MR_MIN(row[k], before[k - 2] + 1);
        }
        int *free_row = before;
        before = last;
        last = row;
        row = free_row;
    }
    return last[b.n];
}

const char *mr_nearest(mr_sv written, const char *const *words, int n)
{
    const char *best = NULL;
    int least = 0;
    for (int i = 0; i < n && written.n <= LONGEST; i++) {
        mr_sv word = mr_sv_of(words[i]);
        int d = word.n <= LONGEST ? edit_distance(written, word) : LONGEST;
        if (3 * d <= (int)MR_MAX(word.n, written.n) && (!best || d < least)) {
            best = words[i];
            least = d;
        }
    }
    return best;
}
