"""Read documents from files, folders, standard input, URLs and Hugging Face datasets."""
