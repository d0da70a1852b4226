"""Any encoder, reranker, tagger or classifier → an ONNX graph → a bundle (needs torch)."""
