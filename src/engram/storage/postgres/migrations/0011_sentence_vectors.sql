-- A message and its first sentence begin at the same character.
ALTER TABLE vector DROP CONSTRAINT vector_organization_id_key_embedder_start_character_key;
ALTER TABLE vector ADD UNIQUE (organization_id, key, embedder, start_character, end_character);
