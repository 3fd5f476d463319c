"""Where everything meets: each command's work as one public function."""
