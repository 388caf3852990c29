//! Sorts the errors of a client by what they mean to the owner of a transaction.
//!
//! The client sorts the errors of transactional calls itself: retriable, requiring an abort, fatal. Delivery reports
//! carry only a code; those that blame the record itself become [`CallError::Undeliverable`].

use std::fmt;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::record::Reject;
use crate::transaction::{Call, CallError};

/// Prefix of the error of a record that was not delivered.
pub const NOT_DELIVERED: &str = "a record was not delivered: ";

/// Sorts the error of one call to the transactional producer by what the owner must do next.
#[must_use]
pub fn of_call(call: Call, error: &KafkaError) -> CallError {
    let KafkaError::Transaction(inner) = error else {
        return of_code(error.rdkafka_error_code(), error.to_string());
    };
    let text = format!("{call:?}: {} ({})", inner.string(), inner.name());
    if denied_by_code(inner.code(), "").is_some() {
        // Nothing was committed, and an abort does not grant a permission.
        CallError::Fatal(text)
    } else if is_fenced(inner.code()) {
        CallError::Fenced(text)
    } else if inner.is_fatal() {
        of_fatal(call, inner.code(), text)
    } else if inner.txn_requires_abort() {
        CallError::Abortable(text)
    } else if inner.is_retriable() || is_passing(inner.code()) {
        CallError::Retriable(text)
    } else {
        match call {
            // A failed commit should be retriable, abortable or fatal; after any other error its outcome is unknown.
            Call::Commit => CallError::Unknown(text),
            Call::Begin | Call::Produce | Call::SendOffsets => CallError::Abortable(text),
            Call::Init | Call::Abort => CallError::Fatal(text),
        }
    }
}

/// Sorts fatal errors of a producer by whether a new one can continue.
fn of_fatal(call: Call, code: RDKafkaErrorCode, text: String) -> CallError {
    // The brokers know another state of the transaction: they aborted one that was open for too long, or restarted
    // before they had heard of it.
    let is_forgotten = [
        RDKafkaErrorCode::InvalidTransactionalState,
        RDKafkaErrorCode::InvalidProducerIdMapping,
        RDKafkaErrorCode::UnknownProducerId,
        RDKafkaErrorCode::OutOfOrderSequenceNumber,
    ]
    .contains(&code);
    // A commit that ends in a fatal error may have succeeded.
    if call == Call::Commit || is_forgotten && call != Call::Init {
        CallError::Unknown(text)
    } else {
        CallError::Fatal(text)
    }
}

/// Sorts an error that carries nothing but its code, before anything was committed.
#[must_use]
pub fn of_code(code: Option<RDKafkaErrorCode>, text: String) -> CallError {
    match code {
        Some(code) if is_fenced(code) => CallError::Fenced(text),
        Some(RDKafkaErrorCode::Fatal) => CallError::Fatal(text),
        Some(code) if denied_by_code(code, "").is_some() => CallError::Fatal(text),
        Some(_) | None => CallError::Abortable(text),
    }
}

/// Finds the reason why the broker will never accept a record, if the code names one.
#[must_use]
pub fn refusal(code: RDKafkaErrorCode) -> Option<Reject> {
    if code == RDKafkaErrorCode::MessageSizeTooLarge || code == RDKafkaErrorCode::InvalidMessageSize {
        Some(Reject::TooLargeForOutput)
    } else if code == RDKafkaErrorCode::InvalidTimestamp {
        Some(Reject::TimestampRefused)
    } else if code == RDKafkaErrorCode::InvalidRecord {
        Some(Reject::Refused)
    } else {
        None
    }
}

/// A missing permission, in the terms of `kafka-acls.sh`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The operation: `Read`, `Write`, `Describe`, …
    pub operation: &'static str,
    /// The resource: `topic`, `group`, `transactional-id` or `cluster`.
    pub resource: &'static str,
    /// Its name; empty for the cluster, or if the error does not name it.
    pub name: String,
}

impl Denied {
    /// Returns the same permission for another operation.
    #[must_use]
    pub fn to(self, operation: &'static str) -> Self {
        Self { operation, ..self }
    }

    /// Returns the command that adds the ACL.
    #[must_use]
    pub fn remedy(&self) -> String {
        let name = if self.name.is_empty() { "NAME" } else { &self.name };
        let on = if self.resource == "cluster" { String::new() } else { format!(" '{name}'") };
        format!(
            "kafka-acls.sh --bootstrap-server BROKER --add --allow-principal User:USER --operation {} --{}{on}",
            self.operation, self.resource
        )
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {} {}", self.operation, self.resource, self.name)?;
        Ok(())
    }
}

/// Returns the missing permission, if an error reports one. `name` is the resource of the request.
#[must_use]
pub fn denied(error: &KafkaError, name: &str) -> Option<Denied> {
    let code = if let KafkaError::Transaction(inner) = error {
        Some(inner.code())
    } else if let KafkaError::AdminOp(code) = error {
        Some(*code)
    } else {
        error.rdkafka_error_code()
    };
    denied_by_code(code?, name)
}

/// Like [`denied`], for a bare code.
#[must_use]
pub fn denied_by_code(code: RDKafkaErrorCode, name: &str) -> Option<Denied> {
    let (operation, resource) = if code == RDKafkaErrorCode::TopicAuthorizationFailed {
        ("Describe", "topic")
    } else if code == RDKafkaErrorCode::GroupAuthorizationFailed {
        ("Read", "group")
    } else if code == RDKafkaErrorCode::TransactionalIdAuthorizationFailed {
        ("Write", "transactional-id")
    } else if code == RDKafkaErrorCode::ClusterAuthorizationFailed {
        ("IdempotentWrite", "cluster")
    } else {
        return None;
    };
    Some(Denied { operation, resource, name: if resource == "cluster" { String::new() } else { name.to_owned() } })
}

/// Finds a missing permission in the message of a client's error, which names the code.
#[must_use]
pub fn denied_in(message: &str) -> Option<Denied> {
    let names = [
        (RDKafkaErrorCode::TopicAuthorizationFailed, "TOPIC_AUTHORIZATION_FAILED"),
        (RDKafkaErrorCode::GroupAuthorizationFailed, "GROUP_AUTHORIZATION_FAILED"),
        (RDKafkaErrorCode::TransactionalIdAuthorizationFailed, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
        (RDKafkaErrorCode::ClusterAuthorizationFailed, "CLUSTER_AUTHORIZATION_FAILED"),
    ];
    let has = |code: RDKafkaErrorCode, name: &str| message.contains(&format!("{code:?}")) || message.contains(name);
    let (code, _) = names.into_iter().find(|(code, name)| has(*code, name))?;
    let denied = denied_by_code(code, "")?;
    let is_written = message.contains(&format!("{:?}: ", Call::Produce)) || message.contains(NOT_DELIVERED);
    Some(if is_written && denied.resource == "topic" { denied.to("Write") } else { denied })
}

/// Returns whether another producer has taken over the transactional id.
///
/// A static member that is fenced while it commits offsets is not meant: a process that was suspended for longer than its
/// session finds itself replaced by its own new membership. If another process has the member's place, the consumer says
/// so.
fn is_fenced(code: RDKafkaErrorCode) -> bool {
    [RDKafkaErrorCode::Fenced, RDKafkaErrorCode::ProducerFenced, RDKafkaErrorCode::InvalidProducerEpoch].contains(&code)
}

/// Returns whether the error may pass by itself: the network, a broker that is starting, a leader election.
#[must_use]
pub fn is_passing(code: RDKafkaErrorCode) -> bool {
    [
        RDKafkaErrorCode::OperationTimedOut,
        RDKafkaErrorCode::RequestTimedOut,
        RDKafkaErrorCode::TimedOutQueue,
        RDKafkaErrorCode::BrokerTransportFailure,
        RDKafkaErrorCode::AllBrokersDown,
        RDKafkaErrorCode::Resolve,
        RDKafkaErrorCode::CoordinatorLoadInProgress,
        RDKafkaErrorCode::CoordinatorNotAvailable,
        RDKafkaErrorCode::NotCoordinator,
        RDKafkaErrorCode::LeaderNotAvailable,
        RDKafkaErrorCode::NotLeaderForPartition,
        RDKafkaErrorCode::WaitingForCoordinator,
        RDKafkaErrorCode::UnstableOffsetCommit,
        RDKafkaErrorCode::OffsetNotAvailable,
        RDKafkaErrorCode::PreviousInProgress,
    ]
    .contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_codes_that_blame_the_record_are_refusals() {
        assert_eq!(refusal(RDKafkaErrorCode::MessageSizeTooLarge), Some(Reject::TooLargeForOutput));
        assert_eq!(refusal(RDKafkaErrorCode::InvalidTimestamp), Some(Reject::TimestampRefused));
        assert_eq!(refusal(RDKafkaErrorCode::InvalidRecord), Some(Reject::Refused));
        // Another record of the same batch was at fault: this one may be retried.
        assert_eq!(refusal(RDKafkaErrorCode::InvalidDifferentRecord), None);
        assert_eq!(refusal(RDKafkaErrorCode::MessageTimedOut), None);
    }

    #[test]
    fn a_missing_permission_is_reported_with_the_acl_to_add() {
        let denied = denied(&KafkaError::AdminOp(RDKafkaErrorCode::TopicAuthorizationFailed), "pages").unwrap();
        assert!(denied.remedy().ends_with("--operation Describe --topic 'pages'"), "{}", denied.remedy());
        assert_eq!(denied.to_string(), "Describe on topic pages");
        let message = KafkaError::MessageConsumption(RDKafkaErrorCode::GroupAuthorizationFailed).to_string();
        assert_eq!(denied_in(&message).map(|denied| denied.resource), Some("group"));
        let message = "Init: failed (_FATAL, TRANSACTIONAL_ID_AUTHORIZATION_FAILED)";
        assert_eq!(denied_in(message).map(|denied| denied.operation), Some("Write"));
        let message = "Produce: Failed to add partition(s) to transaction (TOPIC_AUTHORIZATION_FAILED)";
        assert_eq!(denied_in(message).map(|denied| denied.operation), Some("Write"));
        let message = format!("{NOT_DELIVERED}{}", RDKafkaErrorCode::TopicAuthorizationFailed);
        assert_eq!(denied_in(&message).map(|denied| denied.operation), Some("Write"));
        assert_eq!(denied_in("the broker is away"), None);
        let refused = of_code(Some(RDKafkaErrorCode::TopicAuthorizationFailed), String::new());
        assert!(matches!(refused, CallError::Fatal(_)), "an abort does not grant a permission");
    }

    #[test]
    fn a_new_producer_continues_a_transaction_that_the_brokers_forgot() {
        let sorted = |call, code| of_fatal(call, code, String::new());
        let forgotten = RDKafkaErrorCode::InvalidTransactionalState;
        for call in [Call::Begin, Call::Produce, Call::SendOffsets, Call::Commit, Call::Abort] {
            assert_eq!(sorted(call, forgotten), CallError::Unknown(String::new()), "{call:?}");
        }
        assert_eq!(sorted(Call::Init, forgotten), CallError::Fatal(String::new()), "it is new already");
        assert_eq!(sorted(Call::Abort, RDKafkaErrorCode::UnsupportedVersion), CallError::Fatal(String::new()));
    }

    #[test]
    fn codes_before_a_commit_are_abortable_unless_the_id_or_the_producer_is_gone() {
        let sorted = |code| of_code(Some(code), String::new());
        assert!(matches!(sorted(RDKafkaErrorCode::MessageTimedOut), CallError::Abortable(_)));
        assert!(matches!(sorted(RDKafkaErrorCode::ProducerFenced), CallError::Fenced(_)));
        assert!(matches!(sorted(RDKafkaErrorCode::FencedInstanceId), CallError::Abortable(_)));
        assert!(matches!(sorted(RDKafkaErrorCode::Fatal), CallError::Fatal(_)));
    }
}
