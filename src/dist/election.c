/* dist/election.c -- which worker becomes chief, and when.
 *
 * Time counts only while we look. While the parameter server could not be reached, the chief could
 * not raise its count there either, and the first look after that says nothing about it. */
#include "dist/election.h"

#include "base/memory.h"
#include "base/status.h"

enum { LOOKS = 4, MAX_RANK = 16 }; /* looks in each patience, at least */

void mr_election_init(mr_election *e, int me, int64_t patience_ns, int64_t now_ns)
{
    MR_ASSERT(me >= 0 && patience_ns > 0);
    *e = (mr_election){.me = me, .patience_ns = patience_ns, .last_ns = now_ns, .now = {-1, -1}, .tried = {-1, -1}};
}

static bool is_same(mr_chief_record a, mr_chief_record b) { return a.worker == b.worker && a.count == b.count; }

/* Lower workers wait less, so they come first; one that comes too late finds another count. */
static bool has_waited(const mr_election *e)
{
    return e->listened_ns - e->since_ns > e->patience_ns + MR_MIN(e->me, MAX_RANK) * (e->patience_ns / LOOKS);
}

/* A record without a chief is for worker 0, for the worker that was chief, and after patience for
 * any. */
static bool wants_record(const mr_election *e)
{
    if (!e->looked)
        return false;
    if (e->now.worker < 0)
        return e->me == 0 || e->was_chief || has_waited(e);
    return e->me <= e->now.worker || has_waited(e);
}

/* The chief raises its count with every call; another worker writes the record only if it wants to become chief. */
bool mr_election_next(mr_election *e, mr_chief_record *expect, mr_chief_record *want)
{
    bool go = e->chief || wants_record(e);
    *expect = e->now;
    *want = (mr_chief_record){e->me, e->now.count + 1};
    e->tried = go ? *want : (mr_chief_record){-1, -1};
    return go;
}

/* We are chief exactly if the record is what we last wrote. */
bool mr_election_saw(mr_election *e, mr_chief_record r, int64_t now_ns)
{
    int64_t gap_ns = MR_MAX(0, now_ns - e->last_ns);
    MR_ASSERT(e->since_ns <= e->listened_ns);
    e->last_ns = now_ns;
    e->listened_ns += MR_MIN(gap_ns, e->patience_ns / LOOKS);
    if (!e->looked || !is_same(r, e->now))
        e->since_ns = e->listened_ns;
    e->looked = true;
    e->now = r;
    e->was_chief = (e->chief || e->was_chief) && r.worker < 0; /* another worker's record ends the claim */
    e->chief = e->tried.worker >= 0 && is_same(r, e->tried);
    return !e->chief && wants_record(e);
}
