"""tf.data: input pipelines."""

from .. import lazy as _lazy
from .dataset import (Dataset, get_legacy_output_classes as get_output_classes, get_legacy_output_shapes as get_output_shapes,
                      get_legacy_output_types as get_output_types, make_initializable_iterator, make_one_shot_iterator)
from .iterator import Iterator
from .options import Options
from .readers import FixedLengthRecordDataset, TextLineDataset, TFRecordDataset
from .structure import DatasetSpec

FixedLengthRecordDatasetV1, TextLineDatasetV1, TFRecordDatasetV1 = FixedLengthRecordDataset, TextLineDataset, TFRecordDataset

__getattr__ = _lazy.attributes(__name__, modules="experimental")
