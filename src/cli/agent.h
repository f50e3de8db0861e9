/* cli/agent.h -- the protocol between `millrace launch` and `millrace agent`, which runs a task for it on another host.
 *
 * ssh starts the agent, which reads records from its standard input: the program, its arguments, environment and files
 * (keys among them, so no secret is on a command line), then GO. While the program runs, END asks it to end; the end of
 * the input, when ssh or the launcher has ended, kills it. The agent passes the output of the program on. A line on its
 * standard error that begins with MR_AGENT_REPORT is a report (base/report.h); the first one is "agent" and says that
 * the agent runs. A record:
 *
 *     offset 0  1 byte   kind
 *            1  4 bytes  length of the rest, little-endian
 *            5           bytes */
#ifndef MR_CLI_AGENT_H
#define MR_CLI_AGENT_H

#include "base/str.h"

#define MR_AGENT_REPORT "\x1e"

typedef enum mr_agent_record {
    MR_AGENT_SELF = 's',   /* the next of argv is the path of the agent's own program */
    MR_AGENT_ARG = 'a',    /* the next of argv */
    MR_AGENT_ENV = 'e',    /* "NAME=value" */
    MR_AGENT_FILE = 'f',   /* name, NUL, bytes: written to a private folder, the MILLRACE_TLS_DIR of the program */
    MR_AGENT_FOLDER = 'd', /* working directory */
    MR_AGENT_GRACE = 'm',  /* milliseconds between asking the program to end and killing it, as text */
    MR_AGENT_GO = 'g',
    MR_AGENT_END = 'q',
} mr_agent_record;

enum { MR_AGENT_MAX = 1 << 20 }; /* of all records up to GO */

void mr_agent_put(mr_str *out, mr_agent_record kind, mr_sv bytes);
/* Cuts the next record off *rest; false when it is not complete yet. */
bool mr_agent_take(mr_sv *rest, mr_agent_record *kind, mr_sv *bytes);

/* The contents of the records up to GO. */
typedef struct mr_agent_job {
    char **argv, **env; /* end with NULL */
    int n_args, n_env;
    char *folder;       /* NULL: the working directory of the agent */
    int64_t grace_ms;
    bool go;
} mr_agent_job;
/* Adds a record to the job. Files are written to the folder `keys`. */
mr_status *mr_agent_job_add(mr_agent_job *j, mr_agent_record kind, mr_sv bytes, const char *keys);
void mr_agent_job_deinit(mr_agent_job *j);

#endif
