"""tf.contrib.staging"""
from ...ops.data_flow import StagingArea  # noqa: F401
