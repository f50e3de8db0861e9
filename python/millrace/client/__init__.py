"""What TensorFlow keeps in tensorflow.python.client: devices and timelines."""
