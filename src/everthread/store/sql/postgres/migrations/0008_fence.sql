-- What nobody is told, made once with the store and never again: of it comes the fence (core.fence). It leaves the store
-- with a copy of the whole only; no export has it.
CREATE TABLE secrets (
    name  TEXT COLLATE "C" PRIMARY KEY,
    value BYTEA NOT NULL
);

INSERT INTO secrets (name, value) VALUES ('fence', decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex'));
