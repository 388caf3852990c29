"""Checks that a replay has judged pages and changed no verdict: python3 replayed.py REPORT.json."""

import json
import sys

counts = json.load(open(sys.argv[1]))["variants"][0]["counts"]
print(f"{counts['pages']} pages, changed: {counts['changed']}")
sys.exit(counts["pages"] < 1000 or counts["changed"] != {} or counts["gone"] != 0)
