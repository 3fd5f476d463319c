"""A page to try out a model: plain functions compute what it shows, `page.py` lays it out."""

PORT = 7860  # default port; defined here so that `electra play --help` does not import torch
