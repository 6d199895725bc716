"""The files in a run's own folder, `HARNESS_HOME/runs/<run id>`, and who writes each.

run.json          the request, and the process that executes it       flows/runs/run_record.py
lock              held while a process executes the run               flows/runs/lock.py
turn              held while a process waits for the lock             flows/runs/lock.py
checkpoint.json   finished nodes; exists while the run can be resumed flows/runs/checkpoints.py
trajectory.jsonl  requests to models and their replies                providers/trajectory.py
egress.jsonl      hosts that commands tried to reach, and the answer  flows/execution/outcome.py
diff.patch        the whole diff of the work                          flows/runs/runs.py
report.json       the outcome; removed while the run is resumed       flows/runs/runs.py
untold.json       exists until memory has recorded the report         flows/execution/unrecorded.py
state-not-set     exists until the flow run has the report's state    flows/execution/end_state.py
"""

ASKED = "run.json"
LOCK = "lock"
TURN = "turn"
CHECKPOINT = "checkpoint.json"
TRAJECTORY = "trajectory.jsonl"
EGRESS = "egress.jsonl"
DIFF = "diff.patch"
REPORT = "report.json"
UNTOLD = "untold.json"
STATE_NOT_SET = "state-not-set"
