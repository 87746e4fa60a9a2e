-- Which verdict wrote an ending: its token. NULL for what the attempt's own owner wrote, and for what
-- was written before this. Two writers may come to one status with different bytes.
ALTER TABLE hapax_ending ADD COLUMN verdict BLOB;
