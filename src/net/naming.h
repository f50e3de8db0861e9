/* net/naming.h -- where the tasks of a cluster are: each task registers, the others watch.
 *
 * A cluster whose addresses are not known beforehand has a naming service: each task registers its address under its
 * name ("ps/0"), and the entry disappears with its process; a task that wants to reach another watches its name.
 * ZooKeeper is one implementation (net/zookeeper/, in libmillrace-zookeeper.so, opened at its first use); tests have
 * their own.
 *
 * An entry is one line, `host:port incarnation`, the incarnation as 16 hexadecimal digits: another incarnation is
 * another process, even at the same address.  Anybody may have written it, so it is parsed strictly.  It says where a
 * task is, not that the process there is the task: keys prove that. */
#ifndef MR_NET_NAMING_H
#define MR_NET_NAMING_H

#include "base/log.h"
#include "base/str.h"

/* ---- an entry ---- */

enum { MR_NAMING_MAX_ADDRESS = 261, MR_NAMING_MAX_VALUE = 300 };

typedef struct mr_naming_entry {
    char address[MR_NAMING_MAX_ADDRESS + 1]; /* "host:port" */
    uint64_t incarnation;                    /* never 0 */
} mr_naming_entry;

/* INVALID_ARGUMENT if others cannot call the address, or it is too long. */
mr_status *mr_naming_entry_init(mr_naming_entry *e, const char *address, uint64_t incarnation);
void mr_naming_encode(const mr_naming_entry *e, mr_str *out);
/* False for anything but what encode writes. */
bool mr_naming_decode(mr_sv value, mr_naming_entry *out);

/* ---- where the service is ---- */

typedef struct mr_naming_spec { /* "host:port,host:port/path" taken apart */
    char *servers;              /* "host:port,host:port", the port 2181 where none was given */
    char *path;                 /* "/millrace" where none was given */
} mr_naming_spec;
mr_status *mr_naming_spec_parse(const char *text, mr_naming_spec *out);
void mr_naming_spec_deinit(mr_naming_spec *s);

/* ---- a service ---- */

typedef struct mr_naming mr_naming;

typedef struct mr_naming_options {
    const char *where;  /* the text of a mr_naming_spec */
    int64_t session_ms; /* an entry outlives its process by that long; 0: 4 seconds */
    /* The entry of a watched name, whenever it changes; value.p is NULL if there is none.  Called in the service's
     * thread, without its locks.  It must not wait for that thread, and must not keep the value. */
    void (*found)(void *arg, int task, mr_sv value);
    /* The service could not be reached for deadline_ms, and why; every tell_ms until it is reachable, then once with
     * NULL.  Called like found.  May be NULL. */
    void (*unreachable)(void *arg, const char *why);
    void *arg;
    int64_t tell_ms;     /* how often it is logged that the service cannot be reached; 0: 10 seconds */
    int64_t deadline_ms; /* 0: a minute */
} mr_naming_options;

struct mr_naming {
    /* Registers this process as the task of that name; it replaces an entry that exists.  Returns at once; a failure is
     * logged and tried again.  If another process registers under that name later, that one is the task.  Called at
     * most once. */
    void (*enter)(mr_naming *n, const char *name, const mr_naming_entry *e);
    /* found will be called for this name, with this number.  Returns at once. */
    void (*watch)(mr_naming *n, const char *name, int task);
    /* Removes the entry, and frees; found is not called any more.  Not from a callback. */
    void (*close)(mr_naming *n);
};

typedef mr_status *(*mr_naming_open_fn)(const mr_naming_options *o, mr_naming **out);

/* Never waits for the service: it may start later, stop, and start again; while it cannot be reached, that and the
 * reason are logged.  FAILED_PRECONDITION naming what to install if libmillrace-zookeeper.so (beside this library, or
 * MILLRACE_ZOOKEEPER_LIB) cannot be opened. */
mr_status *mr_naming_zookeeper(const mr_naming_options *o, mr_naming **out);

/* ---- what libmillrace-zookeeper.so and the rest of the library know of each other: as net/library.h ---- */

#define MR_NAMING_LIBRARY_ABI 2

typedef struct mr_naming_host {
    int abi;
    mr_log_fn log;
    bool has_zookeeper; /* the process uses ZooKeeper itself: its settings are not ours to change */
} mr_naming_host;

typedef struct mr_naming_library {
    int abi;
    mr_naming_open_fn open;
} mr_naming_library;

#define MR_NAMING_LIBRARY_SYMBOL "mr_naming_library_get"
typedef const mr_naming_library *(*mr_naming_library_fn)(const mr_naming_host *host);

#endif
