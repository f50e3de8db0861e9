"""What programs import of TensorFlow's examples."""
