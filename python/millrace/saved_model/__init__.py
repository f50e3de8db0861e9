"""tf.saved_model: models in folders, with their graphs, variables, assets and signatures."""
from . import builder, constants, loader, main_op, signature_constants, signature_def_utils, tag_constants, utils
from .builder import SavedModelBuilder
from .constants import *  # noqa: F403
from .loader import contains_saved_model, load, maybe_saved_model_directory
from .main_op import main_op_with_restore
from .signature_constants import *  # noqa: F403
from .signature_def_utils import (build_signature_def, classification_signature_def, is_valid_signature, predict_signature_def,
                                  regression_signature_def)
from .simple_save import simple_save
from .tag_constants import *  # noqa: F403
from .utils import build_tensor_info, get_tensor_from_tensor_info

Builder = SavedModelBuilder
