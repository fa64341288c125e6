"""What engines reserve beyond the formulas: their blocks, padding, defaults and refusals.

One entry module an engine (`vllm`), its rules beside it in modules of the same prefix. An entry
takes a `ModelShape`, the engine's own arguments and a `Gpu`, and returns a plan that answers for
any context and budget.
"""
