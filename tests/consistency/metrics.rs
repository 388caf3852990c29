//! `docs/METRICS.md` says what the table of the code says.

use std::fmt::Write;
use std::path::Path;

use dupgate::telemetry::table::{Kind, Label, Spec, TABLE};

/// Set to write the document anew.
const REWRITE: &str = "DUPGATE_WRITE_DOCS";

const HEAD: &str = "# Metrics

What `GET /metrics` says on `http.listen` (port 9464 unless configured otherwise), in the format of Prometheus. Series
of a closed label set exist from the start, at 0. URLs, sites and ids never become labels. The library's own
`process_*` metrics (CPU, memory, open files, threads, start time) stand beside these.

After a drained run `dupgate_documents_total` and `dupgate_dead_letters_total`, summed over all instances that were not
killed, are as many as the input positions that were committed.

This page is written from `src/telemetry/table.rs` by `DUPGATE_WRITE_DOCS=1 cargo test --test consistency`.

| metric | kind | labels | meaning |
|---|---|---|---|
";

fn labels(spec: &Spec) -> String {
    let one = |label: &Label| match label {
        Label::Open(name) => format!("`{name}`"),
        Label::Closed(name, values) => format!("`{name}`: {}", values.join(", ")),
    };
    spec.labels.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn document() -> String {
    let mut text = HEAD.to_owned();
    for spec in TABLE {
        let kind = match spec.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        };
        writeln!(text, "| `{}` | {kind} | {} | {} |", spec.name, labels(spec), spec.help).unwrap();
    }
    text.push_str("\nUpper bounds of the histograms' buckets, inclusive:\n\n| metric | bounds |\n|---|---|\n");
    for spec in TABLE {
        if let Kind::Histogram(bounds) = spec.kind {
            let bounds: Vec<String> = bounds.iter().map(ToString::to_string).collect();
            writeln!(text, "| `{}` | {} |", spec.name, bounds.join(", ")).unwrap();
        }
    }
    text
}

#[test]
fn the_page_of_metrics_is_that_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/METRICS.md");
    let expected = document();
    if std::env::var_os(REWRITE).is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = written.lines().zip(expected.lines()).find(|(written, expected)| written != expected);
    assert!(
        written == expected,
        "docs/METRICS.md is out of date ({differs:?}): {REWRITE}=1 cargo test --test consistency writes it anew"
    );
}
