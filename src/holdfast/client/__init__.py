"""The client: it talks to Holdfast, Redis or Valkey by URL and knows nothing of our server."""
