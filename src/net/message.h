/* net/message.h -- how errors travel, the same over every transport. */
#ifndef MR_NET_MESSAGE_H
#define MR_NET_MESSAGE_H

#include "base/str.h"

/* The text of a status as it is sent: beyond 3072 bytes it is cut and marked, as TensorFlow does. */
mr_sv mr_net_message(const mr_status *st, mr_str *memory);
/* The received error; an unknown code becomes UNKNOWN, MR_OK becomes NULL. */
mr_status *mr_net_status(int64_t code, mr_sv message);

#endif
