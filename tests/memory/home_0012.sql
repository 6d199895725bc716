BEGIN TRANSACTION;
CREATE TABLE agent_settings (
	agent VARCHAR(255) NOT NULL, 
	version INTEGER NOT NULL, 
	settings JSON NOT NULL, 
	updated_at VARCHAR(32) NOT NULL, 
	PRIMARY KEY (agent)
);
INSERT INTO "agent_settings" VALUES('pi',1,'{"inject_notes": true, "max_notes": 2, "note_strategy": "Relevant", "inject_examples": true, "max_examples": 3, "example_strategy": "Semantic", "budget_tokens": 1500}','2026-01-01T00:00:00.000027+00:00');
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0012');
CREATE TABLE approvals (
	id VARCHAR(64) NOT NULL, 
	action VARCHAR(64) NOT NULL, 
	run_id VARCHAR(64) NOT NULL, 
	step INTEGER NOT NULL, 
	op VARCHAR(255) NOT NULL, 
	arguments JSON NOT NULL, 
	denied JSON NOT NULL, 
	status VARCHAR(16) NOT NULL, 
	asked_at VARCHAR(32) NOT NULL, 
	expires_at VARCHAR(32) NOT NULL, 
	decided_at VARCHAR(32), 
	decided_by VARCHAR(255), 
	reason TEXT NOT NULL, node VARCHAR(255) DEFAULT '' NOT NULL, agent VARCHAR(64) DEFAULT '' NOT NULL, used_at VARCHAR(32), 
	PRIMARY KEY (id)
);
CREATE TABLE curations (
	run_id VARCHAR(64) NOT NULL, 
	at VARCHAR(32) NOT NULL, 
	written INTEGER NOT NULL, 
	outcome JSON NOT NULL, 
	PRIMARY KEY (run_id)
);
CREATE TABLE embedding_models (
	model VARCHAR(255) NOT NULL, 
	max_distance FLOAT NOT NULL, 
	PRIMARY KEY (model)
);
CREATE TABLE entities (
	id VARCHAR(64) NOT NULL, 
	origin TEXT NOT NULL, 
	line TEXT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE entries (
	"key" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	id VARCHAR(36) NOT NULL, 
	kind VARCHAR(8) NOT NULL, 
	type VARCHAR(16) NOT NULL, 
	note_type VARCHAR(64) NOT NULL, 
	text TEXT NOT NULL, 
	output TEXT NOT NULL, 
	score INTEGER, 
	scope VARCHAR(32) NOT NULL, 
	agent VARCHAR(255), 
	user_id VARCHAR(255), 
	company VARCHAR(255), 
	status VARCHAR(16) NOT NULL, 
	expires_at VARCHAR(32), 
	protection VARCHAR(16) NOT NULL, 
	confidence INTEGER, 
	flags JSON NOT NULL, 
	digest VARCHAR(32) NOT NULL, 
	author VARCHAR(16) NOT NULL, 
	author_name VARCHAR(255) NOT NULL, 
	source_run VARCHAR(64), 
	version INTEGER NOT NULL, 
	created_at VARCHAR(32) NOT NULL, 
	updated_at VARCHAR(32) NOT NULL, evidence TEXT DEFAULT '' NOT NULL, 
	UNIQUE (id)
);
INSERT INTO "entries" VALUES(1,'3049a9bd-4f96-4fe8-b34b-0df4879be4c6','note','Preference','Preference','Indent with two spaces','',NULL,'2229880e58dcc518870ce3a036f0fee8',NULL,'ann',NULL,'Active',NULL,'Protected',NULL,'[]','1985945f4e4786d9100bc2422aff5ca9','person','',NULL,2,'2026-01-01T00:00:00.000017+00:00','2026-01-01T00:00:00.000018+00:00','');
INSERT INTO "entries" VALUES(2,'88ede089-41ac-4ce0-8912-35f23199a316','note','Constraint','Law','Never log names','',NULL,'bfbcd8497fda1bd81f805aa90f35ac73',NULL,NULL,'acme','Active',NULL,'Normal',NULL,'[]','9e56d044086232e427f86977d7c23da2','person','',NULL,1,'2026-01-01T00:00:00.000019+00:00','2026-01-01T00:00:00.000019+00:00','');
INSERT INTO "entries" VALUES(3,'1b17053c-c71c-4759-93bd-1c32542081e6','note','Context','Context','CI runs Python 3.13','',NULL,'4a13c27a41622f35a35d4842b46faf48','native','zoë','acme','Pending',NULL,'Normal',70,'[["contradicts", "88ede089-41ac-4ce0-8912-35f23199a316", "why"]]','292866fdc2ffba008046cd469cb392eb','curator','a-model 2','r1',1,'2026-01-01T00:00:00.000020+00:00','2026-01-01T00:00:00.000020+00:00','python 3.13');
INSERT INTO "entries" VALUES(4,'cf954b9c-76ff-4517-8356-fbe0ad3ab9e9','note','Issue','Issue','The cache is slow','',NULL,'7ed5958c5c4e53cf25f55d33f1988c74',NULL,NULL,NULL,'Pending','2026-01-08T00:00:00.000020+00:00','Normal',NULL,'[]','bda5560062cd7ea23ec9b96038214f2f','agent','native','r2',1,'2026-01-01T00:00:00.000021+00:00','2026-01-01T00:00:00.000021+00:00','');
INSERT INTO "entries" VALUES(5,'7bb4091a-2d33-4210-87cd-a9eba03c1ced','note','Context','Context','Use make','',NULL,'7ed5958c5c4e53cf25f55d33f1988c74',NULL,NULL,NULL,'Revoked',NULL,'Normal',NULL,'[]','200facfc7a974bd88299dc1479361bdb','person','',NULL,2,'2026-01-01T00:00:00.000022+00:00','2026-01-01T00:00:00.000023+00:00','');
INSERT INTO "entries" VALUES(6,'7c9003a3-435a-4061-87eb-8c30f6e56abe','example','','','Sales of Q1?','April to June: 1.2M',75,'7ed5958c5c4e53cf25f55d33f1988c74',NULL,NULL,NULL,'Active',NULL,'Normal',NULL,'[]','72b86d79c34b5b6345da7d796931d337','person','',NULL,2,'2026-01-01T00:00:00.000024+00:00','2026-01-01T00:00:00.000025+00:00','');
INSERT INTO "entries" VALUES(7,'bc772bd3-c628-4f01-afcf-fe690852e822','example','','','Sales of Q2?','none',100,'2229880e58dcc518870ce3a036f0fee8',NULL,'ann',NULL,'Pending',NULL,'Normal',NULL,'[]','b94ad4d45bc34a8d26a3cf5730cab28a','person','',NULL,1,'2026-01-01T00:00:00.000026+00:00','2026-01-01T00:00:00.000026+00:00','');
CREATE TABLE entry_vectors (
	entry_key INTEGER NOT NULL, 
	model VARCHAR(255) NOT NULL, 
	dimensions INTEGER NOT NULL, 
	vector BLOB NOT NULL, 
	PRIMARY KEY (entry_key), 
	FOREIGN KEY(entry_key) REFERENCES entries ("key") ON DELETE CASCADE
);
INSERT INTO "entry_vectors" VALUES(1,'words',8,X'C520803F6F12833AC520803FC520803F6F12833A6F12833AC520803F6F12833A');
INSERT INTO "entry_vectors" VALUES(2,'words',8,X'6F12833A6F12833A6F12833AC520803FC520803F6F12833AC520803F6F12833A');
INSERT INTO "entry_vectors" VALUES(3,'words',8,X'C520803FC520803F6F12833AC520803F6F12833AC520803F6F12833A6F12833A');
INSERT INTO "entry_vectors" VALUES(4,'words',8,X'C520803FC520803F6F12833A6F12833A6F12833A621000406F12833A6F12833A');
INSERT INTO "entry_vectors" VALUES(6,'words',8,X'C520803F6F12833A6F12833AC520803F6F12833AC520803F6F12833A6F12833A');
INSERT INTO "entry_vectors" VALUES(7,'words',8,X'C520803F6F12833A6F12833AC520803F6F12833AC520803F6F12833A6F12833A');
CREATE TABLE entry_versions (
	entry_key INTEGER NOT NULL, 
	version INTEGER NOT NULL, 
	at VARCHAR(32) NOT NULL, 
	author VARCHAR(16) NOT NULL, 
	author_name VARCHAR(255) NOT NULL, 
	content JSON NOT NULL, 
	PRIMARY KEY (entry_key, version), 
	FOREIGN KEY(entry_key) REFERENCES entries ("key") ON DELETE CASCADE
);
INSERT INTO "entry_versions" VALUES(1,1,'2026-01-01T00:00:00.000017+00:00','person','','{"scope": {"agent": null, "user": "ann", "company": null}, "status": "Active", "expires_at": null, "protection": "Normal", "text": "Indent with tabs", "type": "Preference", "note_type": "Preference"}');
INSERT INTO "entry_versions" VALUES(1,2,'2026-01-01T00:00:00.000018+00:00','person','ann','{"scope": {"agent": null, "user": "ann", "company": null}, "status": "Active", "expires_at": null, "protection": "Protected", "text": "Indent with two spaces", "type": "Preference", "note_type": "Preference"}');
INSERT INTO "entry_versions" VALUES(2,1,'2026-01-01T00:00:00.000019+00:00','person','','{"scope": {"agent": null, "user": null, "company": "acme"}, "status": "Active", "expires_at": null, "protection": "Normal", "text": "Never log names", "type": "Constraint", "note_type": "Law"}');
INSERT INTO "entry_versions" VALUES(3,1,'2026-01-01T00:00:00.000020+00:00','curator','a-model 2','{"scope": {"agent": "native", "user": "zo\u00eb", "company": "acme"}, "status": "Pending", "expires_at": null, "protection": "Normal", "text": "CI runs Python 3.13", "type": "Context", "note_type": "Context"}');
INSERT INTO "entry_versions" VALUES(4,1,'2026-01-01T00:00:00.000021+00:00','agent','native','{"scope": {"agent": null, "user": null, "company": null}, "status": "Pending", "expires_at": "2026-01-08T00:00:00.000020+00:00", "protection": "Normal", "text": "The cache is slow", "type": "Issue", "note_type": "Issue"}');
INSERT INTO "entry_versions" VALUES(5,1,'2026-01-01T00:00:00.000022+00:00','person','','{"scope": {"agent": null, "user": null, "company": null}, "status": "Active", "expires_at": null, "protection": "Normal", "text": "Use make", "type": "Context", "note_type": "Context"}');
INSERT INTO "entry_versions" VALUES(5,2,'2026-01-01T00:00:00.000023+00:00','person','','{"scope": {"agent": null, "user": null, "company": null}, "status": "Revoked", "expires_at": null, "protection": "Normal", "text": "Use make", "type": "Context", "note_type": "Context"}');
INSERT INTO "entry_versions" VALUES(6,1,'2026-01-01T00:00:00.000024+00:00','person','','{"scope": {"agent": null, "user": null, "company": null}, "status": "Active", "expires_at": null, "protection": "Normal", "input": "Sales of Q1?", "output": "April to June: 1.2M", "score": 90}');
INSERT INTO "entry_versions" VALUES(6,2,'2026-01-01T00:00:00.000025+00:00','person','','{"scope": {"agent": null, "user": null, "company": null}, "status": "Active", "expires_at": null, "protection": "Normal", "input": "Sales of Q1?", "output": "April to June: 1.2M", "score": 75}');
INSERT INTO "entry_versions" VALUES(7,1,'2026-01-01T00:00:00.000026+00:00','person','','{"scope": {"agent": null, "user": "ann", "company": null}, "status": "Pending", "expires_at": null, "protection": "Normal", "input": "Sales of Q2?", "output": "none", "score": 100}');
CREATE TABLE event_heads (
	id VARCHAR(64) NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE events (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	id VARCHAR(64) NOT NULL, 
	run_id VARCHAR(64) NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	replica VARCHAR(64) NOT NULL, 
	counter INTEGER NOT NULL, 
	line TEXT NOT NULL, 
	UNIQUE (id)
);
CREATE TABLE executions (
	id VARCHAR(36) NOT NULL, 
	playbook_key INTEGER, 
	playbook_version INTEGER, 
	run_id VARCHAR(64), 
	agent VARCHAR(255) NOT NULL, 
	task TEXT NOT NULL, 
	outcome VARCHAR(16) NOT NULL, 
	started_at VARCHAR(32), 
	completed_at VARCHAR(32) NOT NULL, 
	expires_at VARCHAR(32), 
	step_results JSON NOT NULL, 
	reflection JSON, 
	reflection_applied BOOLEAN NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(playbook_key) REFERENCES playbooks ("key") ON DELETE CASCADE, 
	CONSTRAINT one_execution_a_run UNIQUE (run_id, playbook_key)
);
INSERT INTO "executions" VALUES('ccfeede4-8b92-435b-b694-4b2b282bf78b',1,2,'r1','native','rotate','success','2026-01-01T00:00:00.000010+00:00','2026-01-01T00:00:00.000011+00:00',NULL,'[{"name": "test", "outcome": "success", "output": "ok", "duration_ms": 5}]','null',0);
INSERT INTO "executions" VALUES('6ad3b3b4-836b-4201-a32b-8b75b316116e',1,2,'r2','','','failure',NULL,'2026-01-01T00:00:00.000012+00:00',NULL,'[]','{"what_worked": [], "what_failed": ["it was sealed"], "improvements": ["Unseal it."], "should_update": true, "title": "", "told": []}',0);
INSERT INTO "executions" VALUES('e7f51027-b227-4dda-a7f2-d9cc5a4a0e1d',2,1,'r3','','','partial',NULL,'2026-01-01T00:00:00.000013+00:00',NULL,'[]','null',0);
INSERT INTO "executions" VALUES('8b602e13-95b2-4bdd-90eb-7e609a519307',2,1,'r4','','','pending',NULL,'2026-01-01T00:00:00.000014+00:00','2026-01-02T00:00:00.000013+00:00','[]','null',0);
INSERT INTO "executions" VALUES('89aa15ca-a2ac-4df0-a691-924fd01b304e',NULL,NULL,'r5','','new work','success',NULL,'2026-01-01T00:00:00.000015+00:00',NULL,'[]','{"what_worked": [], "what_failed": [], "improvements": ["Look twice."], "should_update": true, "title": "New work", "told": []}',0);
CREATE TABLE last_changes (
	playbook_key INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	PRIMARY KEY (playbook_key), 
	UNIQUE (number)
);
INSERT INTO "last_changes" VALUES(1,1);
INSERT INTO "last_changes" VALUES(2,2);
INSERT INTO "last_changes" VALUES(3,3);
INSERT INTO "last_changes" VALUES(4,4);
INSERT INTO "last_changes" VALUES(5,5);
INSERT INTO "last_changes" VALUES(6,6);
INSERT INTO "last_changes" VALUES(7,7);
CREATE TABLE lessons (
	id INTEGER NOT NULL, 
	playbook_key INTEGER NOT NULL, 
	text TEXT NOT NULL, 
	digest VARCHAR(32) NOT NULL, 
	run_id VARCHAR(64), 
	at VARCHAR(32) NOT NULL, 
	model VARCHAR(255), 
	vector BLOB, 
	PRIMARY KEY (id), 
	FOREIGN KEY(playbook_key) REFERENCES playbooks ("key") ON DELETE CASCADE, 
	CONSTRAINT one_lesson_once UNIQUE (playbook_key, digest)
);
INSERT INTO "lessons" VALUES(1,1,'Unseal the vault first.','603f2cb767d75fc1b464b89d5baad9c4','r1','2026-01-01T00:00:00.000008+00:00','words',X'6F12833A6F12833AC520803FC520803F6F12833AC520803F6F12833AC520803F');
INSERT INTO "lessons" VALUES(2,1,'Wait an hour.','8676173bf92bb5590ebda0a6bfe5504e','r1','2026-01-01T00:00:00.000008+00:00','words',X'6F12833A6F12833A6F12833AC520803F6F12833A6F12833A621000406F12833A');
INSERT INTO "lessons" VALUES(3,1,'Ask Ann.','2f4fe32892e62044c693f950b26d0ab5',NULL,'2026-01-01T00:00:00.000009+00:00','words',X'6F12833A6F12833AC520803F6F12833A6F12833A6F12833A6F12833AC520803F');
CREATE TABLE merged_events (
	id VARCHAR(64) NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE note_types (
	name VARCHAR(64) NOT NULL, 
	type VARCHAR(16) NOT NULL, 
	priority INTEGER NOT NULL, 
	description TEXT NOT NULL, 
	standard BOOLEAN NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "note_types" VALUES('Constraint','Constraint',100,'',1);
INSERT INTO "note_types" VALUES('Preference','Preference',80,'',1);
INSERT INTO "note_types" VALUES('Issue','Issue',60,'',1);
INSERT INTO "note_types" VALUES('Context','Context',40,'',1);
INSERT INTO "note_types" VALUES('Example','Example',20,'',1);
INSERT INTO "note_types" VALUES('Law','Constraint',500,'of the land',0);
CREATE TABLE notebook_generation (
	id INTEGER NOT NULL, 
	number INTEGER NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "notebook_generation" VALUES(1,13);
CREATE TABLE outdated (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	playbook_key INTEGER NOT NULL
);
CREATE TABLE passage_vectors (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	playbook_key INTEGER NOT NULL, 
	model VARCHAR(255) NOT NULL, 
	dimensions INTEGER NOT NULL, 
	digest VARCHAR(32) NOT NULL, 
	vector BLOB NOT NULL, 
	FOREIGN KEY(playbook_key) REFERENCES playbooks ("key") ON DELETE CASCADE
);
INSERT INTO "passage_vectors" VALUES(1,1,'words',8,'fc3fe39a5af945e08f670f3c20c23852',X'621000406210404031088040310880406210004062100040310880403108C040');
INSERT INTO "passage_vectors" VALUES(2,2,'words',8,'ccb37e0b3b477e9f9b7d61998db7301a',X'6F12833A6F12833AC520803F6F12833A6F12833A6F12833AC520803F6F12833A');
INSERT INTO "passage_vectors" VALUES(3,3,'words',8,'30d5032f608b9573aa669ede4c7ee781',X'6F12833A6F12833A6F12833A6F12833AC520803F62100040C520803F6F12833A');
INSERT INTO "passage_vectors" VALUES(4,4,'words',8,'e74f1dcd3e0ca47dafc21b723545698a',X'6F12833A6F12833AC520803F621000406F12833A6F12833A6F12833A6F12833A');
INSERT INTO "passage_vectors" VALUES(5,6,'words',8,'ccb37e0b3b477e9f9b7d61998db7301a',X'6F12833A6F12833AC520803F6F12833A6F12833A6F12833AC520803F6F12833A');
INSERT INTO "passage_vectors" VALUES(6,7,'words',8,'61dabba33c229870e7ce0f49b5cdcc70',X'C520803F6F12833A621000406F12833A6F12833AC520803FC520803F6F12833A');
CREATE TABLE playbook_tags (
	playbook_key INTEGER NOT NULL, 
	tag VARCHAR(255) NOT NULL, 
	PRIMARY KEY (playbook_key, tag), 
	FOREIGN KEY(playbook_key) REFERENCES playbooks ("key") ON DELETE CASCADE
);
INSERT INTO "playbook_tags" VALUES(1,'keys');
CREATE TABLE playbook_versions (
	playbook_key INTEGER NOT NULL, 
	version INTEGER NOT NULL, 
	at VARCHAR(32) NOT NULL, 
	source VARCHAR(255) NOT NULL, 
	content JSON NOT NULL, 
	PRIMARY KEY (playbook_key, version), 
	FOREIGN KEY(playbook_key) REFERENCES playbooks ("key") ON DELETE CASCADE
);
INSERT INTO "playbook_versions" VALUES(1,1,'2026-01-01T00:00:00.000001+00:00','person','{"title": "Rotate signing keys", "use_case": "after a leak", "process": "Tell the owners.", "steps": [{"action": "make a new key", "order": 1, "tool": "vault", "tool_args": {"n": 1, "\u00e9": null}, "expected": "an id", "fallback": "ask"}], "notes": "slow", "category": "security", "tags": ["keys", "vault"], "status": "active"}');
INSERT INTO "playbook_versions" VALUES(1,2,'2026-01-01T00:00:00.000002+00:00','person','{"title": "Rotate signing keys", "use_case": "after a leak", "process": "Tell the owners first.", "steps": [{"action": "make a new key", "order": 1, "tool": "vault", "tool_args": {"n": 1, "\u00e9": null}, "expected": "an id", "fallback": "ask"}], "notes": "slow", "category": "security", "tags": ["keys"], "status": "active"}');
INSERT INTO "playbook_versions" VALUES(2,1,'2026-01-01T00:00:00.000003+00:00','person','{"title": "Bake bread", "use_case": "", "process": "", "steps": [], "notes": "", "category": "kitchen", "tags": [], "status": "active"}');
INSERT INTO "playbook_versions" VALUES(3,1,'2026-01-01T00:00:00.000004+00:00','person','{"title": "Move the mailing list", "use_case": "", "process": "", "steps": [], "notes": "", "category": "", "tags": [], "status": "archived"}');
INSERT INTO "playbook_versions" VALUES(4,1,'2026-01-01T00:00:00.000005+00:00','run r9','{"title": "Prune a tree", "use_case": "", "process": "", "steps": [], "notes": "", "category": "", "tags": [], "status": "draft"}');
INSERT INTO "playbook_versions" VALUES(6,1,'2026-01-01T00:00:00.000007+00:00','import','{"title": "Bake bread", "use_case": "", "process": "", "steps": [], "notes": "", "category": "", "tags": [], "status": "active"}');
INSERT INTO "playbook_versions" VALUES(7,1,'2026-01-01T00:00:00.000016+00:00','run r6','{"title": "From an agent", "use_case": "x", "process": "", "steps": [], "notes": "", "category": "", "tags": [], "status": "draft"}');
CREATE TABLE playbooks (
	"key" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	id VARCHAR(36) NOT NULL, 
	slug VARCHAR(120) NOT NULL, 
	title VARCHAR(255) NOT NULL, 
	use_case TEXT NOT NULL, 
	process TEXT NOT NULL, 
	steps JSON NOT NULL, 
	notes TEXT NOT NULL, 
	category VARCHAR(255) NOT NULL, 
	tags JSON NOT NULL, 
	status VARCHAR(16) NOT NULL, 
	version INTEGER NOT NULL, 
	successes INTEGER NOT NULL, 
	partials INTEGER NOT NULL, 
	failures INTEGER NOT NULL, 
	source VARCHAR(255) NOT NULL, 
	created_at VARCHAR(32) NOT NULL, 
	updated_at VARCHAR(32) NOT NULL, 
	last_used_at VARCHAR(32), 
	UNIQUE (id), 
	UNIQUE (slug)
);
INSERT INTO "playbooks" VALUES(1,'12f4e238-a59e-4b25-96b7-9163c24ab6ed','rotate-signing-keys','Rotate signing keys','after a leak','Tell the owners first.','[{"action": "make a new key", "order": 1, "tool": "vault", "tool_args": {"n": 1, "\u00e9": null}, "expected": "an id", "fallback": "ask"}]','slow','security','["keys"]','active',2,1,0,1,'person','2026-01-01T00:00:00.000001+00:00','2026-01-01T00:00:00.000002+00:00','2026-01-01T00:00:00.000012+00:00');
INSERT INTO "playbooks" VALUES(2,'1e824fab-b5f8-484d-93e9-a78e986df0de','bake-bread','Bake bread','','','[]','','kitchen','[]','active',1,0,1,0,'person','2026-01-01T00:00:00.000003+00:00','2026-01-01T00:00:00.000003+00:00','2026-01-01T00:00:00.000014+00:00');
INSERT INTO "playbooks" VALUES(3,'b083808f-ac22-4c99-a17b-ce4d37b22293','move-the-mailing-list','Move the mailing list','','','[]','','','[]','archived',1,0,0,0,'person','2026-01-01T00:00:00.000004+00:00','2026-01-01T00:00:00.000004+00:00',NULL);
INSERT INTO "playbooks" VALUES(4,'0472c865-a687-4dda-98eb-266d33b02735','prune-a-tree','Prune a tree','','','[]','','','[]','draft',1,0,0,0,'run r9','2026-01-01T00:00:00.000005+00:00','2026-01-01T00:00:00.000005+00:00',NULL);
INSERT INTO "playbooks" VALUES(6,'3e495548-11c1-464c-87ce-fcb86420b357','bake-bread-3e495548','Bake bread','','','[]','','','[]','active',1,0,0,0,'import','2026-01-01T00:00:00.000007+00:00','2026-01-01T00:00:00.000007+00:00',NULL);
INSERT INTO "playbooks" VALUES(7,'c725937f-1308-455c-8fd2-95648859c20f','from-an-agent','From an agent','x','','[]','','','[]','draft',1,0,0,0,'run r6','2026-01-01T00:00:00.000016+00:00','2026-01-01T00:00:00.000016+00:00',NULL);
CREATE TABLE ratings (
	run_id VARCHAR(64) NOT NULL, 
	score INTEGER NOT NULL, 
	author_name VARCHAR(255) NOT NULL, 
	at VARCHAR(32) NOT NULL, 
	PRIMARY KEY (run_id)
);
INSERT INTO "ratings" VALUES('r1',95,'ann','2026-01-01T00:00:00.000030+00:00');
CREATE TABLE recalled (
	run_id VARCHAR(64) NOT NULL, 
	playbook_id VARCHAR(36) NOT NULL, 
	rank INTEGER NOT NULL, 
	score FLOAT NOT NULL, 
	grouped VARCHAR(16) NOT NULL, 
	shown BOOLEAN NOT NULL, 
	cited BOOLEAN NOT NULL, 
	PRIMARY KEY (run_id, playbook_id), 
	FOREIGN KEY(run_id) REFERENCES recalls (run_id)
);
INSERT INTO "recalled" VALUES('r1','12f4e238-a59e-4b25-96b7-9163c24ab6ed',1,1.0,'untested',1,0);
CREATE TABLE recalls (
	run_id VARCHAR(64) NOT NULL, 
	at VARCHAR(32) NOT NULL, 
	task TEXT NOT NULL, 
	held_out BOOLEAN NOT NULL, 
	outcome VARCHAR(16), share FLOAT, 
	PRIMARY KEY (run_id)
);
INSERT INTO "recalls" VALUES('r1','2026-01-01T00:00:00.000010+00:00','rotate the keys',0,NULL,0.0);
CREATE TABLE run_writes (
	run_id VARCHAR(64) NOT NULL, 
	created INTEGER NOT NULL, 
	writes INTEGER NOT NULL, 
	PRIMARY KEY (run_id)
);
INSERT INTO "run_writes" VALUES('r6',1,1);
CREATE TABLE shown_entries (
	run_id VARCHAR(64) NOT NULL, 
	node VARCHAR(255) NOT NULL, 
	entry_id VARCHAR(36) NOT NULL, 
	entry_version INTEGER NOT NULL, 
	rank INTEGER NOT NULL, 
	at VARCHAR(32) NOT NULL, 
	PRIMARY KEY (run_id, node, entry_id)
);
INSERT INTO "shown_entries" VALUES('r1','work','3049a9bd-4f96-4fe8-b34b-0df4879be4c6',2,1,'2026-01-01T00:00:00.000029+00:00');
INSERT INTO "shown_entries" VALUES('r1','work','7c9003a3-435a-4061-87eb-8c30f6e56abe',2,2,'2026-01-01T00:00:00.000029+00:00');
CREATE TABLE store (
	id VARCHAR(36) NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "store" VALUES('149bee12-c46d-4e2d-a250-183744babb64');
CREATE TABLE words (
	word VARCHAR(64) NOT NULL, 
	playbook_key INTEGER NOT NULL, 
	impact FLOAT NOT NULL, 
	PRIMARY KEY (word, playbook_key), 
	FOREIGN KEY(playbook_key) REFERENCES playbooks ("key") ON DELETE CASCADE
)
 WITHOUT ROWID

;
INSERT INTO "words" VALUES('after',1,1.5827);
INSERT INTO "words" VALUES('agent',7,1.9556);
INSERT INTO "words" VALUES('ann',1,1.236);
INSERT INTO "words" VALUES('ask',1,1.236);
INSERT INTO "words" VALUES('bak',2,1.9298);
INSERT INTO "words" VALUES('bak',6,1.9469);
INSERT INTO "words" VALUES('bread',2,1.9298);
INSERT INTO "words" VALUES('bread',6,1.9469);
INSERT INTO "words" VALUES('first',1,1.5827);
INSERT INTO "words" VALUES('hour',1,1.236);
INSERT INTO "words" VALUES('id',1,1.236);
INSERT INTO "words" VALUES('key',1,1.9469);
INSERT INTO "words" VALUES('kitchen',2,1.8182);
INSERT INTO "words" VALUES('leak',1,1.5827);
INSERT INTO "words" VALUES('list',3,1.9214);
INSERT INTO "words" VALUES('mail',3,1.9214);
INSERT INTO "words" VALUES('mak',1,1.236);
INSERT INTO "words" VALUES('mov',3,1.9214);
INSERT INTO "words" VALUES('new',1,1.236);
INSERT INTO "words" VALUES('owner',1,1.236);
INSERT INTO "words" VALUES('prun',4,1.9469);
INSERT INTO "words" VALUES('rotat',1,1.746);
INSERT INTO "words" VALUES('security',1,1.5827);
INSERT INTO "words" VALUES('sign',1,1.746);
INSERT INTO "words" VALUES('tell',1,1.236);
INSERT INTO "words" VALUES('tre',4,1.9469);
INSERT INTO "words" VALUES('unseal',1,1.236);
INSERT INTO "words" VALUES('vault',1,1.5827);
INSERT INTO "words" VALUES('wait',1,1.236);
INSERT INTO "words" VALUES('x',7,1.8526);
CREATE INDEX ix_playbooks_category ON playbooks (category);
CREATE INDEX ix_playbooks_status ON playbooks (status);
CREATE INDEX ix_executions_outcome ON executions (outcome);
CREATE INDEX ix_executions_playbook_key ON executions (playbook_key);
CREATE INDEX ix_executions_run_id ON executions (run_id);
CREATE INDEX words_by_impact ON words (word, impact, playbook_key);
CREATE INDEX words_by_playbook ON words (playbook_key);
CREATE INDEX entries_by_scope ON entries (kind, scope, status);
CREATE INDEX entries_by_update ON entries (kind, updated_at);
CREATE INDEX entries_by_digest ON entries (kind, digest);
CREATE INDEX ix_entries_source_run ON entries (source_run);
CREATE INDEX ix_shown_entries_entry_id ON shown_entries (entry_id);
CREATE INDEX ix_events_run_id ON events (run_id);
CREATE INDEX ix_approvals_action ON approvals (action);
CREATE INDEX ix_approvals_run_id ON approvals (run_id);
CREATE INDEX ix_approvals_status ON approvals (status);
CREATE TRIGGER events_no_update BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events is append-only'); END;
CREATE TRIGGER events_no_delete BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events is append-only'); END;
CREATE TRIGGER events_no_replace BEFORE INSERT ON events WHEN EXISTS (SELECT 1 FROM events WHERE id = NEW.id OR number = NEW.number) BEGIN SELECT RAISE(ABORT, 'events is append-only'); END;
CREATE TRIGGER entities_no_update BEFORE UPDATE ON entities BEGIN SELECT RAISE(ABORT, 'entities is append-only'); END;
CREATE TRIGGER entities_no_delete BEFORE DELETE ON entities BEGIN SELECT RAISE(ABORT, 'entities is append-only'); END;
CREATE TRIGGER entities_no_replace BEFORE INSERT ON entities WHEN EXISTS (SELECT 1 FROM entities WHERE id = NEW.id) BEGIN SELECT RAISE(ABORT, 'entities is append-only'); END;
CREATE INDEX passages_by_playbook ON passage_vectors (playbook_key);
CREATE INDEX passages_by_model ON passage_vectors (model, dimensions);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('outdated',11);
INSERT INTO "sqlite_sequence" VALUES('passage_vectors',6);
INSERT INTO "sqlite_sequence" VALUES('playbooks',7);
INSERT INTO "sqlite_sequence" VALUES('entries',7);
COMMIT;
