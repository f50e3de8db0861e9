"""Models with the methods that scikit-learn's have."""

import copy
import inspect

import numpy as np

from ..models import Sequential
from ..utils.np_utils import to_categorical


class BaseWrapper:
    """build_fn(**its arguments) makes a compiled model; the other arguments are those of fit, predict and evaluate."""

    def __init__(self, build_fn=None, **sk_params):
        self.build_fn, self.sk_params = build_fn, sk_params
        known = set(inspect.signature(self._builder()).parameters)
        for f in (Sequential.fit, Sequential.predict, Sequential.predict_classes, Sequential.evaluate):
            known |= set(inspect.signature(f).parameters)
        for name in sk_params:
            if name not in known and name != "nb_epoch":
                raise ValueError("%s is not a legal parameter" % name)

    def _builder(self):
        return self.build_fn if self.build_fn is not None else self.__call__

    def get_params(self, **unused):
        """Returns the parameters as a dict, with build_fn."""
        return dict(copy.deepcopy(self.sk_params), build_fn=self.build_fn)

    def set_params(self, **params):
        """Changes parameters, and returns this object."""
        self.sk_params.update(params)
        return self

    def _for(self, f, **more):
        known = inspect.signature(f).parameters
        return dict({k: v for k, v in self.sk_params.items() if k in known}, **more)

    def fit(self, x, y, **kwargs):
        """Builds the model and trains it; the keywords go to fit of the model."""
        builder = self._builder()
        self.model = builder(**self._for(builder))
        if str(self.model.loss) == "categorical_crossentropy" and np.ndim(y) != 2:
            y = to_categorical(y)
        return self.model.fit(x, y, **dict(self._for(Sequential.fit), **kwargs))


class KerasClassifier(BaseWrapper):
    """A Keras classifier with the interface of scikit-learn."""

    def fit(self, x, y, **kwargs):
        y = np.array(y)
        if y.ndim == 2 and y.shape[1] > 1:
            self.classes_ = np.arange(y.shape[1])
        elif y.ndim == 1 or y.ndim == 2 and y.shape[1] == 1:
            self.classes_, y = np.unique(y), np.searchsorted(np.unique(y), y)
        else:
            raise ValueError("Invalid shape for y: %s" % (y.shape,))
        self.n_classes_ = len(self.classes_)
        return super().fit(x, y, **kwargs)

    def predict(self, x, **kwargs):
        """Returns the predicted classes."""
        p = self.model.predict(x, **dict(self._for(Sequential.predict), **kwargs))
        return self.classes_[p.argmax(-1) if p.shape[-1] > 1 else (p > 0.5).astype(int)]

    def predict_proba(self, x, **kwargs):
        """Returns the predicted probabilities of all classes."""
        p = self.model.predict(x, **dict(self._for(Sequential.predict), **kwargs))
        return np.hstack([1 - p, p]) if p.shape[1] == 1 else p

    def score(self, x, y, **kwargs):
        """Returns the accuracy; the model must have been compiled with it."""
        y = np.searchsorted(self.classes_, y)
        if str(self.model.loss) == "categorical_crossentropy" and np.ndim(y) != 2:
            y = to_categorical(y)
        values = self.model.evaluate(x, y, **dict(self._for(Sequential.evaluate), **kwargs))
        for name, value in zip(self.model.metrics_names, np.atleast_1d(values)):
            if name in ("accuracy", "acc"):
                return value
        raise ValueError("The model is not configured to compute accuracy. You should pass `metrics=[\"accuracy\"]` to the "
                         "`model.compile()` method.")


class KerasRegressor(BaseWrapper):
    """A Keras regressor with the interface of scikit-learn."""

    def predict(self, x, **kwargs):
        """Returns the predicted values."""
        return np.squeeze(self.model.predict(x, **dict(self._for(Sequential.predict), **kwargs)), -1)

    def score(self, x, y, **kwargs):
        """Returns the negative loss."""
        return -np.atleast_1d(self.model.evaluate(x, y, **dict(self._for(Sequential.evaluate), **kwargs)))[0]
