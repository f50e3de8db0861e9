"""Tables in files, and where files come from."""
import collections
import csv
import os

import numpy as np

Dataset = collections.namedtuple("Dataset", ["data", "target"])
Datasets = collections.namedtuple("Datasets", ["train", "validation", "test"])


def _split(rows, target_dtype, features_dtype, target_column):
    data, target = [], []
    for row in rows:
        if row:
            target.append(row.pop(target_column))
            data.append(np.asarray(row, dtype=features_dtype))
    return Dataset(data=np.array(data), target=np.array(target, dtype=target_dtype))


def load_csv_with_header(filename, target_dtype, features_dtype, target_column=-1):
    """A table whose first row says how many rows and columns of features there are."""
    with open(filename, newline="") as f:
        rows = csv.reader(f)
        n_samples, n_features = (int(x) for x in next(rows)[:2])
        table = _split(rows, target_dtype, features_dtype, target_column)
    if table.data.shape != (n_samples, n_features):
        raise ValueError("%s: the header promises %d x %d features, but the file has %s" %
                         (filename, n_samples, n_features, " x ".join(str(d) for d in table.data.shape)))
    return Dataset(data=table.data.astype(features_dtype), target=table.target)


def load_csv_without_header(filename, target_dtype, features_dtype, target_column=-1):
    """Reads a CSV file without a header, and returns a Dataset of data and target.

    target_column is the column of the target; the others are data."""
    with open(filename, newline="") as f:
        return _split(csv.reader(f), target_dtype, features_dtype, target_column)


def shrink_csv(filename, ratio):
    """Keeps every ratio-th line of FILE_large.csv as FILE_small.csv."""
    with open(filename.replace("small", "large")) as source, open(filename, "w") as target:
        for i, line in enumerate(source):
            if i % ratio == 0:
                target.write(line)


def _table(what, data_path):
    """The file of a well-known table: what is given, or NAME.csv in MILLRACE_DATA."""
    path = data_path or os.path.join(os.environ.get("MILLRACE_DATA", ""), what + ".csv")
    if not os.path.exists(path):
        raise FileNotFoundError("The data set '%s' is not part of Millrace. Put %s.csv (with TensorFlow's header: rows, "
                                "columns, "
                                "names) into a folder and name that in MILLRACE_DATA, or give data_path." % (what, what))
    return path


def load_iris(data_path=None):
    """150 flowers: four lengths, and which of three kinds."""
    return load_csv_with_header(_table("iris", data_path), target_dtype=int, features_dtype=float)


def load_boston(data_path=None):
    """506 districts: 13 features, and what a house costs."""
    return load_csv_with_header(_table("boston_house_prices", data_path), target_dtype=float, features_dtype=float)


def maybe_download(filename, work_directory, source_url):
    """The path of a file in a folder; it is fetched from source_url when it is not there."""
    os.makedirs(work_directory, exist_ok=True)
    path = os.path.join(work_directory, filename)
    if not os.path.exists(path):
        import urllib.request
        temporary = path + ".part"
        urllib.request.urlretrieve(source_url, temporary)
        os.replace(temporary, path)
        print("Successfully downloaded", filename, os.path.getsize(path), "bytes.")
    return path
