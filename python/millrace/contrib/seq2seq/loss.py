"""sequence_loss of logits [batch, time, classes]."""

from ...framework import ops
from ...ops import array, math
from ... import nn

__all__ = ["sequence_loss"]


def sequence_loss(logits, targets, weights, average_across_timesteps=True, average_across_batch=True, sum_over_timesteps=False,
                  sum_over_batch=False, softmax_loss_function=None, name=None):
    """The weighted cross entropy, [batch, time], [batch], [time] or one number by what it is averaged over."""
    if len(logits.shape) != 3:
        raise ValueError("Logits must be a [batch_size x sequence_length x logits] tensor")
    if len(targets.shape) != 2:
        raise ValueError("Targets must be a [batch_size x sequence_length] tensor")
    if len(weights.shape) != 2:
        raise ValueError("Weights must be a [batch_size x sequence_length] tensor")
    if average_across_timesteps and sum_over_timesteps:
        raise ValueError("average_across_timesteps and sum_over_timesteps cannot be set to True at same time.")
    if average_across_batch and sum_over_batch:
        raise ValueError("average_across_batch and sum_over_batch cannot be set to True at same time.")
    with ops.name_scope(name, "sequence_loss", [logits, targets, weights]):
        flat = array.reshape(logits, array.stack([-1, array.shape(logits)[2]]))
        labels = array.reshape(targets, [-1])
        if softmax_loss_function is None:
            costs = nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=flat)
        else:
            costs = softmax_loss_function(labels=labels, logits=flat)
        weights = ops.convert_to_tensor_or_indexed_slices(weights)
        costs = costs * array.reshape(weights, [-1])
        if average_across_timesteps and average_across_batch:
            return math.div_no_nan(math.reduce_sum(costs), math.reduce_sum(weights))
        costs = array.reshape(costs, array.shape(logits)[:2])
        costs.set_shape(targets.shape)
        if sum_over_timesteps and sum_over_batch:
            count = math.cast(math.count_nonzero(weights), costs.dtype.base_dtype)
            return math.div_no_nan(math.reduce_sum(costs), count)
        if average_across_timesteps or average_across_batch:
            axis = 0 if average_across_batch else 1
            return math.div_no_nan(math.reduce_sum(costs, axis), math.reduce_sum(weights, axis))
        if sum_over_timesteps or sum_over_batch:
            axis = 0 if sum_over_batch else 1
            count = math.cast(math.count_nonzero(weights, axis=axis), costs.dtype.base_dtype)
            return math.div_no_nan(math.reduce_sum(costs, axis), count)
        return costs
