-- What a new session should know is found by these: important memories, and those of a type or category.
-- Plain notes are in none of them.
CREATE INDEX memory_important ON memory (organization_id, importance, number)
    WHERE record IS NOT NULL AND importance NOT IN (2, 3, 4);
CREATE INDEX memory_typed ON memory (organization_id, memory_type, number)
    WHERE record IS NOT NULL AND memory_type <> 'context';
CREATE INDEX memory_categorized ON memory (organization_id, category, number)
    WHERE record IS NOT NULL AND category <> 'general';
