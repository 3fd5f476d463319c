"""The networks: one encoder, its heads, and what is built from them."""
