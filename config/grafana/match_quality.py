"""Dupgate / Match quality: whether the verdicts are right, for choosing thresholds and windows."""

from model import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    VERDICTS,
    YELLOW,
    Dashboard,
    color,
    heatmap,
    limit,
    lines,
    metric,
    quantile,
    query,
    rate,
    ratio,
    stat,
    steps,
    text,
)
from overview import DOCUMENTS, LOOKUP, OTHER, REACH, SHARE, TITLE, UID, WINDOW, colors, quantiles

PAIRS = """\
The numbers here show *that* something matches too much or too little. The pairs show *why*:

* [Operator page](${operator_page:raw}): duplicates next to their originals, with the differences; "Forget" removes an
  original. Its address is the variable at the top; it needs `http.admin.listen`.
* `dupgate tap --verdict near` prints pairs as they are found, `dupgate index top` the originals with the most
  duplicates.
* `dupgate compare a.html b.html` shows the threshold at which two pages match, `dupgate tune pages.jsonl` what each
  threshold finds on a sample.
"""


def share_of(verdict):
    """Return the share of the documents with this verdict."""
    matcher = f'verdict="{verdict}"'
    return ratio(f"sum({rate('documents_total', matcher)})", DOCUMENTS)


def within(bits):
    """Return the share of the near matches that differ in at most this many bits.

    Prometheus 3 writes the bound as 1.0 where Prometheus 2 wrote 1.
    """
    bucket = rate("match_hamming_distance_bucket", f'le=~"{bits}(\\\\.0)?"')
    return ratio(f"sum({bucket})", f"sum({rate('match_hamming_distance_count')})")


def numbers():
    """Return the line of large numbers."""
    return [
        stat(
            "Duplicate share",
            "Exact and near duplicates over all documents.",
            [query(SHARE, "duplicates")],
            unit="percentunit",
            thresholds=steps("text", (0.95, RED)),
            runbooks=("DupgateDuplicateShareExtreme", "DupgateDuplicateShareShifted"),
        ),
        stat(
            "Near",
            "Share of documents whose text is near that of an original.",
            [query(share_of("near"), "near")],
            unit="percentunit",
        ),
        stat(
            "Exact",
            "Share of documents whose text equals that of an original.",
            [query(share_of("exact"), "exact")],
            unit="percentunit",
        ),
        stat(
            "Templates",
            "Share of documents that have the text of an original with different numbers: prices, results, weather. "
            "They go to unique.",
            [query(share_of("template"), "template")],
            unit="percentunit",
        ),
        stat(
            "Largest cluster",
            "Lower bound of the documents in the largest cluster, since the start of its instance. An error page or a "
            "login wall collects thousands.",
            [query(f"max({metric('largest_cluster_documents')})", "documents")],
            unit="short",
            runbooks=("DupgateHotCluster",),
        ),
        stat(
            "Effective window",
            "How far back the index reaches, and the configured window.",
            [query(REACH, "{{job}} reaches"), query(WINDOW, "{{job}} configured")],
            unit="s",
            no_data="no judge in this selection",
            graph="none",
            runbooks=("DupgateWindowTruncated",),
        ),
    ]


def verdicts():
    """Return the verdicts, and the measures they are based on."""
    return [
        lines(
            "Share of documents by verdict",
            "Verdicts as a share of all documents.",
            [query(f"sum by (verdict) ({rate('documents_total')}) / scalar(clamp_min({DOCUMENTS}, 1e-9))", "{{verdict}}")],
            unit="percentunit",
            stack=True,
            defaults={"max": 1},
            overrides=colors(VERDICTS),
        ),
        lines(
            "Near matches by what accepted them",
            "The measure that accepted a match: distance of the SimHash codes, similarity of the sketches, or "
            "containment of the smaller page.",
            [
                query(f"sum({rate('match_hamming_distance_count')})", "distance"),
                query(f"sum({rate('match_similarity_ratio_count')})", "similarity"),
                query(f"sum({rate('match_containment_ratio_count')})", "containment"),
            ],
            unit="cps",
            stack=True,
            overrides=[color("distance", BLUE), color("similarity", YELLOW), color("containment", PURPLE)],
        ),
        lines(
            "Duplicate share, now and a week ago",
            "Compare with the same hour of last week.",
            [
                query(SHARE, "now"),
                query(SHARE.replace("[$__rate_interval]", "[$__rate_interval] offset 7d"), "a week ago"),
            ],
            unit="percentunit",
            defaults={"max": 1},
            thresholds=steps("transparent", (0.95, RED)),
            overrides=[color("now", BLUE), limit("a week ago", GREY)],
            runbooks=("DupgateDuplicateShareShifted",),
        ),
    ]


def distances():
    """Return the distributions around the thresholds."""
    return [
        heatmap(
            "Distance of the nearest candidate",
            "All lookups that found a candidate, accepted or not. Two peaks with a valley at "
            "match.simhash.max_distance are healthy; many candidates at the threshold are not.",
            f"sum by (le) ({rate('nearest_hamming_distance_bucket')})",
            unit="short",
        ),
        lines(
            "Share of near matches by distance",
            "Share of the matches accepted by distance that have at most 0, 1 and 3 differing bits. The wider the gap "
            "between the last two, the more matches depend on the threshold.",
            [query(within(bits), f"at most {bits}") for bits in (0, 1, 3)],
            unit="percentunit",
            defaults={"max": 1},
            overrides=[color("at most 0", GREEN), color("at most 1", YELLOW), color("at most 3", ORANGE)],
        ),
        heatmap(
            "Similarity of accepted matches",
            "Estimated Jaccard index of the matches of the minhash stage. Many matches near "
            "match.minhash.min_similarity depend on the threshold.",
            f"sum by (le) ({rate('match_similarity_ratio_bucket')})",
            unit="percentunit",
        ),
        lines(
            "Containment of accepted matches",
            "Estimated share of the smaller page that is in the other one, for matches accepted by it. Empty unless "
            "match.minhash.containment is set.",
            quantiles("match_containment_ratio", which=("p5", "p50")),
            unit="percentunit",
            defaults={"max": 1, "noValue": "match.minhash.containment is not set"},
        ),
        lines(
            "Age of matches",
            "Event time between a duplicate and the page it matched. p99 close to the window (dashed) means that a longer "
            "window.size would find more.",
            [*quantiles("match_age_seconds"), query(WINDOW, "{{job}} window")],
            unit="s",
            overrides=[limit("{{job}} window")],
        ),
        lines(
            "Largest cluster",
            "Lower bound of the documents in the largest cluster, by instance. A steep line indicates a block page.",
            [query(f"max by (job, instance) ({metric('largest_cluster_documents')})", "{{job}} {{instance}}")],
            unit="short",
            runbooks=("DupgateHotCluster",),
        ),
    ]


def pages():
    """Return what is extracted from pages."""
    tokens = [
        query(quantile(q / 100, "document_tokens", by=("segmenter",)), f"{{{{segmenter}}}} p{q}") for q in (5, 50, 95)
    ]
    return [
        lines(
            "Tokens per document",
            "Words left after filtering. A falling p5 usually means a broken extractor.",
            tokens,
            unit="short",
        ),
        lines(
            "Extraction",
            "The text of a page that is compared: plain text, the article, or all visible text. Much all_fallback or "
            "stripped means that pages are compared including their navigation.",
            [query(f"sum by (extraction) ({rate('extracted_documents_total')})", "{{extraction}}")],
            unit="cps",
            stack=True,
            overrides=[
                color("text", BLUE),
                color("main", GREEN),
                color("all", GREY),
                color("all_fallback", ORANGE),
                color("stripped", RED),
            ],
        ),
        lines(
            "Encodings",
            "Documents by encoding.",
            [query(f"sum by (encoding) ({rate('decoded_documents_total')})", "{{encoding}}")],
            unit="cps",
            stack=True,
        ),
        lines(
            "Without an id",
            "Documents in which nothing was found at input.fields.id: they are never recognised as the same page crawled "
            "again.",
            [query(f"sum({rate('documents_without_id_total')})", "without an id")],
            unit="cps",
        ),
    ]


def cost():
    """Return what lookups cost."""
    return [
        lines(
            "Candidates per lookup",
            "Originals compared with one page. They determine the cost of lookups.",
            quantiles("lookup_candidates", which=("p50", "p99")),
            unit="short",
        ),
        lines(
            "Full keys",
            "Keys that do not find an original, because they already find match.minhash.max_bucket others. `dupgate "
            "tune stop-shingles` reduces them.",
            [query(f"sum({rate('index_full_keys_total')})", "full keys")],
            unit="cps",
        ),
        lines(
            "Family members",
            "Originals found through the first page of their template or site, and those among them that were not "
            "compared with a page of their family, because match.minhash.max_bucket others have more in common with "
            "it.",
            [
                query(f"sum({rate('index_family_members_total')})", "members"),
                query(f"sum({rate('index_members_left_out_total')})", "not compared"),
            ],
            unit="cps",
        ),
        lines(
            "Lookup time",
            "Time of the judge per document.",
            quantiles("stage_duration_seconds", LOOKUP, which=("p50", "p99")),
            unit="s",
        ),
        lines(
            "Late records",
            "Pages that were too old for the window when they were judged. They are delivered as unique and do not "
            "become originals. See window.allowed_lateness.",
            [query(f"sum({rate('index_late_records_total')})", "late")],
            unit="cps",
            runbooks=("DupgateLateRecords",),
        ),
        lines(
            "Originals in the index",
            "Originals in the index, largest instance.",
            [query(f"max({metric('index_entries')})", "originals")],
            unit="short",
        ),
    ]


def dashboard():
    """Return the dashboard in Grafana's format."""
    other = (UID, TITLE)
    made = Dashboard(OTHER[0], OTHER[1], "Whether the verdicts are right: thresholds, windows, text extraction.", other=other)
    made.row("At a glance")
    for number in numbers():
        made.add(number, 4, 4)
    for title, panels in (
        ("Verdicts", verdicts()),
        ("Distances and ages", distances()),
        ("What is read in pages", pages()),
        ("Cost of lookups", cost()),
    ):
        made.row(title)
        for graph in panels:
            made.add(graph, 8, 9)
    made.row("Looking at pairs")
    made.add(text("Where to look", "Where to see the pairs behind these numbers.", PAIRS), 24, 6)
    return made.json()
