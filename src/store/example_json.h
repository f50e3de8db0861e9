/* store/example_json.h -- converts an Example from JSON to its serialized form. */
#ifndef MR_STORE_EXAMPLE_JSON_H
#define MR_STORE_EXAMPLE_JSON_H

#include "base/str.h"

/* Appends the message. Field names may be floatList or float_list; int64 values may be numbers or strings; bytes are
 * base64 of either alphabet; null counts as absent. INVALID_ARGUMENT on malformed input. */
mr_status *mr_example_from_json(mr_sv json, mr_str *out);

#endif
