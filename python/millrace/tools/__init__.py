"""What TensorFlow keeps in tensorflow.python.tools: graphs made ready to be used, and a look into checkpoints."""
