"""From a resolved request to its answer: what routes, the command and batches all call."""
