-- skip_numbers --
-- Has a table that counts its rows go on behind this number.
SELECT skip_numbers(:table, :number);
