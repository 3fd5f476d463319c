"""The page to play with a model: plain functions make what it shows, `page.py` lays it out."""

PORT = 7860  # where the page is served unless told otherwise; here, so that the command's help needs no torch
