/* ops/math/select.cl -- one of two, and powers. */
kernel void select_walk(const long n, P(float, o), P(uchar, c), P(float, a), P(float, b), DIMS, STEPS(s), STEPS(t), STEPS(u))
{
    const long i = get_global_id(0);
    if (i < n)
        AT(float, o)[i] = AT(uchar, c)[WALK(i, s)] ? AT(float, a)[WALK(i, t)] : AT(float, b)[WALK(i, u)];
}
EACH_2(power, pow(x, y))
