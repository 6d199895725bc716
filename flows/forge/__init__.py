"""The APIs of GitHub, GitLab and Gitea: pull requests, checks, comments, reviews, issues."""
