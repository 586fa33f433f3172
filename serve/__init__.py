"""The service: graphs on demand over HTTP, on Ray Serve. Its parts come with their own issue."""
