"""The web pages, the HTTP API and the webhook receiver; all files are served locally."""
