-- Which MCP tools the clients of a key see.

ALTER TABLE api_key ADD COLUMN toolsets TEXT;
