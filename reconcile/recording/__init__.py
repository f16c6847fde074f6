"""Keeps what a manager received and decided in a file, from which its runs can be executed again.

`reconcile.testing` has the other half, which executes them; docs/reference/recordings.md has the format.
"""

from reconcile.recording.recording_reader import RecordingProblem, read_recording

__all__ = ["RecordingProblem", "read_recording"]
