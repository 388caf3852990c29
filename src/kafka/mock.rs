//! A broker inside this process, to demonstrate judging: the mock cluster of the client library.
//!
//! It demonstrates judging, not delivery: its transactions end without effect, it stores no offsets that come with
//! them, and it keeps about 5 MB of each partition.

use rdkafka::error::KafkaError;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;

/// The broker, which stops when this value is dropped.
pub struct InProcessBroker {
    cluster: MockCluster<'static, DefaultProducerContext>,
}

impl InProcessBroker {
    /// Starts a broker on a free port of the loopback interface.
    ///
    /// # Errors
    ///
    /// The client library cannot start the broker.
    pub fn start() -> Result<Self, KafkaError> {
        Ok(Self { cluster: MockCluster::new(1)? })
    }

    /// Returns its address for clients.
    #[must_use]
    pub fn address(&self) -> String {
        self.cluster.bootstrap_servers()
    }

    /// Creates a topic.
    ///
    /// # Errors
    ///
    /// The topic already exists.
    pub fn create_topic(&self, topic: &str, partitions: i32) -> Result<(), KafkaError> {
        self.cluster.create_topic(topic, partitions, 1)
    }
}
