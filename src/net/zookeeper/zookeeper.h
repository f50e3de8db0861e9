/* net/zookeeper/zookeeper.h -- naming through ZooKeeper, for libmillrace-zookeeper.so only, which links the client.
 *
 * A task is an ephemeral node PATH/JOB/NUMBER with the entry of net/naming.h.  The nodes above it are containers, which
 * the server removes when they are empty. */
#ifndef MR_NET_ZOOKEEPER_H
#define MR_NET_ZOOKEEPER_H

#include "net/naming.h"

mr_status *mr_zookeeper_open(const mr_naming_options *o, mr_naming **out);

#endif
