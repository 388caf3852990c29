//! Every series whose labels are closed, registered at the start.

use std::collections::BTreeMap;
use std::ops::Deref;

use dupgate_core::worker::OutputKind;
use metrics::{Counter, Gauge, KeyName, Recorder};

use super::super::catalog::{self, Handles, Kind, Spec, TABLE};
use super::super::handles::Handle;
use super::{Component, ErrorKind, LabelValue};
use crate::record::Reject;

/// Every series that is registered at the start: those of the catalog, and those whose label values depend on each other.
pub(crate) struct Series {
    handles: Handles,
    pub(super) dead_letters: BTreeMap<Reject, Counter>,
    pub(super) dead_letters_held: BTreeMap<Reject, Gauge>,
    pub(super) produce_failures: BTreeMap<(&'static str, Reject), Counter>,
    /// For each component, only the kinds of errors that occur in it.
    pub(super) errors: Vec<(Component, ErrorKind, Counter)>,
    pub(super) withdrawn: BTreeMap<Reject, Counter>,
}

impl Deref for Series {
    type Target = Handles;

    fn deref(&self) -> &Handles {
        &self.handles
    }
}

impl Series {
    /// Describes all metrics of the table, and registers every series whose labels are closed.
    pub(super) fn register(recorder: &dyn Recorder) -> Self {
        for spec in TABLE {
            let (name, unit) = (KeyName::from_const_str(spec.name), Some(spec.unit));
            match spec.kind {
                Kind::Counter => recorder.describe_counter(name, unit, spec.help.into()),
                Kind::Gauge => recorder.describe_gauge(name, unit, spec.help.into()),
                Kind::Histogram(_) => recorder.describe_histogram(name, unit, spec.help.into()),
            }
        }
        let counter = |spec: &Spec, labels: &[(&'static str, &str)]| Counter::register(recorder, spec.name, labels);
        let failures = OutputKind::ALL.iter().flat_map(|output| {
            let reasons = Reject::ALL.into_iter().filter(|reject| reject.stage() == "produce");
            reasons.map(|reject| {
                let labels = [output.pair(), ("reason", reject.name())];
                ((output.name(), reject), counter(&catalog::PRODUCE_FAILURES, &labels))
            })
        });
        let errors = Component::ALL.iter().flat_map(|component| {
            let kinds = component.kinds().iter();
            kinds.map(|kind| (*component, *kind, counter(&catalog::ERRORS, &[component.pair(), kind.pair()])))
        });
        Self {
            handles: Handles::register(recorder),
            dead_letters: rejects(|reject| {
                counter(&catalog::DEAD_LETTERS, &[("stage", reject.stage()), ("reason", reject.name())])
            }),
            dead_letters_held: rejects(|reject| {
                Gauge::register(recorder, catalog::DEAD_LETTERS_HELD.name, &[("reason", reject.name())])
            }),
            produce_failures: failures.collect(),
            errors: errors.collect(),
            withdrawn: rejects(|reject| counter(&catalog::WITHDRAWN, &[("reason", reject.name())])),
        }
    }
}

fn rejects<H>(make: impl Fn(Reject) -> H) -> BTreeMap<Reject, H> {
    Reject::ALL.into_iter().map(|reject| (reject, make(reject))).collect()
}
