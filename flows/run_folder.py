"""The files in a run's own folder, `HARNESS_HOME/runs/<run id>`, and who writes each.

run.json           what was asked, and by which process it is done       flows/asked.py
lock               locked while a process does the run                   flows/run_lock.py
turn               locked while a process waits for its turn to          flows/run_lock.py
checkpoint.json    what is done; there as long as the run can go on      flows/checkpoints.py
trajectory.jsonl   what was said to models and what they said            providers/trajectory.py
egress.jsonl       what commands tried to reach, and were told           flows/egress.py
diff.patch         the whole diff of the work                            flows/runs.py
report.json        how the run ended; away while it is done again        flows/runs.py
untold.json        there until memory was told of the report             flows/untold.py
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
