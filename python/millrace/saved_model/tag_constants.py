"""Tags that tell the graphs of a SavedModel apart."""
SERVING, TRAINING, EVAL, GPU, TPU = "serve", "train", "eval", "gpu", "tpu"
