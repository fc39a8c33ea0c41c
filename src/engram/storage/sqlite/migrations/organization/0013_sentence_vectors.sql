-- A message and its first sentence begin at the same character.
DROP INDEX vector_owner;
CREATE UNIQUE INDEX vector_owner ON vector (key, embedder, start_character, end_character);
