-- grow_windows --
-- Adds to the words of all windows, and to those of an index that is being built, if there is one. The
-- index is another after it.
UPDATE upkeep
SET window_words = window_words + :words,
    rebuild_window_words = rebuild_window_words + :next_words,
    word_revision = word_revision + 1
WHERE organization_id = :organization_id;
