"""Other packages judge the stream of `dupgate eval`: one table, then one line of JSON.

`make bench-quality` runs it; by hand: python rivals.py --dupgate PROGRAM [--only NAME]... [EVAL ARGUMENTS].

`dupgate eval --write-stream` writes the stream with the truth. Each rival reads the pages in their order and says of
each which earlier page it is a duplicate of; `dupgate eval --verdicts` scores all of them as it scores dupgate. Where a
package leaves the threshold to its user, one is chosen by the F1 of pairs on the half of the texts that is there for that
(`--half tune`), and the row says `tuned`; the F1 computed here is compared with that of `dupgate eval` in the end.
"""

import argparse
import collections
import json
import pickle
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRIED = [step / 20 for step in range(2, 19)]
PERMUTATIONS = 128
SEED = 42


class Stream:
    """Pages in their order, and what is true of them."""

    def __init__(self, path):
        self.path = path
        with open(path, encoding="utf-8") as lines:
            self.pages = [json.loads(line) for line in lines]
        self.texts = [page["text"] for page in self.pages]


def pair_f1(stream, verdicts):
    """Twice the pairs of one family and one cluster, of all pairs of a family and all of a cluster."""
    clusters, both = [], collections.Counter()
    families, sizes = collections.Counter(), collections.Counter()
    for number, (page, matched) in enumerate(zip(stream.pages, verdicts)):
        clusters.append(number if matched is None else clusters[matched])
        if page["role"] != "apart":
            families[page["family"]] += 1
            sizes[clusters[-1]] += 1
            both[page["family"], clusters[-1]] += 1
    pairs = [sum(n * (n - 1) // 2 for n in counts.values()) for counts in (families, sizes, both)]
    return 2 * pairs[2] / max(pairs[0] + pairs[1], 1)


def is_chinese(text):
    han = sum("\u4e00" <= c <= "\u9fff" for c in text)
    return 2 * han > sum(c.isalnum() for c in text) - han


def words(text):
    """What the examples of these packages cut a text into; Chinese has no blanks, so that is not much."""
    return text.lower().split() or [""]


def shingles(text):
    """Runs of letters as long as dupgate's: the best that a user of these packages could know to do."""
    letters = "".join(c for c in text.lower() if c.isalnum())
    length = 4 if is_chinese(text) else 6
    return sorted({letters[at : at + length] for at in range(max(len(letters) - length + 1, 1))})


def in_stream(fingerprints, find, keep):
    """Matches every page with one of those that were called unique before it."""
    verdicts = []
    for number, fingerprint in enumerate(fingerprints):
        matched = find(fingerprint)
        if matched is None:
            keep(number, fingerprint)
        verdicts.append(matched)
    return verdicts


class PythonSimhash:
    """The package simhash as it comes: 4 characters, MD5, 64 bits; k = 3 as everybody has it."""

    setting, thresholds = "as it comes, k = 3", None

    def prepare(self, texts):
        from simhash import Simhash

        return [Simhash(text) for text in texts]

    def judge(self, fingerprints, _):
        from simhash import SimhashIndex

        import logging

        logging.getLogger("simhash").setLevel(logging.ERROR)
        index = SimhashIndex([], k=3)

        def find(fingerprint):
            found = index.get_near_dups(fingerprint)
            return min(map(int, found), default=None)

        return in_stream(fingerprints, find, lambda number, it: index.add(str(number), it))


class Datasketch:
    """MinHashLSH of datasketch. What shares a band is its answer; with `verified` the estimate decides among it."""

    def __init__(self, cut, threshold, verified):
        self.cut, self.verified = cut, verified
        self.thresholds = None if threshold else TRIED
        self.threshold = threshold
        self.setting = f"words, {threshold}" if threshold else "shingles, verified, {:.2f} (tuned)"

    def prepare(self, texts):
        from datasketch import MinHash

        cut = ([token.encode() for token in self.cut(text)] for text in texts)
        return list(MinHash.generator(cut, num_perm=PERMUTATIONS, seed=SEED))

    def judge(self, fingerprints, threshold):
        from datasketch import MinHashLSH

        least = self.threshold or threshold
        index = MinHashLSH(threshold=least, num_perm=PERMUTATIONS)
        kept = {}

        def find(fingerprint):
            found = [(-fingerprint.jaccard(kept[number]), number) for number in index.query(fingerprint)]
            best, number = min(found, default=(0, None))
            return number if not self.verified or -best >= least else None

        def keep(number, fingerprint):
            kept[number] = fingerprint
            index.insert(number, fingerprint)

        return in_stream(fingerprints, find, keep)


class Rensa:
    """RMinHashLSH of rensa; the bands, which it leaves to its user, are those of dupgate as far as it can (42 x 3)."""

    def __init__(self, cut, threshold, bands):
        self.cut, self.bands = cut, bands
        self.thresholds = None if threshold else TRIED
        self.threshold = threshold
        self.setting = f"words, {threshold}" if threshold else f"shingles, {bands} bands, {{:.2f}} (tuned)"
        self.slots = PERMUTATIONS - PERMUTATIONS % bands

    def prepare(self, texts):
        from rensa import RMinHash

        return RMinHash.from_token_sets([self.cut(text) for text in texts], num_perm=self.slots, seed=SEED)

    def judge(self, fingerprints, threshold):
        from rensa import RMinHashLSH

        least = self.threshold or threshold
        index = RMinHashLSH(threshold=least, num_perm=self.slots, num_bands=self.bands)
        kept = {}

        def find(fingerprint):
            found = [(-fingerprint.jaccard(kept[number]), number) for number in index.query(fingerprint)]
            best, number = min(found, default=(0, None))
            return number if -best >= least else None

        def keep(number, fingerprint):
            kept[number] = fingerprint
            index.insert(number, fingerprint)

        return in_stream(fingerprints, find, keep)


class TextDedup:
    """A command of text-dedup with its defaults: a batch, which joins whatever shares a band, and says who is joined."""

    thresholds = None

    def __init__(self, command, folder, setting):
        self.command, self.folder, self.setting = command, folder, setting

    def prepare(self, stream):
        return stream

    def judge(self, stream, _):
        # What stands apart may join nobody with anybody else: it is judged in a batch of its own.
        first_apart = sum(page["role"] != "apart" for page in stream.pages)
        verdicts = self.joined(stream.pages[:first_apart])
        if first_apart < len(stream.pages):
            self.timed = time.perf_counter()
            verdicts += self.joined(stream.pages)[first_apart:]
        return verdicts

    def joined(self, pages):
        folder = self.folder / f"text-dedup-{self.command}"
        folder.mkdir(parents=True, exist_ok=True)
        lines = folder / "pages.jsonl"
        rows = ({"number": number, "text": page["text"]} for number, page in enumerate(pages))
        lines.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        command = [sys.executable, "-m", f"text_dedup.{self.command}", "--path", "json", "--split", "train"]
        command += ["--data_files", lines, "--cache_dir", folder / "cache", "--output", folder / "out"]
        command += ["--column", "text", "--idx_column", "number", "--debug", "--num_proc", "1"]
        run = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=folder, check=False)
        if run.returncode:
            raise RuntimeError(run.stderr[-2000:])
        with open(folder / "out/uf.pkl", "rb") as file:
            joined = pickle.load(file)
        first, verdicts = {}, []
        for number in range(len(pages)):
            cluster = joined.find(number)
            head = first.setdefault(cluster, number)
            verdicts.append(None if head == number else head)
        return verdicts


class Gaoya:
    """The crate gaoya, by a program of its own."""

    def __init__(self, arguments, threshold, setting):
        self.arguments, self.threshold, self.setting = arguments, threshold, setting
        self.thresholds = None if threshold else TRIED

    def prepare(self, stream):
        return stream

    def judge(self, stream, threshold):
        arguments = [str(threshold or self.threshold) if it == "T" else it for it in self.arguments]
        program = ROOT / "target/gaoya/release/gaoya-stream"
        run = subprocess.run([program, *arguments, stream.path], capture_output=True, text=True, check=True)
        *verdicts, self.seconds = map(json.loads, run.stdout.splitlines())
        return verdicts


def rivals(folder):
    """All of them by name, in the order of the table."""
    return {
        "simhash-py": PythonSimhash(),
        "datasketch": Datasketch(words, 0.5, verified=False),
        "datasketch-tuned": Datasketch(shingles, None, verified=True),
        "rensa": Rensa(words, 0.8, bands=16),
        "rensa-tuned": Rensa(shingles, None, bands=42),
        "text-dedup-minhash": TextDedup("minhash", folder, "as it comes: words, 0.7"),
        "text-dedup-simhash": TextDedup("simhash", folder, "as it comes: 3 of 64 bits"),
        "gaoya": Gaoya(["words", "42", "3", "T"], 0.5, "words, 42 x 3, 0.5"),
        "gaoya-tuned": Gaoya(["characters", "50", "4", "T"], None, "3-4 characters, 50 x 4, {:.2f} (tuned)"),
    }


def whole(rival):
    return isinstance(rival, (TextDedup, Gaoya))


def run(rival, stream, tune):
    """Returns verdicts, setting and seconds."""
    threshold = None
    if rival.thresholds:
        prepared = rival.prepare(tune if whole(rival) else tune.texts)
        scores = [pair_f1(tune, rival.judge(prepared, tried)) for tried in rival.thresholds]
        best = [tried for tried, score in zip(rival.thresholds, scores) if score == max(scores)]
        threshold = best[len(best) // 2]
    rival.timed = rival.seconds = None
    start = time.perf_counter()
    verdicts = rival.judge(rival.prepare(stream if whole(rival) else stream.texts), threshold)
    seconds = rival.seconds or (rival.timed or time.perf_counter()) - start
    return verdicts, rival.setting.format(threshold), seconds


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--dupgate", type=Path, required=True)
    arguments.add_argument("--only", action="append", default=[], help="this rival alone")
    arguments.add_argument("--folder", type=Path, default=ROOT / "target/bench-quality")
    known, evaluated = arguments.parse_known_args()
    folder = known.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    command = [known.dupgate.resolve(), "eval", *evaluated]

    def written(name, more):
        path = folder / name
        subprocess.run([*command, *more, "-o", "jsonl", "--write-stream", path], check=True, stdout=subprocess.DEVNULL)
        return Stream(path)

    stream, tune = written("stream.jsonl", []), written("tune.jsonl", ["--half", "tune"])
    verdicts, f1 = [], {}
    for name, rival in rivals(folder).items():
        if known.only and name not in known.only:
            continue
        try:
            said, setting, seconds = run(rival, stream, tune)
        except (ImportError, OSError, RuntimeError, subprocess.CalledProcessError) as why:
            print(f"{name} is left out: {why}", file=sys.stderr)
            continue
        path = folder / f"{name}.jsonl"
        with open(path, "w", encoding="utf-8") as file:
            print(json.dumps({"setting": setting, "seconds": seconds}), file=file)
            for page, matched in zip(stream.pages, said):
                matched = None if matched is None else stream.pages[matched]["id"]
                print(json.dumps({"id": page["id"], "match_id": matched}), file=file)
        f1[name] = pair_f1(stream, said)
        verdicts += ["--verdicts", path]
    scored = subprocess.run([*command, "--baselines", *verdicts], check=True, capture_output=True, text=True).stdout
    print(scored, end="")
    for judge in json.loads(scored.splitlines()[-1])["judges"]:
        ours = f1.get(judge["name"], judge["f1"])
        if abs(ours - judge["f1"]) > 1e-9:
            sys.exit(f"{judge['name']}: F1 {judge['f1']} by dupgate eval, {ours} by this script")


if __name__ == "__main__":
    main()
