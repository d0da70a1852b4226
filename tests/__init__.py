"""The test suite; helpers that several folders share are in `tests.support`."""
