"""tf.keras.utils"""

from ... import lazy as _lazy

_LATER = dict.fromkeys("CustomObjectScope custom_object_scope deserialize_keras_object get_custom_objects "
                       "serialize_keras_object".split(),
                       "generic")
_LATER.update(dict.fromkeys(["to_categorical", "normalize"], "np_utils"))
_LATER.update(dict.fromkeys(["Sequence", "get_file"], "data_utils"))
_LATER.update(Progbar="generic_utils", get_source_inputs="layer_utils", plot_model="vis_utils", model_to_dot="vis_utils",
              register_keras_serializable="generic")
__getattr__ = _lazy.attributes(__name__, _LATER)
__dir__ = _lazy.listing(__name__, _LATER)
