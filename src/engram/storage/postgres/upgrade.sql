-- size_of --
-- Returns the bytes of a table with its indexes; NULL if there is no such table.
SELECT pg_total_relation_size(to_regclass(:table));

-- has_homes --
-- Returns whether the tables know of homes.
SELECT to_regclass('engram.home') IS NOT NULL;

-- see_control --
SET LOCAL engram.control = 'all';

-- list_homes --
SELECT name, url FROM engram.home ORDER BY name;
