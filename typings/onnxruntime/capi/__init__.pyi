"""Where ONNX Runtime keeps its own exceptions."""
