//! Probes permissions with requests that brokers must reject for another reason.
//!
//! Brokers check permissions first. So the answer to a request that has another fault shows whether we have the
//! permission: it names either the permission or the other fault. The probes leave nothing in the cluster: no record,
//! no group member, no topic.

use std::sync::PoisonError;

use crossbeam_channel::{Sender, after, bounded};
use rdkafka::admin::AdminOptions;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::{Offset, TopicPartitionList};

use super::{ClusterError, ClusterInspector, ErrorCapture, POLL, TopicPlan};
use crate::kafka::admin::{create, options};
use crate::kafka::client::ProducerSettings;
use crate::kafka::errors::denied_by_code;
use crate::kafka::log_topic::Creation;

/// An `acks` value that no broker knows: `0`, `1` and `all` are the only ones.
const NO_SUCH_ACKS: &str = "2";

/// A session that is longer than brokers allow by default (half an hour), in milliseconds.
const TOO_LONG_SESSION: &str = "3600000";

/// A protocol that no member of our groups supports.
const OTHER_PROTOCOL: &str = "roundrobin";

/// Passes on the delivery report of the record that a probe sends.
struct DeliveryProbe {
    errors: ErrorCapture,
    became: Sender<Option<KafkaError>>,
}

impl ClientContext for DeliveryProbe {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.errors.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.errors.error(error, reason);
    }
}

impl ProducerContext for DeliveryProbe {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): Self::DeliveryOpaque) {
        let error = result.as_ref().err().map(|(error, _)| error.clone());
        drop(self.became.try_send(error));
    }
}

impl ClusterInspector {
    /// Checks the permission to write to a topic: sends a record with an unknown `acks` value.
    ///
    /// # Errors
    ///
    /// The missing permission, or why there is no answer.
    pub fn may_write(&self, topic: &str) -> Result<(), ClusterError> {
        let mut config = self.connection.output_producer(&ProducerSettings::of_judge());
        config
            .set("enable.idempotence", "false")
            .set("acks", NO_SUCH_ACKS)
            .set("message.send.max.retries", "0")
            .set("message.timeout.ms", self.timeout.as_millis().to_string())
            .set("linger.ms", "0")
            .set_log_level(RDKafkaLogLevel::Error);
        let (became, message) = bounded(1);
        let unsent = |error: &KafkaError| ClusterError::of_topic(error, topic, "Write");
        let producer: BaseProducer<DeliveryProbe> = config
            .create_with_context(DeliveryProbe { errors: ErrorCapture::default(), became })
            .map_err(|error| unsent(&error))?;
        let record = BaseRecord::<[u8], [u8]>::to(topic).partition(0).payload(b"");
        producer.send(record).map_err(|(error, _)| unsent(&error))?;
        producer.flush(self.timeout).map_err(|error| unsent(&error))?;
        match message.try_recv().ok().flatten() {
            None | Some(KafkaError::MessageProduction(RDKafkaErrorCode::InvalidRequiredAcks)) => Ok(()),
            Some(error) => Err(unsent(&error)),
        }
    }

    /// Checks the permission to join a group: tries to join with a session that is too long, and a protocol that no
    /// member supports. A broker that accepts it nevertheless creates a group, which is left at once.
    ///
    /// # Errors
    ///
    /// The missing permission, or why there is no answer.
    pub fn may_join(&self, group: &str, topic: &str) -> Result<(), ClusterError> {
        let mut config = self.connection.follower(group);
        config
            .set("session.timeout.ms", TOO_LONG_SESSION)
            .set("max.poll.interval.ms", TOO_LONG_SESSION)
            .set("heartbeat.interval.ms", "3000")
            .set("partition.assignment.strategy", OTHER_PROTOCOL)
            .set_log_level(RDKafkaLogLevel::Error);
        let errors = ErrorCapture::default();
        // Errors about the topic are not relevant here.
        let of_group = |code| denied_by_code(code, group).filter(|denied| denied.resource == "group");
        let unjoined = |error: &KafkaError| ClusterError::Unavailable(error.to_string());
        let consumer: BaseConsumer<ErrorCapture> =
            config.create_with_context(errors.clone()).map_err(|error| unjoined(&error))?;
        consumer.subscribe(&[topic]).map_err(|error| unjoined(&error))?;
        let late = after(self.timeout);
        let mut last = None;
        while late.try_recv().is_err() {
            match consumer.poll(POLL) {
                Some(Ok(_)) => return Ok(()),
                Some(Err(error)) => {
                    let code = error.rdkafka_error_code();
                    if code.is_some_and(is_form_refused) {
                        return Ok(());
                    }
                    if let Some(denied) = code.and_then(of_group) {
                        return Err(ClusterError::Denied(denied));
                    }
                    last = Some(error);
                }
                // The broker has accepted the join, so the permission exists.
                None if consumer.assignment().is_ok_and(|list| list.count() > 0) => return Ok(()),
                None => {}
            }
        }
        let errors = errors.0.lock().unwrap_or_else(PoisonError::into_inner);
        let denied = errors.iter().find_map(|(code, _)| of_group((*code)?));
        let why = || last.map_or_else(|| "no group coordinator responds".to_owned(), |error| error.to_string());
        Err(denied.map_or_else(|| ClusterError::Unavailable(why()), ClusterError::Denied))
    }

    /// Checks the permission to delete records of a topic: deletes all before offset 0, which are none.
    ///
    /// # Errors
    ///
    /// The missing permission, or why there is no answer.
    pub fn may_delete_records(&self, topic: &str) -> Result<(), ClusterError> {
        let undeleted = |error: &KafkaError| ClusterError::of_topic(error, topic, "Delete");
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, 0, Offset::Offset(0)).map_err(|error| undeleted(&error))?;
        let options = options(self.timeout);
        let answer = self.runtime.block_on(self.admin.delete_records(&list, &options));
        let answer = answer.map_err(|error| undeleted(&error))?;
        for element in answer.elements() {
            element.error().map_err(|error| undeleted(&error))?;
        }
        Ok(())
    }

    /// Checks the permission to create this topic: the brokers only validate the request.
    ///
    /// # Errors
    ///
    /// The missing permission, or why else it could not be created.
    pub fn may_create(&self, plan: &TopicPlan) -> Result<(), ClusterError> {
        self.make(plan, &options(self.timeout).validate_only(true))
    }

    /// Creates a topic.
    ///
    /// # Errors
    ///
    /// Why the brokers refuse.
    pub fn create(&self, plan: &TopicPlan) -> Result<(), ClusterError> {
        self.make(plan, &options(self.timeout))
    }

    fn make(&self, plan: &TopicPlan, options: &AdminOptions) -> Result<(), ClusterError> {
        let replicas = i32::try_from(plan.replicas).unwrap_or(i32::MAX);
        let creation = Creation::new(replicas, plan.is_configured.then_some(replicas), plan.settings.clone());
        let created = create(&self.admin, &self.runtime, options, &plan.name, plan.partitions, creation);
        let refused = |code| ClusterError::of_topic(&KafkaError::AdminOp(code), &plan.name, "Create");
        created.map_err(|error| ClusterError::of(&error, &plan.name))?.map_err(refused)
    }
}

/// Returns whether a coordinator refuses the join for the faults of the probe, not for a missing permission.
fn is_form_refused(code: RDKafkaErrorCode) -> bool {
    [RDKafkaErrorCode::InvalidSessionTimeout, RDKafkaErrorCode::InconsistentGroupProtocol].contains(&code)
}
