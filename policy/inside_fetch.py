"""Runs in the sandbox, stdlib only: print a page's status, and after it the text."""

import sys
import urllib.error
import urllib.request

LIMIT = 256 * 1024

url = sys.argv[1]
if not url.startswith(("http://", "https://")):
    sys.exit(f"{url!r} is no web address")
try:
    with urllib.request.urlopen(url, timeout=30) as page:  # noqa: S310 - checked above
        status, data = page.status, page.read(LIMIT)
except urllib.error.HTTPError as error:
    status, data = error.code, error.read(LIMIT)
sys.stdout.write(f"{status}\n{data.decode('utf-8', 'replace')}")
