"""Sessions of Millrace on one thread."""
import tensorflow as tf

ONE_THREAD = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)


class Trainer:
    """A graph with its variables initialized; `step` computes one training step and returns the loss."""

    def __init__(self, loss, optimizer, feeds):
        """feeds: a list of (placeholder, value)."""
        fetches = loss
        if optimizer:
            updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
            fetches = [loss, tf.group(optimizer.minimize(loss), *updates)]
        self.session = tf.Session(config=ONE_THREAD)
        self.session.run(tf.global_variables_initializer())
        run = self.session.make_callable(fetches, [placeholder for placeholder, _ in feeds])
        values = [value for _, value in feeds]
        self.step = (lambda: run(*values)[0]) if optimizer else (lambda: run(*values))
        self.fetches, self.feeds = fetches, dict(feeds)

    def close(self):
        self.session.close()
