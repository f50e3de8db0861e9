"""Helpers of decoders: what a decoder takes in next, and when it is done.

    (finished, first inputs) = initialize()
    sample ids = sample(time, outputs, state)
    (finished, next inputs, next state) = next_inputs(time, outputs, state, sample_ids)
"""

from ...framework import convert, dtypes, nest, ops, shapes
from ...ops import array, control_flow, math, random, tensor_array
from ...nn.recurrent import _transpose_batch_time
from ... import nn

__all__ = ["CustomHelper", "GreedyEmbeddingHelper", "Helper", "InferenceHelper", "SampleEmbeddingHelper",
           "ScheduledEmbeddingTrainingHelper", "ScheduledOutputTrainingHelper", "TrainingHelper"]


class Helper:
    """The base of helpers: they choose the inputs of each decoding step."""

    batch_size = property(lambda self: self._batch_size, doc="The batch size, as a tensor.")

    @property
    def sample_ids_shape(self):
        """The shape of the sampled ids of one sequence, without the batch."""
        return shapes.TensorShape([])

    @property
    def sample_ids_dtype(self):
        """The type of the sampled ids."""
        return dtypes.int32

    def initialize(self, name=None):
        """Returns which sequences are finished at the start, and the first inputs; subclasses define it."""
        raise NotImplementedError

    def sample(self, time, outputs, state, name=None):
        """Returns the sampled ids for the outputs of a step; subclasses define it."""
        raise NotImplementedError

    def next_inputs(self, time, outputs, state, sample_ids, name=None):
        """Returns which sequences are finished, the next inputs, and the next state; subclasses define it."""
        raise NotImplementedError


class CustomHelper(Helper):
    """A helper of functions."""

    def __init__(self, initialize_fn, sample_fn, next_inputs_fn, sample_ids_shape=None, sample_ids_dtype=None):
        self._initialize_fn, self._sample_fn, self._next_inputs_fn = initialize_fn, sample_fn, next_inputs_fn
        self._batch_size = None
        self._shape = shapes.TensorShape(sample_ids_shape or [])
        self._dtype = sample_ids_dtype or dtypes.int32

    @property
    def batch_size(self):
        """The batch size, known after initialize."""
        if self._batch_size is None:
            raise ValueError("batch_size accessed before initialize was called")
        return self._batch_size

    sample_ids_shape = property(lambda self: self._shape,
                                doc="The shape of the sampled ids of one sequence, without the batch.")
    sample_ids_dtype = property(lambda self: self._dtype, doc="The type of the sampled ids.")

    def initialize(self, name=None):
        with ops.name_scope(name, "%sInitialize" % type(self).__name__):
            finished, inputs = self._initialize_fn()
            if self._batch_size is None:
                self._batch_size = array.size(finished)
            return finished, inputs

    def sample(self, time, outputs, state, name=None):
        with ops.name_scope(name, "%sSample" % type(self).__name__, [time, outputs]):
            return self._sample_fn(time=time, outputs=outputs, state=state)

    def next_inputs(self, time, outputs, state, sample_ids, name=None):
        with ops.name_scope(name, "%sNextInputs" % type(self).__name__, [time, outputs]):
            return self._next_inputs_fn(time=time, outputs=outputs, state=state, sample_ids=sample_ids)


def _by_time(x):
    return tensor_array.TensorArray(x.dtype.base_dtype, size=array.shape(x)[0], element_shape=x.shape[1:]).unstack(x)


class TrainingHelper(Helper):
    """The inputs are given: those of training."""

    def __init__(self, inputs, sequence_length, time_major=False, name=None):
        with ops.name_scope(name, "TrainingHelper", [sequence_length]):
            inputs = nest.map_structure(convert.convert_to_tensor, inputs)
            self._inputs = inputs
            if not time_major:
                inputs = nest.map_structure(_transpose_batch_time, inputs)
            self._input_tas = nest.map_structure(_by_time, inputs)
            self._sequence_length = convert.convert_to_tensor(sequence_length, name="sequence_length")
            if self._sequence_length.shape.ndims != 1:
                raise ValueError("Expected sequence_length to be a vector, but received shape: %s" %
                                 self._sequence_length.shape)
            self._zero_inputs = nest.map_structure(lambda x: array.zeros_like(x[0, :]), inputs)
            self._batch_size = array.size(sequence_length)

    inputs = property(lambda self: self._inputs, doc="The inputs of all steps.")
    sequence_length = property(lambda self: self._sequence_length, doc="The lengths of the sequences.")

    def initialize(self, name=None):
        with ops.name_scope(name, "TrainingHelperInitialize"):
            finished = math.equal(0, self._sequence_length)
            return finished, self._inputs_at(0, math.reduce_all(finished))

    def _inputs_at(self, time, all_finished):
        return control_flow.cond(all_finished, lambda: self._zero_inputs,
                                 lambda: nest.map_structure(lambda a: a.read(time), self._input_tas), strict=False)

    def sample(self, time, outputs, name=None, **unused):
        with ops.name_scope(name, "TrainingHelperSample", [time, outputs]):
            return math.cast(math.argmax(outputs, axis=-1), dtypes.int32)

    def next_inputs(self, time, outputs, state, name=None, **unused):
        with ops.name_scope(name, "TrainingHelperNextInputs", [time, outputs]):
            next_time = time + 1
            finished = next_time >= self._sequence_length
            return finished, self._inputs_at(next_time, math.reduce_all(finished)), state


class ScheduledEmbeddingTrainingHelper(TrainingHelper):
    """Training in which an input is by chance the embedding of what the model put out."""

    def __init__(self, inputs, sequence_length, embedding, sampling_probability, time_major=False, seed=None,
                 scheduling_seed=None, name=None):
        with ops.name_scope(name, "ScheduledEmbeddingSamplingWrapper", [sampling_probability]):
            self._embedding_fn = embedding if callable(embedding) else lambda ids: nn.embedding_lookup(embedding, ids)
            self._sampling_probability = convert.convert_to_tensor(sampling_probability, name="sampling_probability")
            if self._sampling_probability.shape.ndims not in (0, 1):
                raise ValueError("sampling_probability must be either a scalar or a vector. saw shape: %s" %
                                 self._sampling_probability.shape)
            self._seed, self._scheduling_seed = seed, scheduling_seed
            super().__init__(inputs, sequence_length, time_major, name)

    def sample(self, time, outputs, state, name=None):
        with ops.name_scope(name, "ScheduledEmbeddingTrainingHelperSample", [time, outputs, state]):
            chosen = _chances(self._sampling_probability, self._batch_size, self._scheduling_seed)
            ids = math.cast(array.squeeze(random.multinomial(outputs, 1, seed=self._seed), [-1]), dtypes.int32)
            return array.where(chosen, ids, array.zeros_like(ids) - 1)

    def next_inputs(self, time, outputs, state, sample_ids, name=None):
        with ops.name_scope(name, "ScheduledEmbeddingTrainingHelperNextInputs", [time, outputs, sample_ids]):
            finished, given, state = super().next_inputs(time, outputs, state)
            # An id of -1 means that the training input is used; row 0 is looked up instead.
            sampled = self._embedding_fn(math.maximum(sample_ids, 0))
            return finished, array.where(sample_ids >= 0, sampled, given), state


class ScheduledOutputTrainingHelper(TrainingHelper):
    """Training in which an input is by chance the last output."""

    def __init__(self, inputs, sequence_length, sampling_probability, time_major=False, seed=None, next_inputs_fn=None,
                 auxiliary_inputs=None, name=None):
        with ops.name_scope(name, "ScheduledOutputTrainingHelper", [inputs, auxiliary_inputs, sampling_probability]):
            self._sampling_probability = convert.convert_to_tensor(sampling_probability, name="sampling_probability")
            if next_inputs_fn is not None and not callable(next_inputs_fn):
                raise ValueError("next_inputs_fn must be callable")
            self._next_inputs_fn, self._seed, self._auxiliary = next_inputs_fn, seed, None
            if auxiliary_inputs is not None:
                inputs = array.concat([inputs, auxiliary_inputs], -1)
                auxiliary = convert.convert_to_tensor(auxiliary_inputs)
                self._auxiliary = _by_time(auxiliary if time_major else _transpose_batch_time(auxiliary))
            super().__init__(inputs, sequence_length, time_major, name)

    def sample(self, time, outputs, state, name=None):
        with ops.name_scope(name, "ScheduledOutputTrainingHelperSample", [time, outputs, state]):
            return _chances(self._sampling_probability, self._batch_size, self._seed)

    sample_ids_dtype = property(lambda self: dtypes.bool_,
                                doc="bool: whether each sequence gets its own output as the next input.")

    def next_inputs(self, time, outputs, state, sample_ids, name=None):
        with ops.name_scope(name, "ScheduledOutputTrainingHelperNextInputs", [time, outputs, sample_ids]):
            finished, given, state = super().next_inputs(time, outputs, state)
            own = outputs if self._next_inputs_fn is None else self._next_inputs_fn(outputs)
            if self._auxiliary is not None:
                last = math.minimum(time + 1, self._auxiliary.size() - 1)
                own = array.concat([own, self._auxiliary.read(last)], -1)
            return finished, array.where(sample_ids, own, given), state


def _chances(probability, batch_size, seed):
    """True with this probability, for each of the batch."""
    draws = random.random_uniform(array.reshape(batch_size, [1]), seed=seed, dtype=probability.dtype.base_dtype)
    return math.less(draws, probability)


def embedding_and_tokens(embedding, start_tokens, end_token):
    """(function from ids to embeddings, vector of first ids, the id that ends a sequence) from what a user gave."""
    embed = embedding if callable(embedding) else lambda ids: nn.embedding_lookup(embedding, ids)
    start_tokens = convert.convert_to_tensor(start_tokens, dtypes.int32, name="start_tokens")
    end_token = convert.convert_to_tensor(end_token, dtypes.int32, name="end_token")
    if start_tokens.shape.ndims != 1:
        raise ValueError("start_tokens must be a vector")
    if end_token.shape.ndims != 0:
        raise ValueError("end_token must be a scalar")
    return embed, start_tokens, end_token


class GreedyEmbeddingHelper(Helper):
    """The next input is the embedding of the most likely symbol, until end_token."""

    def __init__(self, embedding, start_tokens, end_token):
        self._embedding_fn, self._start_tokens, self._end_token = embedding_and_tokens(embedding, start_tokens, end_token)
        self._batch_size = array.size(start_tokens)
        self._start_inputs = self._embedding_fn(self._start_tokens)

    def initialize(self, name=None):
        return array.tile([False], array.expand_dims(self._batch_size, 0)), self._start_inputs

    def sample(self, time, outputs, state, name=None):
        if not isinstance(outputs, ops.Tensor):
            raise TypeError("Expected outputs to be a single Tensor, got: %s" % type(outputs))
        return math.cast(math.argmax(outputs, axis=-1), dtypes.int32)

    def next_inputs(self, time, outputs, state, sample_ids, name=None):
        finished = math.equal(sample_ids, self._end_token)
        inputs = control_flow.cond(math.reduce_all(finished), lambda: self._start_inputs,
                                   lambda: self._embedding_fn(sample_ids))
        return finished, inputs, state


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """The next input is the embedding of a symbol drawn by its probability."""

    def __init__(self, embedding, start_tokens, end_token, softmax_temperature=None, seed=None):
        super().__init__(embedding, start_tokens, end_token)
        self._temperature, self._seed = softmax_temperature, seed

    def sample(self, time, outputs, state, name=None):
        if not isinstance(outputs, ops.Tensor):
            raise TypeError("Expected outputs to be a single Tensor, got: %s" % type(outputs))
        logits = outputs if self._temperature is None else outputs / self._temperature
        return math.cast(array.squeeze(random.multinomial(logits, 1, seed=self._seed), [-1]), dtypes.int32)


class InferenceHelper(Helper):
    """Functions say what is drawn from the outputs and when it is the end."""

    def __init__(self, sample_fn, sample_shape, sample_dtype, start_inputs, end_fn, next_inputs_fn=None):
        self._sample_fn, self._end_fn, self._next_inputs_fn = sample_fn, end_fn, next_inputs_fn
        self._shape, self._dtype = shapes.TensorShape(sample_shape), sample_dtype
        self._start_inputs = convert.convert_to_tensor(start_inputs, name="start_inputs")
        self._batch_size = array.shape(self._start_inputs)[0]

    sample_ids_shape = property(lambda self: self._shape,
                                doc="The shape of the sampled ids of one sequence, without the batch.")
    sample_ids_dtype = property(lambda self: self._dtype, doc="The type of the sampled ids.")

    def initialize(self, name=None):
        return array.tile([False], array.expand_dims(self._batch_size, 0)), self._start_inputs

    def sample(self, time, outputs, state, name=None):
        return self._sample_fn(outputs)

    def next_inputs(self, time, outputs, state, sample_ids, name=None):
        inputs = sample_ids if self._next_inputs_fn is None else self._next_inputs_fn(sample_ids)
        return self._end_fn(sample_ids), inputs, state
