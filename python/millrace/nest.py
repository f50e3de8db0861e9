"""tf.nest: nested structures of lists, tuples and dicts."""

from .framework.nest import (assert_same_structure, assert_shallow_structure, flatten, flatten_dict_items, flatten_up_to, is_nested,
                             is_sequence, map_structure, map_structure_up_to, pack_sequence_as)
