"""What commands share: options, output, the live view, questions to the user."""
