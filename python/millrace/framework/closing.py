"""What is closed at the end of a `with`."""


class Closing:
    """An object over one of the extension's, `_core`, that has to be let go of."""

    def close(self):
        """Lets go of what it was started with; it cannot be used again."""
        self._core.close()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()
