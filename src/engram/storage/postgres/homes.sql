-- Statements on the control tables of an installation, and of its homes.

-- list_homes --
-- Returns name, url and how many organisations there are, by name.
SELECT home.name, home.url, count(organization.number)
FROM home LEFT JOIN organization ON organization.home = home.name
GROUP BY home.name ORDER BY home.name;

-- find_home --
SELECT url FROM home WHERE name = :name;

-- add_home --
INSERT INTO home (name, url, added_at) VALUES (:name, :url, :now);

-- change_home --
UPDATE home SET url = :url WHERE name = :name;

-- remove_home --
DELETE FROM home WHERE name = :name;

-- is_used --
-- Returns whether a home has organisations, or rows of some that are to be removed.
SELECT EXISTS (SELECT 1 FROM organization WHERE home = :name)
    OR EXISTS (SELECT 1 FROM relocation WHERE home = :name OR former_home = :name)
    OR EXISTS (SELECT 1 FROM removal WHERE home = :name);

-- has_organizations --
SELECT EXISTS (SELECT 1 FROM organization);

-- get_roles --
-- Returns the name of this installation, and whose home this is.
SELECT installation, home_of FROM control_state WHERE number = 1;

-- put_installation --
UPDATE control_state SET installation = :installation WHERE number = 1;

-- put_home_of --
UPDATE control_state SET home_of = :home_of WHERE number = 1;

-- place --
UPDATE organization SET home = :home WHERE organization_id = :public_id;

-- find_url --
-- Returns how a home is reached and proved; no row if there is none of that name.
SELECT home.url, control_state.installation FROM home CROSS JOIN control_state
WHERE home.name = :name;

-- find_place --
-- Returns the number of an organisation's rows, its home, and how that is reached and proved.
SELECT coalesce(organization.row_number, organization.number), home.name, home.url,
    control_state.installation
FROM organization LEFT JOIN home ON home.name = organization.home
CROSS JOIN control_state
WHERE organization.organization_id = :public_id;

-- switch --
-- Says where an organisation is whose rows were sealed.
UPDATE organization SET home = :home, row_number = :number
WHERE organization_id = :public_id AND coalesce(row_number, number) = :former;

-- list_rows --
-- Returns where rows of an organisation are, beside those that `find_place` returns: number, home.
SELECT number, home FROM relocation WHERE organization_id = :public_id
UNION
SELECT former_number, former_home FROM relocation WHERE organization_id = :public_id;

-- get_relocation --
-- Returns where an organisation is being moved to and from: number, home, former number and home.
SELECT number, home, former_number, former_home FROM relocation WHERE organization_id = :public_id;

-- add_relocation --
-- Draws a number that no organisation has or will have.
INSERT INTO relocation (organization_id, number, home, former_number, former_home, began_at)
VALUES (:public_id, nextval(pg_get_serial_sequence('engram.organization', 'number')), :home,
    :former_number, :former_home, :now);

-- end_relocation --
DELETE FROM relocation WHERE organization_id = :public_id;

-- add_removal --
-- Has the rows of an organisation removed, at a home or here.
INSERT INTO removal (number, organization_id, home) VALUES (:number, :public_id, :home)
ON CONFLICT DO NOTHING;

-- list_passed_on --
-- Returns number, organisation and place of rows to be removed at other homes.
SELECT removal.number, removal.organization_id, home.name, home.url, control_state.installation
FROM removal JOIN home ON home.name = removal.home CROSS JOIN control_state
ORDER BY removal.number;

-- end_removal --
DELETE FROM removal WHERE number = :number;
