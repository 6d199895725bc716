"""Embeddings of playbooks, and the Chroma index over them."""
