/* group/transport_conformance_test.h -- what every transport must do, as one member's part of a test. */
#ifndef MR_GROUP_TRANSPORT_CONFORMANCE_TEST_H
#define MR_GROUP_TRANSPORT_CONFORMANCE_TEST_H

#include "group/group.h"

/* Runs all operations in many sizes over a transport; all members call it together. */
void conformance_run(mr_transport *t);
/* A number of members as threads of this process, each with its transport (taken over). */
void conformance_threads(mr_transport **transports, int size, void (*member)(mr_transport *t));

#endif
