"""What agents may have done outside the sandbox: declared, proposed, and made harmless."""
