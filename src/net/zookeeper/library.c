/* net/zookeeper/library.c -- the one symbol of libmillrace-zookeeper.so.
 *
 * The library has its own copy of base/, so its log is passed on to the host's. */
#include "net/zookeeper/zookeeper.h"

#include <zookeeper/zookeeper.h>

const mr_naming_library *mr_naming_library_get(const mr_naming_host *host) __attribute__((visibility("default")));

/* NULL: the host is of another build. The client would write to stderr, so its own log is switched off unless the
 * process used the client before; messages of a handle come to that handle's callback. */
const mr_naming_library *mr_naming_library_get(const mr_naming_host *host)
{
    static const mr_naming_library library = {.abi = MR_NAMING_LIBRARY_ABI, .open = mr_zookeeper_open};
    if (host->abi != MR_NAMING_LIBRARY_ABI)
        return NULL;
    mr_log_listen(host->log, NULL);
    if (!host->has_zookeeper)
        zoo_set_debug_level((ZooLogLevel)0);
    return &library;
}
