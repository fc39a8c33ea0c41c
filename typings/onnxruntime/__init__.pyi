"""The part of ONNX Runtime that Engram uses; it ships no types of its own."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

class NodeArg:
    name: str
    shape: list[int | str]

class GraphOptimizationLevel:
    ORT_DISABLE_ALL: GraphOptimizationLevel
    ORT_ENABLE_EXTENDED: GraphOptimizationLevel
    name: str

class SessionOptions:
    intra_op_num_threads: int
    inter_op_num_threads: int
    enable_mem_pattern: bool
    graph_optimization_level: GraphOptimizationLevel
    optimized_model_filepath: str

class InferenceSession:
    def __init__(self, path: str, options: SessionOptions, *, providers: Sequence[str]) -> None: ...
    def get_inputs(self) -> Sequence[NodeArg]: ...
    def get_outputs(self) -> Sequence[NodeArg]: ...
    def run(
        self, outputs: Sequence[str], feed: Mapping[str, NDArray[Any]]
    ) -> Sequence[NDArray[np.float32]]: ...

def get_version_string() -> str: ...
