"""The part of ONNX Runtime that Engram uses; it ships no types of its own."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

class NodeArg:
    name: str
    shape: list[int | str]

class SessionOptions:
    intra_op_num_threads: int
    inter_op_num_threads: int
    enable_mem_pattern: bool

class InferenceSession:
    def __init__(
        self, path: str, options: SessionOptions, *, providers: Sequence[str]
    ) -> None: ...
    def get_inputs(self) -> Sequence[NodeArg]: ...
    def get_outputs(self) -> Sequence[NodeArg]: ...
    def run(
        self, outputs: Sequence[str], feed: Mapping[str, NDArray[Any]]
    ) -> Sequence[NDArray[np.float32]]: ...
