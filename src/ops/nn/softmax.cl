/* ops/nn/softmax.cl -- softmax and its losses: one group of items per row. */
float group_sum(local float *part, float v)
{
    const int me = get_local_id(0);
    barrier(CLK_LOCAL_MEM_FENCE); /* all items have read the previous result */
    part[me] = v;
    for (int half_ = GROUP / 2; half_ > 0; half_ /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (me < half_)
            part[me] += part[me + half_];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return part[0];
}

float group_max(local float *part, float v)
{
    const int me = get_local_id(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    part[me] = v;
    for (int half_ = GROUP / 2; half_ > 0; half_ /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (me < half_)
            part[me] = part[me + half_] > part[me] ? part[me + half_] : part[me];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return part[0];
}

/* The row's maximum, and the sum of exp(x - maximum). */
#define ROW_TOTALS(x, step)                                          \
    float top = -INFINITY, sum = 0;                                  \
    for (long k = me; k < width; k += GROUP)                         \
        top = (x)[k * (step)] > top ? (x)[k * (step)] : top;         \
    top = group_max(part, top);                                      \
    for (long k = me; k < width; k += GROUP)                         \
        sum += exp((x)[k * (step)] - top);                           \
    sum = group_sum(part, sum);

kernel void softmax(const long width, P(float, out), P(float, in))
{
    local float part[GROUP];
    const long row = get_group_id(0);
    const int me = get_local_id(0);
    global const float *x = AT(float, in) + row * width;
    ROW_TOTALS(x, 1)
    for (long k = me; k < width; k += GROUP)
        AT(float, out)[row * width + k] = exp(x[k] - top) / sum;
}

kernel void log_softmax(const long width, P(float, out), P(float, in))
{
    local float part[GROUP];
    const long row = get_group_id(0);
    const int me = get_local_id(0);
    global const float *x = AT(float, in) + row * width;
    ROW_TOTALS(x, 1)
    for (long k = me; k < width; k += GROUP)
        AT(float, out)[row * width + k] = x[k] - top - log(sum);
}

/* Logits and labels may each be one row or one column that is broadcast: a stride of 0. */
kernel void cross_entropy(const long width, P(float, loss), P(float, back), P(float, logits), const long xr, const long xc,
                          P(float, labels), const long lr, const long lc)
{
    local float part[GROUP];
    const long row = get_group_id(0);
    const int me = get_local_id(0);
    global const float *x = AT(float, logits) + row * xr, *l = AT(float, labels) + row * lr;
    ROW_TOTALS(x, xc)
    float all = 0, weighted = 0;
    for (long k = me; k < width; k += GROUP) {
        all += l[k * lc];
        weighted += l[k * lc] * (x[k * xc] - top);
    }
    all = group_sum(part, all);
    weighted = group_sum(part, weighted);
    if (me == 0)
        AT(float, loss)[row] = width > 0 ? log(sum) * all - weighted : 0;
    for (long k = me; k < width; k += GROUP)
        AT(float, back)[row * width + k] = exp(x[k * xc] - top) / sum - l[k * lc];
}

/* The host has checked the classes. */
kernel void sparse_cross_entropy(const long width, P(float, loss), P(float, back), P(float, logits), P(long, classes))
{
    local float part[GROUP];
    const long row = get_group_id(0);
    const int me = get_local_id(0);
    const long class = AT(long, classes)[row];
    global const float *x = AT(float, logits) + row * width;
    ROW_TOTALS(x, 1)
    if (me == 0)
        AT(float, loss)[row] = log(sum) - (x[class] - top);
    for (long k = me; k < width; k += GROUP)
        AT(float, back)[row * width + k] = exp(x[k] - top) / sum - (k == class ? 1 : 0);
}
