"""FAISS's binary hash indexes on the codes of the bench: query and add, one thread, nanoseconds of CPU time.

    faiss.py CODES PLANTED WINDOW    prints one JSON object: name -> numbers

FAISS cannot remove from a binary hash index, so the window fills once and the operations are added after that.
"""

import json
import os
import sys
import time

# This script has the name of what it imports.
sys.path.pop(0)

import faiss  # noqa: E402
import numpy  # noqa: E402

QUERIES = 20_000
BATCH = 512


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(index, codes, planted, window):
    before = resident()
    start = time.process_time_ns()
    index.add(codes[:window])
    add = (time.process_time_ns() - start) / window
    size = (resident() - before) / window
    search, found, asked = 0, 0, 0
    for first in range(0, min(QUERIES, len(planted)), BATCH):
        batch = codes[window + first : window + first + BATCH]
        start = time.process_time_ns()
        distances, _ = index.search(batch, 1)
        search += time.process_time_ns() - start
        bits = planted[first : first + len(batch)]
        is_found = distances[:, 0] <= bits
        asked += int((bits <= 3).sum())
        found += int((is_found & (bits <= 3)).sum())
        for place in numpy.flatnonzero(~is_found & (bits <= 3)):
            # A pair within the same batch was not there yet.
            beside = numpy.unpackbits(batch[:place] ^ batch[place], axis=1).sum(axis=1)
            asked -= int((beside <= bits[place]).any())
        start = time.process_time_ns()
        index.add(batch)
        add_late = time.process_time_ns() - start
    queries = min(QUERIES, len(planted))
    return {
        "ns": search / queries + add,
        "search_ns": search / queries,
        "add_ns": add,
        "bytes": size,
        "recall": found / max(asked, 1),
    }


def main():
    codes = numpy.fromfile(sys.argv[1], dtype=numpy.uint8).reshape(-1, 8)
    planted = numpy.fromfile(sys.argv[2], dtype=numpy.uint8)
    window = int(sys.argv[3])
    faiss.omp_set_num_threads(1)
    numbers = {}
    for name, tables, bits, flips in (("MultiHash 2x32, nflip 1", 2, 32, 1), ("MultiHash 4x16", 4, 16, 0)):
        index = faiss.IndexBinaryMultiHash(64, tables, bits)
        index.nflip = flips
        numbers[name] = measure(index, codes, planted, window)
        del index
    print(json.dumps(numbers))


main()
