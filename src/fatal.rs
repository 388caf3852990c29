//! Sorts failures into the errors that end the process, each with its exit code.

use crate::error::{Fatal, Reason, fatal};
use crate::kafka::errors::{Denied, denied_in};
use crate::kafka::fingerprint_log::denied_append;
use crate::kafka::inspector::ClusterError;

/// Creates the error that ends the process for a failure that has no exit code of its own.
pub(crate) fn failure(error: impl Into<anyhow::Error>) -> Fatal {
    Reason::Failure.because(error)
}

/// Creates the error that ends the process because the cluster does not answer.
pub(crate) fn unavailable(error: impl Into<anyhow::Error>) -> Fatal {
    Reason::Unavailable.because(error)
}

/// Sorts an error of the cluster into an exit code; for a missing permission it names the ACL to add.
#[must_use]
pub fn cluster_error(cluster_error: ClusterError) -> Fatal {
    match cluster_error {
        ClusterError::Identity(_) => Reason::Denied.because(cluster_error),
        ClusterError::Denied(ref denied) => {
            let remedy = denied.remedy();
            fatal!(Denied, "{cluster_error}; add the ACL: {remedy}")
        }
        ClusterError::Unavailable(_) => Reason::Unavailable.because(cluster_error),
    }
}

/// Sorts a fatal failure of a part of the service. A missing permission has a separate exit code.
pub(crate) fn ended(otherwise: Reason, why: impl std::fmt::Display, group: &str) -> Fatal {
    let text = why.to_string();
    match denied_in(&text) {
        Some(denied) => denied_call(denied, &text, group),
        None => otherwise.because(anyhow::anyhow!(text)),
    }
}

/// Builds the error for a missing permission, with the ACL to add.
pub(crate) fn denied_call(denied: Denied, text: &str, group: &str) -> Fatal {
    let prefix = |denied: Denied| Denied { name: group.to_owned(), ..denied };
    let remedy = match denied.resource {
        // All groups and transactional ids of the service begin with the name of its group: one prefixed ACL covers
        // them.
        "group" | "transactional-id" => prefix(denied).remedy() + " --resource-pattern-type prefixed",
        _ => denied.remedy(),
    };
    fatal!(Denied, "{text}; add the ACL: {remedy} (`dupgate check` lists all missing ones)")
}

/// Builds the error for a missing ACL on the fingerprint log.
pub(crate) fn append_denied(topic: &str) -> Fatal {
    cluster_error(ClusterError::Denied(denied_append(topic)))
}
