-- A store of version 1.
PRAGMA application_id = 1953459308;
PRAGMA user_version = 1;
CREATE TABLE meta (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE base (one INTEGER PRIMARY KEY CHECK (one = 1), through INTEGER NOT NULL, chain BLOB NOT NULL,
    state TEXT NOT NULL, digest BLOB NOT NULL) STRICT;
CREATE TABLE base_account (scope TEXT NOT NULL, key TEXT NOT NULL, cost_reserved INTEGER NOT NULL, cost_overrun INTEGER NOT NULL, cost_settled INTEGER NOT NULL, cost_released INTEGER NOT NULL, cost_expired INTEGER NOT NULL, tokens_reserved INTEGER NOT NULL, tokens_overrun INTEGER NOT NULL, tokens_settled INTEGER NOT NULL, tokens_released INTEGER NOT NULL, tokens_expired INTEGER NOT NULL, calls_reserved INTEGER NOT NULL, calls_overrun INTEGER NOT NULL, calls_settled INTEGER NOT NULL, calls_released INTEGER NOT NULL, calls_expired INTEGER NOT NULL, seconds_reserved INTEGER NOT NULL, seconds_overrun INTEGER NOT NULL, seconds_settled INTEGER NOT NULL, seconds_released INTEGER NOT NULL, seconds_expired INTEGER NOT NULL, runs_reserved INTEGER NOT NULL, runs_overrun INTEGER NOT NULL, runs_settled INTEGER NOT NULL, runs_released INTEGER NOT NULL, runs_expired INTEGER NOT NULL,
    PRIMARY KEY (scope, key)) STRICT, WITHOUT ROWID;
CREATE TABLE ledger (seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL, hold TEXT,
    chain BLOB NOT NULL) STRICT;
CREATE TRIGGER ledger_keeps BEFORE UPDATE ON ledger
    BEGIN SELECT RAISE(ABORT, 'rows of the ledger are never changed'); END;
CREATE TRIGGER ledger_stays BEFORE DELETE ON ledger WHEN old.seq > (SELECT through FROM base)
    BEGIN SELECT RAISE(ABORT, 'rows of the ledger stay until they are archived'); END;
CREATE TABLE counted (n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE usage (counted INTEGER NOT NULL REFERENCES counted (n), key TEXT NOT NULL, slot INTEGER NOT NULL,
    used INTEGER NOT NULL CHECK (used >= 0), PRIMARY KEY (counted, key, slot)) STRICT, WITHOUT ROWID;
CREATE TABLE account (scope TEXT NOT NULL, key TEXT NOT NULL, cost_reserved INTEGER NOT NULL, cost_overrun INTEGER NOT NULL, cost_settled INTEGER NOT NULL, cost_released INTEGER NOT NULL, cost_expired INTEGER NOT NULL, tokens_reserved INTEGER NOT NULL, tokens_overrun INTEGER NOT NULL, tokens_settled INTEGER NOT NULL, tokens_released INTEGER NOT NULL, tokens_expired INTEGER NOT NULL, calls_reserved INTEGER NOT NULL, calls_overrun INTEGER NOT NULL, calls_settled INTEGER NOT NULL, calls_released INTEGER NOT NULL, calls_expired INTEGER NOT NULL, seconds_reserved INTEGER NOT NULL, seconds_overrun INTEGER NOT NULL, seconds_settled INTEGER NOT NULL, seconds_released INTEGER NOT NULL, seconds_expired INTEGER NOT NULL, runs_reserved INTEGER NOT NULL, runs_overrun INTEGER NOT NULL, runs_settled INTEGER NOT NULL, runs_released INTEGER NOT NULL, runs_expired INTEGER NOT NULL,
    PRIMARY KEY (scope, key)) STRICT, WITHOUT ROWID;
CREATE TABLE hold (id TEXT NOT NULL PRIMARY KEY, seq INTEGER NOT NULL, phase TEXT NOT NULL, generation INTEGER NOT NULL,
    at INTEGER NOT NULL, deadline INTEGER NOT NULL, ended INTEGER, state TEXT NOT NULL, sum BLOB) STRICT;
CREATE INDEX hold_open ON hold (generation) WHERE ended IS NULL;
