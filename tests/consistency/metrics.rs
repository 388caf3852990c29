//! `docs/METRICS.md` agrees with the table of the code.

use std::fmt::Write;

use dupgate::telemetry::catalog::{Kind, Spec, TABLE};
use dupgate::telemetry::labels::Label;

use super::up_to_date;

const HEAD: &str = "# Metrics

`GET /metrics` on `http.listen` (port 9464 by default) returns these metrics in the Prometheus format, together with the
client library's `process_*` metrics (CPU, memory, open files, threads, start time). Series with a closed set of labels
exist from the start, at 0. URLs, sites and ids never become labels.

Alert rules and dashboards aggregate by `job`. Scrape each deployment (the instances of one `input.group`) as a job of its
own, with nothing else in it; see [OPERATIONS.md](OPERATIONS.md#monitoring).

After a drained run, the sum of `dupgate_documents_total` and `dupgate_dead_letters_total` over all instances, if none was
killed, equals the number of committed input positions.

This page is generated from `src/telemetry/catalog.rs` by `DUPGATE_WRITE_DOCS=1 cargo test --test consistency`.

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
    text.push_str("\nUpper bounds of the histogram buckets, inclusive:\n\n| metric | bounds |\n|---|---|\n");
    for spec in TABLE {
        if let Kind::Histogram(bounds) = spec.kind {
            let bounds: Vec<String> = bounds.iter().map(ToString::to_string).collect();
            writeln!(text, "| `{}` | {} |", spec.name, bounds.join(", ")).unwrap();
        }
    }
    text
}

#[test]
fn the_page_of_metrics_agrees_with_the_code() {
    up_to_date("docs/METRICS.md", &document());
}
