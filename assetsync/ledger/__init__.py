"""What is known of each file version, durably; the only package that speaks SQL."""
