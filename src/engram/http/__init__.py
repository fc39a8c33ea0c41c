"""HTTP: connections, middleware, bodies and the REST routes."""
