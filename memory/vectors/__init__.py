"""Embeddings and the Chroma index over them."""
