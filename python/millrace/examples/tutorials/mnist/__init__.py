"""The MNIST tutorials' modules: the data, and a network of two hidden layers."""
from . import input_data, mnist  # noqa: F401
