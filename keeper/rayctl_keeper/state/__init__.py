"""What is known of a run: its state document, and the causes of its end."""
