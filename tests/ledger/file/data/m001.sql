-- A small ledger as the first release wrote it: every table, every kind of row that an upload can leave.
PRAGMA application_id = 1095979865;
BEGIN TRANSACTION;
CREATE TABLE "_sqlite_migrations" (
   "id" INTEGER PRIMARY KEY,
   "migration_set" TEXT,
   "name" TEXT,
   "applied_at" TEXT
);
INSERT INTO "_sqlite_migrations" VALUES(1,'assetsync','m001_first','2026-11-21 00:00:00+00:00');
CREATE TABLE attempts (
    id INTEGER PRIMARY KEY,
    file_id INTEGER NOT NULL,
    destfolderid TEXT NOT NULL,
    sent_name TEXT NOT NULL,
    folded_name TEXT NOT NULL,
    boundary TEXT NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    md5 TEXT,
    meta_digest TEXT,
    start_no INTEGER NOT NULL,
    started_at REAL NOT NULL,
    ended_at REAL,            
    left_part TEXT,           
    handed INTEGER,
    handed_md5 TEXT,
    accepted_id TEXT,
    is_duplicate INTEGER NOT NULL DEFAULT 0,
    why TEXT,
    answer TEXT,              
    parked INTEGER NOT NULL DEFAULT 0,  
    closed_at REAL,
    result TEXT,
    grace_boot TEXT, grace_first REAL, grace_last REAL,
    look_at REAL NOT NULL DEFAULT 0,
    looks INTEGER NOT NULL DEFAULT 0
);
INSERT INTO "attempts" VALUES(1,1,'F','harbour.jpg','harbour.jpg','boundary',10,1,1,'11111111111111111111111111111111','digest',1,1000000.0,1000000.0,'all',10,'11111111111111111111111111111111',NULL,0,NULL,'{"filetype": "doc"}',0,1000000.0,'accepted',NULL,NULL,NULL,0.0,0);
INSERT INTO "attempts" VALUES(2,3,'F','lost.jpg','lost.jpg','boundary',12,1,3,'22222222222222222222222222222222','digest',1,1000000.0,1000000.0,'all',12,'22222222222222222222222222222222',NULL,0,'no_answer',NULL,0,NULL,NULL,NULL,NULL,NULL,1000000.0,0);
INSERT INTO "attempts" VALUES(3,5,'F','old.jpg','old.jpg','boundary',13,1,5,'22222222222222222222222222222222','digest',1,1000000.0,1000000.0,'all',10,'22222222222222222222222222222222',NULL,0,NULL,'{"filetype": "doc"}',0,1000000.0,'accepted',NULL,NULL,NULL,0.0,0);
CREATE TABLE brakes (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail TEXT NOT NULL,
    amount INTEGER NOT NULL,
    pulled_at REAL NOT NULL,
    resumed_at REAL
);
INSERT INTO "brakes" VALUES(1,'vanished','photos','why',7,1000000.0,NULL);
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
INSERT INTO "facts" VALUES('start','1');
CREATE TABLE files (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  
    path BLOB NOT NULL,
    destfolderid TEXT NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    md5 TEXT,
    state TEXT NOT NULL,
    wanted TEXT NOT NULL DEFAULT 'yes',
    reason TEXT,              
    detail TEXT,              
    folded_name TEXT NOT NULL,  
    assetid TEXT,
    id_from TEXT,             
    asset_folder TEXT,        
    filetype TEXT,
    meta_digest TEXT,         
    drift TEXT,               
    failures INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    absences INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    send_again INTEGER NOT NULL DEFAULT 0,  
    due_at REAL NOT NULL DEFAULT 0,
    queued_at REAL NOT NULL,
    uploaded_at REAL,
    seen_at REAL,             
    findable_at REAL,         
    index_asked_at REAL,
    verified_at REAL,
    rested_at REAL,
    audited_at REAL,          
    unseen_boot TEXT, unseen_first REAL, unseen_last REAL
);
INSERT INTO "files" VALUES(1,X'70686F746F732F686172626F75722E6A7067','F',10,1,1,1,'11111111111111111111111111111111','stored','yes',NULL,NULL,'harbour.jpg','A1','answer','F','doc','digest','unread',0,1,0,0,0,1000000.0,1000000.0,1000000.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "files" VALUES(2,X'70686F746F732F636166E92E6A7067','F',11,1,1,2,NULL,'queued','yes',NULL,NULL,'caf�.jpg',NULL,NULL,NULL,NULL,NULL,NULL,0,0,0,0,0,1000000.0,1000000.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "files" VALUES(3,X'70686F746F732F6C6F73742E6A7067','F',12,1,1,3,'22222222222222222222222222222222','in_doubt','yes','no_answer','nothing came back','lost.jpg',NULL,NULL,NULL,NULL,'digest',NULL,0,1,0,0,0,1000000.0,1000000.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "files" VALUES(4,X'70686F746F732F656D7074792E747874','F',0,1,1,4,NULL,'blocked','yes','empty_file','the file is empty','empty.txt',NULL,NULL,NULL,NULL,NULL,NULL,0,0,0,0,0,1000000.0,1000000.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "files" VALUES(5,X'70686F746F732F6F6C642E6A7067','F',13,1,1,5,'22222222222222222222222222222222','superseded','replaced',NULL,NULL,'old.jpg','A2','answer','F','doc','digest',NULL,0,1,0,0,0,1000000.0,1000000.0,1000000.0,NULL,NULL,NULL,NULL,1000000.0,NULL,NULL,NULL,NULL);
INSERT INTO "files" VALUES(6,X'70686F746F732F6F6C642E6A7067','F',14,1,1,6,NULL,'queued','yes',NULL,NULL,'old.jpg',NULL,NULL,NULL,NULL,NULL,NULL,0,0,0,0,0,1000000.0,1000000.0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE folders (
    destfolderid TEXT PRIMARY KEY,
    contact_start INTEGER,    
    hold_reason TEXT,
    hold_detail TEXT,
    hold_until REAL
) WITHOUT ROWID;
INSERT INTO "folders" VALUES('F',1,NULL,NULL,NULL);
CREATE TABLE hours (hour INTEGER PRIMARY KEY, uploads INTEGER NOT NULL, bytes INTEGER NOT NULL);
INSERT INTO "hours" VALUES(444444,2,46);
CREATE TABLE requests (
    id INTEGER PRIMARY KEY,
    verb TEXT NOT NULL,
    argument TEXT NOT NULL,   
    asked_at REAL NOT NULL,
    done_at REAL,
    answer TEXT
);
INSERT INTO "requests" VALUES(1,'retry','{"paths": []}',1000000.0,NULL,NULL);
CREATE TABLE sidecars (
    path BLOB PRIMARY KEY,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO "sidecars" VALUES(X'70686F746F732F686172626F75722E6A70672E79616D6C',5,1,1,7);
CREATE TABLE sightings (
    assetid TEXT PRIMARY KEY,
    folder_id TEXT NOT NULL,
    name TEXT NOT NULL,
    size INTEGER,
    md5 TEXT,
    first_seen REAL NOT NULL,
    seen_to INTEGER NOT NULL,       
    why TEXT NOT NULL DEFAULT '',   
    file_id INTEGER,
    path BLOB,
    met_at REAL                     
) WITHOUT ROWID;
INSERT INTO "sightings" VALUES('B1','F','stranger.jpg',99,'11111111111111111111111111111111',1000000.0,3,'unknown',NULL,NULL,1000000.0);
CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name");
CREATE UNIQUE INDEX files_current ON files (path) WHERE wanted = 'yes';
CREATE INDEX files_path ON files (path, id);
CREATE INDEX files_due ON files (due_at, id) WHERE state = 'queued' AND wanted = 'yes';
CREATE INDEX files_by_content ON files (destfolderid, size, md5);
CREATE INDEX files_sending ON files (id) WHERE state = 'sending';
CREATE INDEX files_in_doubt ON files (id) WHERE state = 'in_doubt';
CREATE INDEX files_stored ON files (due_at, id) WHERE state = 'stored';
CREATE INDEX files_blocked ON files (id) WHERE state = 'blocked';
CREATE INDEX files_blocked_for ON files (reason, destfolderid) WHERE state = 'blocked';
CREATE UNIQUE INDEX files_asset ON files (assetid)
    WHERE assetid IS NOT NULL AND state NOT IN ('superseded', 'gone');
CREATE INDEX files_drift ON files (id) WHERE drift IS NOT NULL;
CREATE INDEX files_history ON files (assetid) WHERE assetid IS NOT NULL;
CREATE INDEX files_counted ON files (wanted, state, destfolderid, size) WHERE size >= 0;
CREATE UNIQUE INDEX attempts_open_name ON attempts (destfolderid, folded_name) WHERE closed_at IS NULL AND parked = 0;
CREATE INDEX attempts_open_file ON attempts (file_id) WHERE closed_at IS NULL;
CREATE INDEX attempts_file ON attempts (file_id);
CREATE INDEX sightings_by_size ON sightings (folder_id, size);
CREATE UNIQUE INDEX brakes_open ON brakes (kind, subject) WHERE resumed_at IS NULL;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('files',6);
COMMIT;
