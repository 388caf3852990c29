//! Handles: what records into the series of one metric.

use std::marker::PhantomData;

use metrics::{Counter, Gauge, Histogram, Key, Level, Metadata, Recorder};

use super::labels::{Label, LabelValue};

pub(crate) static METADATA: Metadata<'static> = Metadata::new("dupgate", Level::INFO, Some("dupgate"));

fn key(name: &'static str, labels: &[(&'static str, &str)]) -> Key {
    Key::from_parts(
        name,
        labels.iter().map(|(label, value)| metrics::Label::new(*label, (*value).to_owned())).collect::<Vec<_>>(),
    )
}

/// What records into the series of one metric.
pub(crate) trait Handle {
    /// The labels that tell the series apart.
    const LABELS: &'static [Label];

    /// Registers the series of a metric, which have these labels, too.
    fn register(recorder: &dyn Recorder, name: &'static str, labels: &[(&'static str, &str)]) -> Self;

    /// Creates a handle that records nothing, for an index past the end of a family. This does not occur, because a family
    /// is created from the list that defines the indices.
    fn nowhere() -> Self;
}

/// Implements [`Handle`] for the handle of a single series, by a function of the recorder.
macro_rules! single {
    ($($handle:ident, $register:ident;)*) => {$(
        impl Handle for $handle {
            const LABELS: &'static [Label] = &[];

            fn register(recorder: &dyn Recorder, name: &'static str, labels: &[(&'static str, &str)]) -> Self {
                recorder.$register(&key(name, labels), &METADATA)
            }

            fn nowhere() -> Self {
                Self::noop()
            }
        }
    )*};
}

single! {
    Counter, register_counter;
    Gauge, register_gauge;
    Histogram, register_histogram;
}

/// One series for each value of a closed label set.
pub(crate) struct Family<L, H> {
    series: Vec<H>,
    nowhere: H,
    label: PhantomData<L>,
}

impl<L: LabelValue, H: Handle> Handle for Family<L, H> {
    const LABELS: &'static [Label] = &[Label::of::<L>()];

    fn register(recorder: &dyn Recorder, name: &'static str, labels: &[(&'static str, &str)]) -> Self {
        let of_value = |value: L| H::register(recorder, name, &[labels, &[value.pair()]].concat());
        Self { series: L::ALL.iter().copied().map(of_value).collect(), ..Self::nowhere() }
    }

    fn nowhere() -> Self {
        Self { series: Vec::new(), nowhere: H::nowhere(), label: PhantomData }
    }
}

impl<L: LabelValue, H> Family<L, H> {
    /// Returns the series of one value.
    pub(crate) fn of(&self, value: L) -> &H {
        self.series.get(value.index()).unwrap_or(&self.nowhere)
    }
}
