/* ops/math/equal.cl -- classes are compared as int64. */
EACH_PAIR(equal_int64, long, uchar, x == y ? 1 : 0)
