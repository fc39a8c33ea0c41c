-- skip_numbers --
-- Raises the last serial number of a table.
SELECT skip_numbers(:table, :number);
