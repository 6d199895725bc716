"""The sandbox beside one `docker exec` each, and beside other people's sandboxes."""
