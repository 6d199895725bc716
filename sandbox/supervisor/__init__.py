"""Runs inside the sandbox as root, and starts everything else as the sandbox user.

The harness sends these files down one stream and then talks frames with them; the image
needs nothing but Python. One process, the *pump*, moves bytes between the stream and the
jobs. Each job has a *shepherd*, a fork that stays root: it starts the job as the sandbox
user, and as a subreaper it becomes the parent of whatever the job orphans, so that it can
end exactly that tree and no other. When the stream ends, everything ends.

Standard library only, Python 3.9 or later.
"""
