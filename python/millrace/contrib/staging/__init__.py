"""tf.contrib.staging"""
from ...ops.data_flow import MapStagingArea, StagingArea  # noqa: F401
