"""The programs under test as they are started: with a clock that a run can hurry and step."""
