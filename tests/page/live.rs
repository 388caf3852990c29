//! A deployment on a real broker whose judge is lost: the overview of each instance, and how soon it shows the loss.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use dupgate_testkit::ports::free_address;
use serde_json::{Value, json};

use super::broker::Broker;
use super::browser::Browser;
use super::cluster::records::{Page, PageProducer};
use super::cluster::{Cluster, Shape};
use super::holds;
use super::overview::{soon, state_is, text};

/// Writes fifty pages a second until dropped.
struct Feed {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Feed {
    fn start(cluster: &Cluster<'_>) -> Self {
        let (producer, topic) = (PageProducer::new(cluster.broker()), cluster.inputs()[0].clone());
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            for number in 0_u64.. {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let words: Vec<String> = (0..40).map(|word| format!("w{number}x{word}")).collect();
                let value = json!({"url": format!("https://a.example/{number}"), "text": words.join(" ")});
                producer.write(
                    &topic,
                    0,
                    &Page { key: number.to_string(), value: Some(value.to_string().into()), ..Page::default() },
                );
                std::thread::park_timeout(Duration::from_millis(20));
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// Configuration of an instance with this single role and an overview at this address.
fn alone(role: &str, admin: &str) -> Value {
    json!({"roles": [role], "judge": {"session_timeout": "6s"}, "http": {"admin": {"listen": admin}}})
}

#[test]
fn the_loss_and_return_of_a_judge_are_shown_soon() {
    let Some(broker) = Broker::shared() else { return };
    let Some(mut browser) = Browser::start() else { return };
    let shape = Shape { topics: 1, partitions: 1, input_settings: &[], output_settings: &[], config: json!({}) };
    let cluster = Cluster::new(broker, shape);
    let (of_judge, of_worker) = (free_address().to_string(), free_address().to_string());
    let mut judge = cluster.start_with("judge", alone("judge", &of_judge));
    let mut worker = cluster.start_with("worker", alone("worker", &of_worker));
    judge.wait_ready();
    worker.wait_ready();
    let _feed = Feed::start(&cluster);

    // On its own page: while it judges, while it is gone, and when it is back.
    let mut tab = browser.open(&format!("http://{of_judge}/ui/"));
    let judges = "document.querySelector('#judges tbody').textContent.includes('judges')";
    holds(&mut tab, "the judge", &format!("{judges} && {}", state_is("Ready")));
    judge.kill();
    soon(&mut tab, "the silence", "/^Unreachable for \\d+ s$/.test(document.getElementById('state').textContent)");
    assert!(!text(&mut tab, "troubles").contains("No judge"), "an unreachable instance shows no judges");
    judge = cluster.start_with("judge", alone("judge", &of_judge));
    holds(&mut tab, "the judge again", &format!("{judges} && {}", state_is("Ready")));
    drop(tab);

    // On the page of an instance that continues: another instance is missing, not this one.
    let mut tab = browser.open(&format!("http://{of_worker}/ui/"));
    holds(&mut tab, "the worker", &state_is("Ready"));
    judge.stop();
    soon(&mut tab, "the missing judge", &state_is("No judge"));
    let first = tab.run("document.querySelector('#troubles li').textContent");
    assert!(
        first.as_str().is_some_and(|first| first.starts_with("No judge for ") && first.contains("pages wait")),
        "{first}"
    );
    let mut judge = cluster.start_with("judge", alone("judge", &of_judge));
    judge.wait_ready();
    soon(&mut tab, "verdicts again", &state_is("Ready"));
}
