//! Compares inputs with outputs: law L1, byte by byte, and the originals of duplicates.

use std::collections::BTreeMap;

use dupgate::record::{PartitionId, Source};

use crate::cluster::Cluster;
use crate::cluster::records::{HeaderLine, Record, TopicReader, by_source};

/// The output of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputKind {
    Unique,
    Duplicate,
    Dead,
}

/// Outcome of one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) output_kind: OutputKind,
    /// The verdict, or the reason of a dead letter.
    pub(crate) word: String,
    /// The original of a duplicate.
    pub(crate) matched: Option<Source>,
}

impl Outcome {
    /// The verdict and the original, for comparisons.
    pub(crate) fn verdict(&self) -> (&str, Option<&Source>) {
        (&self.word, self.matched.as_ref())
    }
}

/// All records of the topics of a deployment.
pub(crate) struct Ledger {
    pub(crate) inputs: BTreeMap<Source, Record>,
    outputs: Vec<(OutputKind, Record)>,
}

impl Ledger {
    /// Reads the topics to their ends.
    pub(crate) fn read(cluster: &Cluster<'_>) -> Self {
        let inputs: Vec<&str> = cluster.inputs().iter().map(String::as_str).collect();
        let inputs = by_source(TopicReader::open(cluster.broker(), &inputs).read_to_end());
        let output_kinds = [
            (cluster.unique(), OutputKind::Unique),
            (cluster.duplicate(), OutputKind::Duplicate),
            (cluster.dead(), OutputKind::Dead),
        ];
        let mut outputs = Vec::new();
        for (topic, output_kind) in output_kinds {
            let records = TopicReader::open(cluster.broker(), &[topic]).read_to_end();
            outputs.extend(records.into_iter().map(|record| (output_kind, record)));
        }
        Self { inputs, outputs }
    }

    /// Adds what topics held before they were deleted and created again, and calls it by other names than what they hold
    /// now: the same position is another page.
    pub(crate) fn restore(&mut self, earlier: Vec<Incarnation>) {
        for (number, incarnation) in earlier.into_iter().enumerate() {
            let (topic, name) = (&incarnation.topic, format!("{} #{number}", incarnation.topic));
            for (_, record) in self.outputs.iter_mut().filter(|(_, record)| incarnation.precedes(record)) {
                rename(record, topic, &name);
            }
            self.inputs.extend(incarnation.pages.into_iter().map(|(mut source, mut record)| {
                source.partition.topic = name.as_str().into();
                record.source = source.clone();
                (source, record)
            }));
        }
    }

    /// Returns the page that an output record is of, if it is unchanged, and its outcome.
    fn attributed(&self, output_kind: OutputKind, record: &Record) -> Result<(Source, Outcome), String> {
        let source = origin(output_kind, record)?;
        let came =
            self.inputs.get(&source).ok_or_else(|| format!("{} is not of the input: {source}", record.source))?;
        same_bytes(came, record)?;
        Ok((source, outcome(output_kind, record)?))
    }

    /// Returns the outcome of every page, if each came out `times` times.
    ///
    /// # Errors
    ///
    /// The first page that came out more or less often, changed, or with two outcomes.
    pub(crate) fn outcomes(&self, times: usize) -> Result<BTreeMap<Source, Outcome>, String> {
        let mut outcomes: BTreeMap<Source, (Outcome, Vec<&Source>)> = BTreeMap::new();
        for (output_kind, record) in &self.outputs {
            let (source, outcome) = self.attributed(*output_kind, record)?;
            match outcomes.get_mut(&source) {
                None => drop(outcomes.insert(source, (outcome, vec![&record.source]))),
                Some((before, places)) if *before == outcome => places.push(&record.source),
                Some((before, _)) => return Err(format!("{source} came out as {before:?} and as {outcome:?}")),
            }
        }
        if let Some(source) = self.inputs.keys().find(|source| !outcomes.contains_key(source)) {
            return Err(format!("{source} did not come out"));
        }
        let mut wrong = outcomes.iter().filter(|(_, (_, places))| places.len() != times);
        if let Some((source, (_, places))) = wrong.next() {
            let (count, more) = (places.len(), wrong.count());
            let places: Vec<String> = places.iter().map(ToString::to_string).collect();
            let places = places.join(", ");
            return Err(format!("{source} came out {count} times, expected {times}: {places}; so did {more} others"));
        }
        Ok(outcomes.into_iter().map(|(source, (outcome, _))| (source, outcome)).collect())
    }
}

/// A topic before it is deleted and created again, when each of its pages is out.
pub(crate) struct Incarnation {
    topic: String,
    pages: BTreeMap<Source, Record>,
    /// The last records of the outputs.
    outputs: BTreeMap<PartitionId, i64>,
}

impl Incarnation {
    /// Reads the topic, and the outputs to their ends.
    pub(crate) fn read(cluster: &Cluster<'_>, topic: &str) -> Self {
        let Ledger { inputs, outputs } = Ledger::read(cluster);
        let pages = inputs.into_iter().filter(|(source, _)| *source.partition.topic == *topic).collect();
        Self::new(topic, pages, &outputs)
    }

    fn new(topic: &str, pages: BTreeMap<Source, Record>, outputs: &[(OutputKind, Record)]) -> Self {
        let mut last = BTreeMap::new();
        for (_, record) in outputs {
            let offset = last.entry(record.source.partition.clone()).or_insert(record.source.offset);
            *offset = record.source.offset.max(*offset);
        }
        Self { topic: topic.to_owned(), pages, outputs: last }
    }

    /// Whether this record of an output was written before.
    fn precedes(&self, record: &Record) -> bool {
        self.outputs.get(&record.source.partition).is_some_and(|last| record.source.offset <= *last)
    }
}

/// Changes the name of a topic in the headers that name a page.
fn rename(record: &mut Record, topic: &str, name: &str) {
    for (header, value) in &mut record.headers {
        let is_place = matches!(header.as_str(), "dupgate.source" | "dupgate.match" | "dupgate.error.topic");
        let Some(text) = value.as_deref().filter(|_| is_place).and_then(|text| std::str::from_utf8(text).ok()) else {
            continue;
        };
        if let Some(rest) = text.strip_prefix(topic).filter(|rest| rest.is_empty() || rest.starts_with(':')) {
            *value = Some(format!("{name}{rest}").into_bytes());
        }
    }
}

/// What went wrong with the pages of a deployment, and how often.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Audit {
    /// Pages written.
    pub(crate) pages: usize,
    /// Pages that did not come out.
    pub(crate) lost: usize,
    /// Records beyond the first of a page.
    pub(crate) doubled: usize,
    /// Pages that are duplicates of themselves.
    pub(crate) own: usize,
    /// Duplicates whose original was not delivered as unique.
    pub(crate) orphans: usize,
    /// Records that differ from their page, are of none, or do not say what became of it.
    pub(crate) changed: usize,
    /// Duplicates.
    pub(crate) duplicates: usize,
    /// The first of the pages and records that are counted as wrong.
    pub(crate) examples: Vec<String>,
}

impl Audit {
    /// Number of examples.
    const EXAMPLES: usize = 10;

    pub(crate) const fn is_clean(&self) -> bool {
        self.lost + self.doubled + self.own + self.orphans + self.changed == 0
    }

    fn example(&mut self, text: String) -> usize {
        if self.examples.len() < Self::EXAMPLES {
            self.examples.push(text);
        }
        1
    }
}

impl Ledger {
    /// Counts everything that is wrong, where [`Ledger::outcomes`] stops at the first.
    ///
    /// If a deployment has lost its verdict log (`has_forgotten`), a duplicate may have become the original of later
    /// pages: then their original is the one at the end of the chain.
    pub(crate) fn audit(&self, has_forgotten: bool) -> Audit {
        let mut audit = Audit { pages: self.inputs.len(), ..Audit::default() };
        let mut outcomes: BTreeMap<Source, Outcome> = BTreeMap::new();
        for (output_kind, record) in &self.outputs {
            match self.attributed(*output_kind, record) {
                Err(why) => audit.changed += audit.example(why),
                Ok((source, _)) if outcomes.contains_key(&source) => {
                    audit.doubled += audit.example(format!("{source} came out again as {}", record.source));
                }
                Ok((source, outcome)) => drop(outcomes.insert(source, outcome)),
            }
        }
        for source in self.inputs.keys().filter(|source| !outcomes.contains_key(source)) {
            audit.lost += audit.example(format!("{source} did not come out"));
        }
        for (source, outcome) in outcomes.iter().filter(|(_, outcome)| outcome.output_kind == OutputKind::Duplicate) {
            audit.duplicates += 1;
            let fate_of = |page: &Outcome| page.matched.as_ref().and_then(|original| outcomes.get(original));
            let chain = std::iter::successors(fate_of(outcome), |page| fate_of(page));
            let mut chain = chain.take(if has_forgotten { outcomes.len() } else { 1 });
            if outcome.matched.as_ref() == Some(source) {
                audit.own += audit.example(format!("{source} is its own duplicate"));
            } else if !chain.any(|page| page.output_kind == OutputKind::Unique) {
                let fate = fate_of(outcome);
                audit.orphans += audit.example(format!("{source} is {outcome:?}, which is {fate:?}"));
            }
        }
        audit
    }
}

/// Checks that every duplicate points to another page that was delivered as unique: so none is its own duplicate, and
/// no two are each other's (law L8).
///
/// # Errors
///
/// The first duplicate that violates this.
pub(crate) fn originals_are_delivered(outcomes: &BTreeMap<Source, Outcome>) -> Result<(), String> {
    for (source, outcome) in outcomes.iter().filter(|(_, outcome)| outcome.output_kind == OutputKind::Duplicate) {
        let Some(original) = &outcome.matched else { continue };
        if original == source {
            return Err(format!("{source} is its own duplicate"));
        }
        let fate =
            outcomes.get(original).ok_or_else(|| format!("{source} is a duplicate of {original}, not a page"))?;
        if fate.output_kind != OutputKind::Unique {
            return Err(format!("{source} is a duplicate of {original}, which came out as {fate:?}"));
        }
    }
    Ok(())
}

/// The input page of an output record, by its headers.
fn origin(output_kind: OutputKind, record: &Record) -> Result<Source, String> {
    let header = |name: &str| record.header(name).ok_or_else(|| format!("{} has no header {name}", record.source));
    if output_kind == OutputKind::Dead {
        let number =
            |name: &str| header(name)?.parse::<i64>().map_err(|why| format!("{name} of {}: {why}", record.source));
        let partition = i32::try_from(number("dupgate.error.partition")?).map_err(|why| why.to_string())?;
        let partition = PartitionId::new(header("dupgate.error.topic")?, partition);
        Ok(partition.at(number("dupgate.error.offset")?))
    } else {
        header("dupgate.source")?.parse().map_err(|why| format!("{}: {why}", record.source))
    }
}

fn outcome(output_kind: OutputKind, record: &Record) -> Result<Outcome, String> {
    let word = if output_kind == OutputKind::Dead { "dupgate.error.reason" } else { "dupgate.verdict" };
    let word = record.header(word).ok_or_else(|| format!("{} has no header {word}", record.source))?.to_owned();
    let matched = record.header("dupgate.match").map(str::parse).transpose();
    let matched = matched.map_err(|why| format!("{}: {why}", record.source))?;
    // A template is delivered, and names the page that it resembles.
    let names_another =
        output_kind == OutputKind::Duplicate || (output_kind, word.as_str()) == (OutputKind::Unique, "template");
    if names_another != matched.is_some() {
        return Err(format!("{}: {output_kind:?} with the original {matched:?}", record.source));
    }
    Ok(Outcome { output_kind, word, matched })
}

/// Key, value, timestamp and foreign headers must be unchanged.
fn same_bytes(came: &Record, left: &Record) -> Result<(), String> {
    let differs = |what: &str| Err(format!("{} left as {} with another {what}", came.source, left.source));
    if came.key != left.key {
        return differs("key");
    }
    if came.value != left.value {
        return differs("value");
    }
    if came.timestamp != left.timestamp {
        return differs("timestamp");
    }
    if foreign(came) != foreign(left) {
        return differs("foreign header");
    }
    Ok(())
}

fn foreign(record: &Record) -> Vec<&HeaderLine> {
    record.headers.iter().filter(|(name, _)| !name.starts_with("dupgate.")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(name: &str, value: &str) -> HeaderLine {
        (name.to_owned(), Some(value.as_bytes().to_vec()))
    }

    fn page(offset: i64) -> Record {
        Record {
            source: PartitionId::new("pages", 0).at(offset),
            key: Some(b"k".to_vec()),
            value: Some(format!("page {offset}").into_bytes()),
            timestamp: Some(7),
            headers: vec![header("trace", "1"), header("dupgate.verdict", "of an earlier pass")],
        }
    }

    fn left(offset: i64, output_kind: OutputKind, matched: Option<i64>) -> (OutputKind, Record) {
        let mut record = page(offset);
        record.headers.truncate(1);
        record.headers.push(header("dupgate.source", &page(offset).source.to_string()));
        record.headers.push(header("dupgate.verdict", if matched.is_some() { "exact" } else { "unique" }));
        if let Some(original) = matched {
            record.headers.push(header("dupgate.match", &page(original).source.to_string()));
        }
        record.source.partition.topic = "out".into();
        (output_kind, record)
    }

    fn ledger(outputs: Vec<(OutputKind, Record)>) -> Ledger {
        Ledger { inputs: by_source(vec![page(0), page(1)]), outputs }
    }

    fn good() -> Vec<(OutputKind, Record)> {
        vec![left(0, OutputKind::Unique, None), left(1, OutputKind::Duplicate, Some(0))]
    }

    #[test]
    fn every_page_once_and_unchanged_is_accepted() {
        let outcomes = ledger(good()).outcomes(1).unwrap();
        assert_eq!(outcomes[&page(1).source].verdict(), ("exact", Some(&page(0).source)));
        assert_eq!(originals_are_delivered(&outcomes), Ok(()));
    }

    #[test]
    fn a_page_lost_doubled_or_changed_is_noticed() {
        let refused = |change: fn(&mut Vec<(OutputKind, Record)>), why: &str| {
            let mut outputs = good();
            change(&mut outputs);
            let found = ledger(outputs).outcomes(1).unwrap_err();
            assert!(found.contains(why), "{found}");
        };
        refused(|outputs| drop(outputs.pop()), "pages:0:1 did not come out");
        refused(|outputs| outputs.push(left(0, OutputKind::Unique, None)), "pages:0:0 came out 2 times");
        refused(|outputs| outputs.push(left(1, OutputKind::Unique, None)), "pages:0:1 came out as");
        refused(|outputs| outputs.push(left(2, OutputKind::Unique, None)), "is not of the input");
        refused(|outputs| outputs[0].1.value = None, "another value");
        refused(|outputs| outputs[0].1.key = None, "another key");
        refused(|outputs| outputs[0].1.timestamp = Some(8), "another timestamp");
        refused(|outputs| outputs[0].1.headers.push(header("trace", "2")), "another foreign header");
    }

    #[test]
    fn an_audit_counts_each_kind_of_mistake() {
        let of = |outputs| ledger(outputs).audit(false);
        assert_eq!(of(good()), Audit { pages: 2, duplicates: 1, ..Audit::default() });
        let counts = |change: fn(&mut Vec<(OutputKind, Record)>)| {
            let mut outputs = good();
            change(&mut outputs);
            let audit = of(outputs);
            assert!(!audit.is_clean() && !audit.examples.is_empty());
            (audit.lost, audit.doubled, audit.own, audit.orphans, audit.changed)
        };
        assert_eq!(counts(|outputs| drop(outputs.pop())), (1, 0, 0, 0, 0));
        assert_eq!(counts(|outputs| outputs.push(left(0, OutputKind::Unique, None))), (0, 1, 0, 0, 0));
        assert_eq!(counts(|outputs| outputs[1] = left(1, OutputKind::Duplicate, Some(1))), (0, 0, 1, 0, 0));
        assert_eq!(counts(|outputs| outputs[0] = left(0, OutputKind::Duplicate, Some(1))), (0, 0, 0, 2, 0));
        assert_eq!(counts(|outputs| outputs.push(left(2, OutputKind::Unique, None))), (0, 0, 0, 0, 1));
        assert_eq!(counts(|outputs| outputs[1].1.key = None), (1, 0, 0, 0, 1), "a changed page is not the page");

        let circle = vec![left(0, OutputKind::Duplicate, Some(1)), left(1, OutputKind::Duplicate, Some(0))];
        let mut chain = ledger([good(), vec![left(2, OutputKind::Duplicate, Some(1))]].concat());
        chain.inputs = by_source(vec![page(0), page(1), page(2)]);
        let orphans = |ledger: &Ledger| [false, true].map(|has_forgotten| ledger.audit(has_forgotten).orphans);
        assert_eq!((orphans(&ledger(circle)), orphans(&chain)), ([2, 2], [1, 0]));
    }

    /// A topic with two pages that was created again and holds one: the same position, another page.
    fn recreated(later: (OutputKind, Record), outputs: &[(OutputKind, Record)]) -> Audit {
        let placed = |(at, (kind, mut record)): (usize, (OutputKind, Record))| {
            record.source.offset = i64::try_from(at).unwrap();
            (kind, record)
        };
        let outputs: Vec<_> = outputs.iter().cloned().enumerate().map(placed).collect();
        let earlier = Incarnation::new("pages", ledger(Vec::new()).inputs, &outputs);
        let (_, mut later) = placed((outputs.len(), later));
        let mut page = page(0);
        page.value = Some(b"another page".to_vec());
        later.value.clone_from(&page.value);
        let mut ledger = ledger([outputs, vec![(OutputKind::Unique, later)]].concat());
        ledger.inputs = by_source(vec![page]);
        ledger.restore(vec![earlier]);
        ledger.audit(false)
    }

    #[test]
    fn a_position_of_a_topic_that_was_created_again_is_another_page() {
        let later = || left(0, OutputKind::Unique, None);
        assert_eq!(recreated(later(), &good()), Audit { pages: 3, duplicates: 1, ..Audit::default() });
        let audit = recreated(later(), &good()[1..]);
        assert_eq!((audit.lost, audit.orphans), (1, 1), "the later page is not the one that was lost: {audit:?}");
        let audit = recreated(left(1, OutputKind::Unique, None), &good());
        assert_eq!((audit.lost, audit.changed), (1, 1), "nor is the earlier one what came later: {audit:?}");
    }

    #[test]
    fn a_duplicate_of_itself_or_of_a_duplicate_is_noticed() {
        let judged = |outputs| originals_are_delivered(&ledger(outputs).outcomes(1).unwrap()).unwrap_err();
        let own = judged(vec![left(0, OutputKind::Unique, None), left(1, OutputKind::Duplicate, Some(1))]);
        assert!(own.contains("its own duplicate"), "{own}");
        let mutual = judged(vec![left(0, OutputKind::Duplicate, Some(1)), left(1, OutputKind::Duplicate, Some(0))]);
        assert!(mutual.contains("which came out as"), "{mutual}");
    }
}
