"""The Ray layer: jobs that build, train, evaluate and maintain; thin over :mod:`glong`."""
