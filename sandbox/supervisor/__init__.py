"""Process 1 of the sandbox: root, and it starts everything else as the sandbox user.

The harness starts the container's Python with these files as its program and then talks
frames with it on the container's own stream; the image needs nothing but Python. One
process moves bytes between the stream and the jobs, starts each job with a mark of its own,
and ends exactly what bears that mark. No command can kill it, because nothing in a
container can kill process 1. When the stream ends or the time is over, everything ends.

Standard library only, Python 3.9 or later, and neither `pathlib` nor `typing`: each makes the
start slower. What a type of its own would have to be imported for, in a circle, is `Any`: the
pump and its parts for each other, and the words of a request.
"""
