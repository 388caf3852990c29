//! The text format of the metrics.

/// Puts the families in the order of their names, because that of the exporter changes from scrape to scrape. A blank
/// line ends each family.
pub(super) fn ordered(text: &str) -> String {
    let mut families: Vec<&str> = text.split_inclusive("\n\n").collect();
    families.sort_unstable();
    families.concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings;
    use crate::telemetry::Metrics;

    #[test]
    fn families_are_in_the_order_of_their_names() {
        let text = "# HELP b Second.\n# TYPE b counter\nb{x=\"1\"} 2\nb{x=\"0\"} 1\n\n# HELP a First.\n# TYPE a gauge\na 3\n\n";
        let expected = "# HELP a First.\n# TYPE a gauge\na 3\n\n# HELP b Second.\n# TYPE b counter\nb{x=\"1\"} 2\nb{x=\"0\"} 1\n\n";
        assert_eq!(ordered(text), expected);
    }

    #[test]
    fn every_scrape_has_the_same_families_in_the_same_order() {
        let metrics = Metrics::new(&settings::Metrics { partition_labels: true, labels: Vec::new() }).unwrap();
        metrics.consumed("pages", 1, 1);
        let names = || -> Vec<String> {
            let text = metrics.render();
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).map(str::to_owned).collect()
        };
        let first = names();
        assert!(first.len() > 20 && first.is_sorted(), "{first:?}");
        assert_eq!(names(), first);
    }
}
