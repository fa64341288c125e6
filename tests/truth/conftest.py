from tests.truth.shared import TRUTH

collect_ignore = [] if TRUTH.exists() else ["test_truth.py"]
