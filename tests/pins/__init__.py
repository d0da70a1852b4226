"""What a user touches, pinned to golden files: a change here is a change for users.

A refactoring must leave every golden file as it is. Where a change is meant, write them again with
`MALMOI_UPDATE_PINS=1 pytest tests/pins` and review the difference.
"""
