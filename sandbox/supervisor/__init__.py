"""Process 1 of the sandbox: root, and it starts everything else as the sandbox user.

The harness starts the container's Python with these files as its program, then exchanges frames
with it on the container's own stream; the image needs nothing but Python. One process moves bytes
between the stream and the jobs, starts each job with its own mark, and ends the processes with
that mark. No command can kill it: nothing in a container can kill process 1. When the stream ends
or the time is over, everything ends.

Standard library only, Python 3.9 or later, without `pathlib` and `typing`, which make the start
slower. Types that would need a circular import are `Any`: the event loop and its parts for each
other, and the fields of a request.
"""
