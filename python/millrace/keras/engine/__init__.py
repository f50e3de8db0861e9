"""What layers and models of Keras do."""
