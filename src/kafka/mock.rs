//! A broker inside this process, for showing how pages are judged: the client library's mock cluster.
//!
//! It shows judging and not delivery: its transactions end without effect, it stores no offsets that come with them,
//! and it keeps about 5 MB of each partition.

use rdkafka::error::KafkaError;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;

/// The broker. It ends when this is dropped.
pub struct InProcessBroker {
    cluster: MockCluster<'static, DefaultProducerContext>,
}

impl InProcessBroker {
    /// Starts it on a free port of the loopback interface.
    ///
    /// # Errors
    ///
    /// When the client library cannot start it.
    pub fn start() -> Result<Self, KafkaError> {
        Ok(Self { cluster: MockCluster::new(1)? })
    }

    /// Returns where clients reach it.
    #[must_use]
    pub fn address(&self) -> String {
        self.cluster.bootstrap_servers()
    }

    /// Creates a topic.
    ///
    /// # Errors
    ///
    /// When the topic is there already.
    pub fn create_topic(&self, topic: &str, partitions: i32) -> Result<(), KafkaError> {
        self.cluster.create_topic(topic, partitions, 1)
    }
}
