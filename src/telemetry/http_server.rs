//! An HTTP listener on a separate thread.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;

use axum::Router;
use tokio::sync::oneshot;

/// A listener on a separate thread, which stops when this value is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Binds an address (port 0 takes any free one). Connections wait until a server starts answering.
///
/// # Errors
///
/// The address cannot be bound.
pub fn bind(listen: SocketAddr) -> io::Result<TcpListener> {
    let bound = TcpListener::bind(listen)?;
    bound.set_nonblocking(true)?;
    Ok(bound)
}

impl Server {
    /// Starts answering, and runs `beside` on the same thread.
    ///
    /// # Errors
    ///
    /// No thread can be started.
    pub(super) fn start(
        thread: &str,
        bound: TcpListener,
        router: Router,
        beside: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(4).build()?;
        let address = bound.local_addr()?;
        let listener = {
            let _runtime = runtime.enter();
            tokio::net::TcpListener::from_std(bound)?
        };
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name(thread.to_owned()).spawn(move || {
            crate::panics::exit_on_panic(|| {
                runtime.block_on(async move {
                    tokio::select! {
                        _ = stopped => {}
                        served = axum::serve(listener, router).into_future() => {
                            if let Err(error) = served {
                                tracing::error!(target: "dupgate::http", %address, %error, "a listener ended");
                            }
                        }
                        () = beside => {}
                    }
                });
                // Do not wait for requests in progress.
                runtime.shutdown_background();
            });
        })?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the listening address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // If there is no receiver, the thread has already ended.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            // A panic on that thread has ended the process.
            let _ = thread.join();
        }
    }
}
