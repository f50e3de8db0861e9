"""What is in a checkpoint, printed."""
import re

import numpy as np

from ..train import NewCheckpointReader


def print_tensors_in_checkpoint_file(file_name, tensor_name, all_tensors, all_tensor_names=False, count_exclude_pattern=""):
    """All tensors with their values (all_tensors), the names of all (all_tensor_names), one, or a list of what there is."""
    reader = NewCheckpointReader(file_name)
    shapes, kinds = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    if all_tensors or all_tensor_names:
        for name in sorted(shapes):
            print("tensor_name: ", name)
            if all_tensors:
                print(reader.get_tensor(name))
    elif not tensor_name:
        print(reader.debug_string().decode("utf-8"))
    else:
        print("tensor_name: ", tensor_name)
        print(reader.get_tensor(tensor_name))
    left_out = [name for name in shapes if count_exclude_pattern and re.search(count_exclude_pattern, name)]
    counted = [n for n in shapes if n not in left_out and kinds[n].is_numpy_compatible]
    print("# Total number of params: %d" % sum(int(np.prod(shapes[n], dtype=np.int64)) for n in counted))


def parse_numpy_printoption(kv_str):
    """Sets an option of numpy's printing from "name=value"."""
    key, found, value = kv_str.partition("=")
    options = np.get_printoptions()
    if not found or key not in options:
        raise ValueError("'%s' is not a print option of numpy" % kv_str)
    kind = type(options[key])
    np.set_printoptions(**{key: value in ("True", "true", "1") if kind is bool else kind(value)})
