//! Stands before the other side: records every request, and lets the client die at each moment of it.
//!
//! What the other side does when its client dies is part of the moment: it may never have read the request, may do it all the
//! same, at once or late, and its answer may be lost.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::fate::Fate;
use crate::wire::{self, Message};
use crate::world::World;

/// Where servers run: they outlive every life of an engine.
static OUTSIDE: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime can be made")
});

/// How long a request that is done late is held at most; it is done before where another one comes.
const LATE: Duration = Duration::from_millis(150);

/// A request that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// In which life of the client, from 0.
    pub life: u32,
    /// Its method.
    pub method: String,
    /// Its path.
    pub path: String,
    /// Its `Idempotency-Key`.
    pub key: Option<String>,
    /// Its body.
    pub body: Vec<u8>,
    /// Whether it was handed on.
    pub handed_on: bool,
    /// The status of the answer, where there was one.
    pub status: Option<u16>,
}

/// Who answers.
#[derive(Clone)]
pub enum Behind {
    /// The shop of the examples, at this address.
    Shop(SocketAddr),
    /// The sweep's own service.
    World(Arc<World>),
}

struct Shared {
    behind: Behind,
    fate: Mutex<(u32, Fate)>,
    arrivals: Mutex<Vec<Arrival>>,
    came: watch::Sender<u64>,
    busy: watch::Sender<Busy>,
}

/// What is under way.
#[derive(Default)]
struct Busy {
    /// Requests that are read and not done with.
    exchanges: usize,
    /// Open connections, by the life that made them.
    connections: BTreeMap<u32, usize>,
}

/// A server on a port of its own, until it is dropped.
pub struct Gate {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the shop with these faults.
///
/// # Errors
/// When a fault cannot be read, or there is no port.
pub fn shop(faults: &[String]) -> anyhow::Result<(SocketAddr, JoinHandle<()>)> {
    let faults = faults.iter().map(|text| text.parse().map_err(anyhow::Error::msg)).collect::<Result<_, _>>()?;
    let listener = OUTSIDE.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let address = listener.local_addr()?;
    let options = shop::Options { faults, ..shop::Options::default() };
    let task = OUTSIDE.spawn(async move {
        // It ends with the task, or with the listener, and then every request fails.
        let _ = shop::serve(listener, options).await;
    });
    Ok((address, task))
}

/// The shop's record of what it was asked.
///
/// # Errors
/// When it does not answer.
pub fn shop_record(shop: SocketAddr) -> anyhow::Result<serde_json::Value> {
    OUTSIDE.block_on(async {
        let mut stream = TcpStream::connect(shop).await?;
        stream.write_all(b"GET /_record HTTP/1.1\r\nhost: shop\r\n\r\n").await?;
        let answer = wire::read(&mut stream).await?.ok_or_else(|| anyhow::anyhow!("no answer"))?;
        Ok(serde_json::from_slice(&answer.body)?)
    })
}

impl Gate {
    /// Before this service.
    ///
    /// # Errors
    /// When there is no port.
    pub fn start(behind: Behind) -> anyhow::Result<Self> {
        let listener = OUTSIDE.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            behind,
            fate: Mutex::new((0, Fate::new(crate::fate::Doom::Never))),
            arrivals: Mutex::default(),
            came: watch::Sender::new(0),
            busy: watch::Sender::default(),
        });
        let serving = shared.clone();
        let task = OUTSIDE.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let serving = serving.clone();
                tokio::spawn(async move { serving.connection(stream).await });
            }
        });
        Ok(Self { address, shared, task })
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on requests are those of this life.
    pub fn begin_life(&self, number: u32, fate: Fate) {
        *lock(&self.shared.fate) = (number, fate);
    }

    /// Waits until all that lives before this one have sent is done with, and nothing is under way. What is held to be done late is done
    /// now, as where another request comes.
    pub(crate) async fn until_done(&self) {
        let life = lock(&self.shared.fate).0;
        self.shared.came.send_modify(|count| *count += 1);
        let is_done = |busy: &Busy| busy.exchanges == 0 && busy.connections.range(..life).all(|(_, open)| *open == 0);
        // Cannot fail: the sender is our own.
        let _ = self.shared.busy.subscribe().wait_for(is_done).await;
    }

    /// Everything that came so far.
    #[must_use]
    pub fn arrivals(&self) -> Vec<Arrival> {
        lock(&self.shared.arrivals).clone()
    }
}

impl Shared {
    async fn connection(&self, mut stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let life = lock(&self.fate).0;
        self.busy.send_modify(|busy| *busy.connections.entry(life).or_default() += 1);
        while let Ok(Some(request)) = wire::read(&mut stream).await {
            self.busy.send_modify(|busy| busy.exchanges += 1);
            let goes_on = self.exchange(&mut stream, &request).await.is_some();
            self.busy.send_modify(|busy| busy.exchanges -= 1);
            if !goes_on {
                break;
            }
        }
        self.busy.send_modify(|busy| *busy.connections.entry(life).or_default() -= 1);
    }

    /// None where the connection is to be closed.
    async fn exchange(&self, stream: &mut TcpStream, request: &Message) -> Option<()> {
        let (life, fate) = lock(&self.fate).clone();
        let (method, path) = request.asks();
        let at = {
            let mut arrivals = lock(&self.arrivals);
            arrivals.push(Arrival {
                life,
                method: method.to_owned(),
                path: path.to_owned(),
                key: request.header("idempotency-key").map(str::to_owned),
                body: request.body.clone(),
                handed_on: false,
                status: None,
            });
            arrivals.len() - 1
        };
        self.came.send_modify(|count| *count += 1);
        let note = |change: &dyn Fn(&mut Arrival)| change(&mut lock(&self.arrivals)[at]);

        if !fate.is_dead() && !fate.pass("a request has come, and is lost") {
            return None;
        }
        if !fate.is_dead() && !fate.pass("a request has come, and is done late") {
            let mut came = self.came.subscribe();
            came.mark_unchanged();
            let _ = tokio::time::timeout(LATE, came.changed()).await;
        } else if !fate.is_dead() {
            fate.pass("a request has come, and is done");
        }
        note(&|arrival| arrival.handed_on = true);
        let answer = match &self.behind {
            Behind::Shop(shop) => ask(*shop, stream, request).await?,
            Behind::World(world) => world.answer(request).await?,
        };
        let status = std::str::from_utf8(answer.get(9..12)?).ok().and_then(|digits| digits.parse().ok());
        note(&|arrival| arrival.status = status);
        fate.pass("done, and not answered");
        let (first, rest) = answer.split_at(answer.len() / 2);
        stream.write_all(first).await.ok()?;
        fate.pass("half of the answer is sent");
        stream.write_all(rest).await.ok()?;
        fate.pass("the answer is sent");
        Some(())
    }
}

/// Hands a request on, and gives the whole answer; none where the service closes, or the client does.
async fn ask(service: SocketAddr, client: &mut TcpStream, request: &Message) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect(service).await.ok()?;
    stream.write_all(&request.raw).await.ok()?;
    let mut one = [0];
    tokio::select! {
        answer = wire::read(&mut stream) => answer.ok().flatten().map(|answer| answer.raw),
        // Nothing comes before the answer is out: it is the client that closes.
        _ = client.peek(&mut one) => {
            // What the service is doing, it does all the same.
            tokio::spawn(async move { wire::read(&mut stream).await });
            None
        }
    }
}
