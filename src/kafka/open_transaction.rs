//! Ends the transaction that a process left open when it was killed.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, Producer};

use super::client::LoggingContext;
use super::errors;
use crate::transaction::{Call, CallError};

/// Ends the transaction that is open under the transactional id of these settings, and fences its producer if it still
/// runs: afterwards the offsets of the group are final, and reading them does not wait.
///
/// # Errors
///
/// The brokers refuse, or none answered within `timeout`.
pub fn end_open_transaction(config: &ClientConfig, timeout: Duration) -> Result<(), CallError> {
    let producer: BaseProducer<LoggingContext> =
        config.create_with_context(LoggingContext::default()).map_err(|error| CallError::Fatal(error.to_string()))?;
    producer.init_transactions(timeout).map_err(|error| errors::of_call(Call::Init, &error))
}
