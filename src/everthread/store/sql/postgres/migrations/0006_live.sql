-- What has come of a running reply is kept with the lease of its turn, beside the seq of the newest event that was
-- written under it.

ALTER TABLE leases ADD COLUMN at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE leases ADD COLUMN partial TEXT NOT NULL DEFAULT '';
