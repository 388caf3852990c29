"""`dupgate eval` for three bands of lengths and three seeds: one table, then one line of JSON.

`make eval DATA=folder` runs it over every *.jsonl there and over generated texts; by hand:
python bands.py PROGRAM FILE... [-- EVAL ARGUMENTS]. Of three seeds the worst and the mean are shown. A figure below its
floor is marked, and the program ends with exit code 1. Where too few texts of a file are as short as a band, the
beginnings of longer ones are taken, up to the end of a word: `cut`, below target/eval.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BANDS = [(40, 200), (200, 1000), (1000, 20000)]
SEEDS = [1, 2, 3]
# Pages removed, uniques lost, recall of each edit, of the script, F1 of pairs (the least of the three kinds of text).
FLOORS = {"removed": 0.97, "lost": 0.002, "edit": 0.95, "script": 0.99, "f1": 0.96}
# Of fewer texts a share says nothing.
LEAST_TEXTS = 30


def figures(program, files, seed, least, most, more):
    """The JSON of one run; nothing when no text is that long."""
    command = [program, "eval", *files, "-o", "jsonl", "--seed", seed, "--min-chars", least, "--max-chars", most, *more]
    run = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if run.returncode == 74 and "no text is left" in run.stderr:
        return None
    if run.returncode:
        sys.exit(run.stderr)
    return json.loads(run.stdout)


def beginnings(file, least, most):
    """A file below target/ with the texts that are long enough, cut at different lengths of the upper half of the band."""
    path = ROOT / f"target/eval/{Path(file).stem}-{least}-{most}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(file, encoding="utf-8") as lines, open(path, "w", encoding="utf-8") as out:
        for number, line in enumerate(lines):
            text = json.loads(line)["text"]
            wanted = most - number * 7919 % (most - least) // 2
            if len(text) > wanted:
                head = text[:wanted]
                text = head if "\u4e00" <= text[wanted] <= "\u9fff" else re.sub(r"\s\S*$", "", head)
            print(json.dumps({"text": text}), file=out)
    return path


def share(count):
    return count["found"] / count["planted"] if count["planted"] else None


def row(runs):
    """Worst and mean of each figure; the weakest edit over all runs together, where a single copy weighs less."""
    planted, found = {}, {}
    for run in runs:
        for edit, count in run["edits"].items():
            planted[edit] = planted.get(edit, 0) + count["planted"]
            found[edit] = found.get(edit, 0) + count["found"]
    edits = {edit: found[edit] / planted[edit] for edit in planted}
    weakest = min(edits, key=edits.get)
    mean = lambda values: sum(values) / len(values)
    removed, lost, f1 = ([run[key] for run in runs] for key in ("removed_share", "lost_share", "f1"))
    return {
        "pages": [run["pages"] for run in runs],
        "removed": [min(removed), mean(removed)],
        "lost": [max(lost), mean(lost)],
        "lost_pages": [run["lost"]["found"] for run in runs],
        "f1": [min(f1), mean(f1)],
        "rand_index": min(run["adjusted_rand_index"] for run in runs),
        "largest_cluster": max(run["largest_cluster"] for run in runs),
        "weakest": [weakest, edits[weakest]],
        "edits": edits,
        "script": edits.get("script"),
        "apart": {
            edit: share({key: sum(run["apart"][edit][key] for run in runs if edit in run["apart"]) for key in ("found", "planted")})
            for edit in sorted({edit for run in runs for edit in run["apart"]})
        },
    }


def missed(row):
    """The figures below their floor."""
    found = [key for key in ("removed", "f1") if row[key][0] < FLOORS[key]]
    found += ["lost"] if row["lost"][0] > FLOORS["lost"] else []
    found += [f"{edit} {recall:.3f}" for edit, recall in row["edits"].items() if recall < FLOORS["edit"]]
    script = row["script"]
    return found + ([f"script {script:.3f}"] if script is not None and FLOORS["edit"] <= script < FLOORS["script"] else [])


def main():
    arguments = sys.argv[1:]
    more = arguments[arguments.index("--") + 1 :] if "--" in arguments else []
    program, *files = arguments[: len(arguments) - len(more) - 1] if more else [it for it in arguments if it != "--"]
    print("| | characters | pages | removed | uniques lost | pair F1 | largest cluster | weakest edit | below a floor |")
    print("|---|---|---|---|---|---|---|---|---|")
    rows, bad = {}, False
    for name, base in [(Path(file).stem, [file]) for file in files] + [("generated", [])]:
        for least, most in BANDS:
            def all_seeds(files):
                runs = [figures(program, files, seed, least, most, more) for seed in SEEDS]
                return [run for run in runs if run and run["lost"]["planted"] >= LEAST_TEXTS]

            runs, shown = all_seeds(base), name
            if not runs and base:
                shown += ", cut"
                runs = all_seeds([beginnings(base[0], least, most)])
            if not runs:
                continue
            found = row(runs)
            rows[f"{shown} {least}-{most}"] = found
            below = missed(found)
            bad |= bool(below)
            percent = lambda pair: f"{pair[0] * 100:.2f} ({pair[1] * 100:.2f}) %"
            cells = [shown, f"{least}-{most}", f"{sum(found['pages']):,}", percent(found["removed"])]
            cells += [f"{percent(found['lost'])}, {'+'.join(map(str, found['lost_pages']))}"]
            cells += [f"{found['f1'][0]:.4f} ({found['f1'][1]:.4f})", str(found["largest_cluster"])]
            cells += ["{} {:.3f}".format(*found["weakest"]), ", ".join(below) or "-"]
            print("| " + " | ".join(cells) + " |", flush=True)
    print(json.dumps(rows))
    sys.exit(bad)


if __name__ == "__main__":
    main()
