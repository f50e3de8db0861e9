/* wire/number.h -- floating point numbers as text, independent of the locale of the host. */
#ifndef MR_WIRE_NUMBER_H
#define MR_WIRE_NUMBER_H

#include "base/str.h"

#define MR_NUMBER_BYTES 32 /* room for any number these write, with its NUL */

/* The number with 6 (double: 15) digits if that reads back as the same value, else with 9 (17), as
 * C++ protobuf prints them; "inf", "-inf", "nan".  Return the length. */
int mr_float_text(float v, char out[MR_NUMBER_BYTES]);
int mr_double_text(double v, char out[MR_NUMBER_BYTES]);

/* The whole view is a number as strtod takes it; false when it is not. */
bool mr_text_to_double(mr_sv text, double *out);

#endif
