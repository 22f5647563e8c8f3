-- A database of the first version: its run sleeps. Made by that version, and never changed.
CREATE TABLE inbox (
    run     INTEGER NOT NULL,
    number  INTEGER NOT NULL,
    name    TEXT NOT NULL,
    dedup   TEXT,
    payload TEXT NOT NULL,
    PRIMARY KEY (run, number)
) STRICT;
CREATE TABLE journal (
    run   INTEGER NOT NULL,
    seq   INTEGER NOT NULL,
    entry BLOB NOT NULL,
    PRIMARY KEY (run, seq)
) STRICT;
INSERT INTO "journal" VALUES(1,0,CAST('1{"t":1795901239433,"e":{"started":{"run":"run_01a22a04118974d098be776df33f9912","workflow":"main","digest":"DIGEST","input":null,"retry":{"maxAttempts":5,"initialMs":1000,"maxMs":600000,"multiplier":2.0,"jitter":0.2},"step_timeout_ms":null,"deadline_ms":null}}}' AS BLOB));
INSERT INTO "journal" VALUES(1,1,CAST('1{"t":1795901239438,"e":{"step_begun":{"op":0,"step":{"name":"a","occurrence":1},"retry":{"maxAttempts":2,"initialMs":0,"maxMs":600000,"multiplier":2.0,"jitter":0.2},"timeout_ms":600000,"effect":"repeatable","key_ttl_ms":86400000}}}' AS BLOB));
INSERT INTO "journal" VALUES(1,2,CAST('1{"t":1795901239438,"e":{"attempt_started":{"op":0,"n":1,"deadline_ms":1795901839438}}}' AS BLOB));
INSERT INTO "journal" VALUES(1,3,CAST('1{"t":1795901239438,"e":{"attempt_ended":{"op":0,"n":1,"outcome":{"succeeded":1}}}}' AS BLOB));
INSERT INTO "journal" VALUES(1,4,CAST('1{"t":1795901239438,"e":{"delivered":{"op":0}}}' AS BLOB));
INSERT INTO "journal" VALUES(1,5,CAST('1{"t":1795901239438,"e":{"sleep_begun":{"op":1,"ms":600000,"due_ms":1795901839438}}}' AS BLOB));
CREATE TABLE logs (
    run    INTEGER NOT NULL,
    turn   INTEGER NOT NULL,
    line   INTEGER NOT NULL,
    at_ms  INTEGER NOT NULL,
    level  INTEGER NOT NULL,
    step   TEXT,
    text   TEXT NOT NULL,
    fields TEXT,
    PRIMARY KEY (run, turn, line)
) STRICT;
CREATE TABLE modules (
    digest      TEXT PRIMARY KEY,
    added_at_ms INTEGER NOT NULL,
    size_bytes  INTEGER NOT NULL,
    description TEXT NOT NULL,
    bytes       BLOB NOT NULL
) STRICT;
CREATE TABLE runs (
    id            INTEGER PRIMARY KEY,
    run           TEXT NOT NULL UNIQUE,
    workflow      TEXT NOT NULL,
    digest        TEXT NOT NULL,
    run_key       TEXT UNIQUE,
    status        INTEGER NOT NULL,
    wake_at_ms    INTEGER,
    recoveries    INTEGER NOT NULL DEFAULT 0,
    created_at_ms INTEGER NOT NULL,
    changed_at_ms INTEGER NOT NULL,
    detail        TEXT,
    status_text   TEXT,
    outcome       TEXT
) STRICT;
INSERT INTO "runs" VALUES(1,'run_01a22a04118974d098be776df33f9912','main','DIGEST',NULL,2,1795901839438,0,1795901239433,1795901239438,'a sleep',NULL,NULL);
CREATE TABLE timers (
    due_ms INTEGER NOT NULL,
    run    INTEGER NOT NULL,
    PRIMARY KEY (due_ms, run)
) STRICT, WITHOUT ROWID;
INSERT INTO "timers" VALUES(1795901839438,1);
CREATE INDEX runs_by_status ON runs (status, id);
CREATE INDEX runs_by_workflow ON runs (workflow, id);
CREATE INDEX logs_by_run ON logs (run);
CREATE UNIQUE INDEX inbox_by_dedup ON inbox (run, dedup) WHERE dedup IS NOT NULL;
PRAGMA user_version = 1;
