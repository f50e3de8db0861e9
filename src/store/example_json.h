/* store/example_json.h -- an Example written as JSON, as its bytes. */
#ifndef MR_STORE_EXAMPLE_JSON_H
#define MR_STORE_EXAMPLE_JSON_H

#include "base/str.h"

/* Appends the message.  Names of fields may be floatList or float_list, int64 values numbers or strings,
 * bytes are base64 of either alphabet, null is nothing.  INVALID_ARGUMENT. */
mr_status *mr_example_from_json(mr_sv json, mr_str *out);

#endif
