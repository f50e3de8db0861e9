"""tf.contrib.data: where tf.data came from, and the transformations that became tf.data.experimental."""

from ..data import Dataset, FixedLengthRecordDataset, Iterator, TextLineDataset, TFRecordDataset
from ..data.experimental import (AUTOTUNE, CsvDataset, Counter, RandomDataset, Reducer, SqlDataset, assert_element_shape,
                                 batch_and_drop_remainder, bucket_by_sequence_length, choose_from_datasets, copy_to_device,
                                 dense_to_sparse_batch, enumerate_dataset, get_single_element, group_by_reducer,
                                 group_by_window, ignore_errors, make_batched_features_dataset, make_csv_dataset, map_and_batch,
                                 padded_batch_and_drop_remainder, parallel_interleave, parse_example_dataset,
                                 prefetch_to_device, reduce_dataset, rejection_resample, sample_from_datasets, scan,
                                 shuffle_and_repeat, sliding_window_batch, unbatch, unique)
from ..data.readers import LMDBDataset


def sloppy_interleave(map_func, cycle_length, block_length=1):
    """Returns parallel_interleave with sloppy=True: the order of elements may differ from run to run."""
    return parallel_interleave(map_func, cycle_length, block_length, sloppy=True)
