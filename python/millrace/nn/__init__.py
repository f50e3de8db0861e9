"""tf.nn: what neural networks are made of.  Recurrent parts are loaded when they are first asked for."""

from .. import lazy as _lazy
from ..ops.math import sigmoid, tanh
from ..ops.math import log_sigmoid  # noqa: F401
from .activations import *  # noqa: F403
from .basic import *  # noqa: F403
from .basic import dropout_v2  # noqa: F401
from .conv import *  # noqa: F403
from .cross_entropy import *  # noqa: F403
from .ctc import *  # noqa: F403
from .embedding import *  # noqa: F403
from .normalization import *  # noqa: F403
from .pool import *  # noqa: F403
from .sampling import *  # noqa: F403

from ..ops.op_functions import (  # noqa: F401, E402
    data_format_dim_map, data_format_vec_permute, quantized_avg_pool, quantized_bias_add, quantized_conv2d,
    quantized_max_pool, quantized_relu, quantized_relu6, quantized_relu_x)
from ..ops.array import depth_to_space, space_to_batch, space_to_depth  # noqa: F401, E402

_RNN = "bidirectional_dynamic_rnn dynamic_rnn raw_rnn static_bidirectional_rnn static_rnn static_state_saving_rnn".split()
__getattr__ = _lazy.attributes(__name__, {**dict.fromkeys(_RNN, "recurrent"), "rnn": "recurrent:static_rnn",
                                          "bidirectional_rnn": "recurrent:static_bidirectional_rnn",
                                          "state_saving_rnn": "recurrent:static_state_saving_rnn"}, "rnn_cell")
