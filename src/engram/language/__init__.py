"""Language models: what they are asked, and the services that answer; none is needed."""
