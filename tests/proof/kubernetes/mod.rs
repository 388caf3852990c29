//! What Kubernetes does with the chart, with processes instead of containers.
//!
//! [`chart`] renders the chart with helm. [`pod`] does what a kubelet does: it mounts volumes, expands variables, starts
//! the command line of a container, probes it ([`probes`]), and stops it within its grace period. [`stateful_set`] and
//! [`deployment`] replace pods in the order and at the pace of their controllers.
//!
//! A process shares its files, addresses and user with the machine, so four things are translated: paths below a mount,
//! listeners on all addresses, ports, and the image's program. A field of a manifest that is neither acted out here nor
//! listed as irrelevant fails the test, so that none is ignored by accident.

pub(crate) mod chart;
pub(crate) mod deployment;
pub(crate) mod pod;
mod probes;
pub(crate) mod stateful_set;

use std::time::Duration;

use serde_json::Value;

/// Checks that an object has no other fields than these.
fn has_only(what: &str, object: &Value, known: &[&str]) {
    for field in object.as_object().into_iter().flat_map(|fields| fields.keys()) {
        assert!(known.contains(&field.as_str()), "{what}: the test does not act out {field}: {object}");
    }
}

/// The items of a list; none if it is absent.
fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

/// A number, or the default of Kubernetes if it is absent.
fn number(value: &Value, default: u32) -> u32 {
    if value.is_null() {
        return default;
    }
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    number.unwrap_or_else(|| panic!("{value} is no number"))
}

fn seconds(value: &Value, default: u32) -> Duration {
    Duration::from_secs(number(value, default).into())
}

/// A number of pods, for their lists.
fn count(value: &Value, default: u32) -> usize {
    usize::try_from(number(value, default)).expect("few pods")
}
