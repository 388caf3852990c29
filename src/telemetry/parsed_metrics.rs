//! Parses our own Prometheus text, so that the status page shows exactly the scraped values.

/// One series.
#[derive(Clone, Debug, PartialEq)]
struct Series {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

/// All series of one answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParsedMetrics(Vec<Series>);

impl ParsedMetrics {
    /// Parses valid lines and ignores the rest.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self(text.lines().filter(|line| !line.starts_with('#')).filter_map(series).collect())
    }

    fn of<'f>(&'f self, name: &'f str) -> impl Iterator<Item = &'f Series> {
        self.0.iter().filter(move |series| series.name == name)
    }

    /// Sums the series that have these labels.
    #[must_use]
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let fits = |series: &&Series| labels.iter().all(|(label, value)| series.label(label) == Some(value));
        // The empty sum is -0.
        self.of(name).filter(fits).map(|series| series.value).sum::<f64>() + 0.0
    }

    /// Sums all series of a counter.
    #[must_use]
    pub fn count(&self, name: &str) -> u64 {
        // Counters are whole numbers, and are written as such.
        self.count_of(name, &[])
    }

    /// Sums the series of a counter that have these labels.
    #[must_use]
    pub fn count_of(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        format!("{:.0}", self.sum(name, labels)).parse().unwrap_or(0)
    }

    /// Returns the largest value.
    #[must_use]
    pub fn largest(&self, name: &str) -> Option<f64> {
        self.of(name).map(|series| series.value).reduce(f64::max)
    }

    /// Returns the values by one label.
    #[must_use]
    pub fn by_label(&self, name: &str, label: &str) -> Vec<(String, f64)> {
        self.of(name).filter_map(|series| Some((series.label(label)?.to_owned(), series.value))).collect()
    }

    /// Returns the values by two labels; the second may be missing.
    #[must_use]
    pub fn by_two_labels(&self, name: &str, first: &str, second: &str) -> Vec<(String, Option<String>, f64)> {
        let one = |series: &Series| {
            Some((series.label(first)?.to_owned(), series.label(second).map(str::to_owned), series.value))
        };
        self.of(name).filter_map(one).collect()
    }

    /// Returns the cumulative counts of a histogram by upper bound, ascending; the last bound is infinite.
    #[must_use]
    pub fn buckets(&self, name: &str) -> Vec<(f64, f64)> {
        let of = self.by_label(&format!("{name}_bucket"), "le").into_iter();
        let mut buckets: Vec<(f64, f64)> = of.filter_map(|(le, count)| Some((le.parse().ok()?, count))).collect();
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        buckets
    }

    /// Returns a label of a series that carries only labels.
    #[must_use]
    pub fn label(&self, name: &str, label: &str) -> Option<String> {
        self.of(name).find_map(|series| series.label(label)).map(str::to_owned)
    }
}

impl Series {
    fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

fn series(line: &str) -> Option<Series> {
    let (name, rest) = line.split_at(line.find(['{', ' '])?);
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    Some(Series { name: name.to_owned(), labels, value: value.trim().parse().ok()? })
}

/// Parses `a="b",c="d"}` and returns the rest.
fn labels(mut rest: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut found = Vec::new();
    loop {
        rest = rest.trim_start_matches(',');
        if let Some(after) = rest.strip_prefix('}') {
            return Some((found, after));
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut letters = quoted.char_indices();
        rest = loop {
            match letters.next()? {
                (at, '"') => break quoted.get(at + 1..)?,
                (_, '\\') => value.push(match letters.next()?.1 {
                    'n' => '\n',
                    other => other,
                }),
                (_, letter) => value.push(letter),
            }
        };
        found.push((name.to_owned(), value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_read_with_their_labels() {
        let text = "# HELP a b\n# TYPE a counter\na{x=\"1\",y=\"q\\\"}{\\\\\"} 2\na{x=\"2\"} 3.5\nb 4\nbroken{x=\n\n";
        let metrics = ParsedMetrics::parse(text);
        assert_eq!(metrics.sum("a", &[]).to_bits(), 5.5_f64.to_bits());
        assert_eq!(metrics.sum("a", &[("x", "2")]).to_bits(), 3.5_f64.to_bits());
        assert_eq!(metrics.label("a", "y").as_deref(), Some("q\"}{\\"));
        assert_eq!(metrics.largest("b"), Some(4.0));
        assert_eq!(metrics.largest("none"), None);
        assert_eq!(metrics.by_label("a", "x"), [("1".to_owned(), 2.0), ("2".to_owned(), 3.5)]);
        let pairs = [("1".to_owned(), Some("q\"}{\\".to_owned()), 2.0), ("2".to_owned(), None, 3.5)];
        assert_eq!(metrics.by_two_labels("a", "x", "y"), pairs);
    }

    #[test]
    fn buckets_are_read_in_the_order_of_their_bounds() {
        let metrics = ParsedMetrics::parse("h_bucket{le=\"+Inf\"} 3\nh_bucket{le=\"0.5\"} 1\nh_sum 4\nh_count 3\n");
        assert_eq!(metrics.buckets("h"), [(0.5, 1.0), (f64::INFINITY, 3.0)]);
        assert_eq!(metrics.buckets("other"), []);
    }
}
