"""The service: graphs on demand over HTTP, on Ray Serve.

``schemas``, ``errors`` and ``auth`` are what a request meets, ``api`` and ``chat`` the routes,
``services`` what the routes call. ``reading``, ``cache``, ``batches`` and ``writing`` do the work
in a replica and know no Ray; ``memories`` and ``deployments`` put them on Ray Serve, ``app`` is
``serve run serve.app:app``, ``__main__`` the same with a host and a port.
"""
