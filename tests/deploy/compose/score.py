"""Checks the result of `dupgate demo score -o json`: python3 score.py SCORE.json."""

import json
import sys

score = json.load(open(sys.argv[1]))
copies, said, unique = score["all_copies"], score["verdicts"]["all"], score["unique"]
print(
    f"{copies['found']} of {copies['planted']} copies found, {said['right']} of {said['said']} verdicts of duplicates right, "
    f"{unique['lost']} of {unique['planted']} unique pages lost"
)
sys.exit(copies["planted"] < 100 or copies["recall"] < 0.99 or said["precision"] < 0.999)
