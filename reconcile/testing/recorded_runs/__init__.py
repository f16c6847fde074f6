"""Executes the recorded runs of a manager again, with the same or with newer code."""

from reconcile.testing.recorded_runs.replay_report import ReplayReport, RunDifference
from reconcile.testing.recorded_runs.run_replay import replay_recording

__all__ = ["ReplayReport", "RunDifference", "replay_recording"]
