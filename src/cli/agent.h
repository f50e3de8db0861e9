/* cli/agent.h -- what `millrace launch` and `millrace agent`, its hand on another host, say to each other.
 *
 * The agent is started by ssh and reads records from its standard input: the program, its arguments, environment and files
 * (keys among them, so nothing secret stands on a command line), then GO.  While the program runs END asks it to end; so does
 * the end of the input, when ssh or the launcher is gone.  The agent writes what the program writes; a line of its
 * errors that begins with MR_AGENT_REPORT is a report (base/report.h), the first one "agent": it is there.  A record:
 *
 *     offset 0  1 byte   kind
 *            1  4 bytes  length of the rest, little-endian
 *            5           bytes */
#ifndef MR_CLI_AGENT_H
#define MR_CLI_AGENT_H

#include "base/str.h"

#define MR_AGENT_REPORT "\x1e"

typedef enum mr_agent_record {
    MR_AGENT_SELF = 's',   /* the program is the agent's own file; ARGs follow it */
    MR_AGENT_ARG = 'a',    /* the next of argv */
    MR_AGENT_ENV = 'e',    /* "NAME=value" */
    MR_AGENT_FILE = 'f',   /* name, NUL, bytes: into a private folder, MILLRACE_TLS_DIR to the program */
    MR_AGENT_FOLDER = 'd', /* to work in */
    MR_AGENT_GRACE = 'm',  /* milliseconds between asking and killing, as text */
    MR_AGENT_GO = 'g',
    MR_AGENT_END = 'q',
} mr_agent_record;

enum { MR_AGENT_MAX = 1 << 20 }; /* of all records up to GO */

void mr_agent_put(mr_str *out, mr_agent_record kind, mr_sv bytes);
/* Cuts the next record off *rest; false when it is not complete yet. */
bool mr_agent_take(mr_sv *rest, mr_agent_record *kind, mr_sv *bytes);

/* What records up to GO have told. */
typedef struct mr_agent_job {
    char **argv, **env; /* NULL at the end */
    int n_args, n_env;
    char *folder;       /* NULL: where the agent is */
    int64_t grace_ms;
    bool go;
} mr_agent_job;
/* keys: where files go to. */
mr_status *mr_agent_job_add(mr_agent_job *j, mr_agent_record kind, mr_sv bytes, const char *keys);
void mr_agent_job_deinit(mr_agent_job *j);

#endif
