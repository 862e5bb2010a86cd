"""`onnx:FILE`: CTC networks exported to ONNX, run by onnxruntime."""
