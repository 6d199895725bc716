"""Script for the sandbox (standard library only): print the status and text of a web page."""

import sys
import urllib.error
import urllib.request

LIMIT = 256 * 1024

url = sys.argv[1]
if not url.startswith(("http://", "https://")):
    sys.exit(f"{url!r} is not an http or https URL")
try:
    with urllib.request.urlopen(url, timeout=30) as page:  # noqa: S310 - checked above
        status, data = page.status, page.read(LIMIT)
except urllib.error.HTTPError as error:
    status, data = error.code, error.read(LIMIT)
sys.stdout.write(f"{status}\n{data.decode('utf-8', 'replace')}")
