//! The shop as a whole: its connections, what it remembers, and what it is told about itself under `/_...`.
//!
//! What happens within one request is the exchange's.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use crate::exchange::Exchange;
use crate::faults::{Fault, Faults};
use crate::http::{self, Answer, Head};
use crate::record::{self, Entry, Record, Verdict};
use crate::store::{self, Store};

/// What the shop is started with.
#[derive(Debug, Default)]
pub struct Options {
    /// In force from the start.
    pub faults: Vec<Fault>,
    /// The file that gets a JSON line for each finished request.
    pub record: Option<PathBuf>,
    /// The file that holds the process id which `kill:` faults kill.
    pub victim_pid_file: Option<PathBuf>,
}

/// Where two locks are held at once, the record's is taken first.
pub(crate) struct Shop {
    pub(crate) store: Mutex<Store>,
    faults: Mutex<Faults>,
    pub(crate) record: Mutex<Record>,
    pub(crate) victim_pid_file: Option<PathBuf>,
}

/// Serves until the task is dropped.
///
/// # Errors
/// When the record's file cannot be opened, or the listener fails.
pub async fn serve(listener: TcpListener, options: Options) -> anyhow::Result<()> {
    let record = Record::new(options.record.as_deref()).context("cannot open the record's file")?;
    let shop = Arc::new(Shop {
        store: Mutex::default(),
        faults: Mutex::new(Faults::new(options.faults)),
        record: Mutex::new(record),
        victim_pid_file: options.victim_pid_file,
    });
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(connection(stream, Arc::clone(&shop)));
    }
}

/// Requests one after the other until either side closes. A connection that breaks is the client's affair; what it broke into is in
/// the record.
async fn connection(mut stream: TcpStream, shop: Arc<Shop>) {
    let _ = stream.set_nodelay(true);
    loop {
        let (head, body) = match http::arrived(&stream).await {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                let answer = Answer::refusal(400, e.to_string());
                let _ = stream.write_all(&answer.encode(true)).await;
                return;
            }
            Err(_) => return,
        };
        let open = if head.path.starts_with("/_") || head.path == "/healthz" {
            shop.administer(&mut stream, &head).await.is_ok()
        } else {
            shop.exchange(&mut stream, &head, body).await
        };
        if !open || head.close {
            return;
        }
    }
}

/// A lock whose data stays sound when a holder panics, since every change under it is a single call.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shop {
    /// One recorded exchange. False when the connection is to be closed.
    async fn exchange(&self, stream: &mut TcpStream, head: &Head, body: Option<Vec<u8>>) -> bool {
        let fault = lock(&self.faults).strike(&head.method, &head.path);
        let seq = lock(&self.record).open(Entry {
            method: head.method.clone(),
            path: head.path.clone(),
            key: head.key.clone(),
            body_digest: body.as_deref().map(record::digest),
            order_id: body.as_deref().and_then(store::order_id),
            fault: fault.as_ref().map(ToString::to_string),
            ..Entry::default()
        });
        let ended = Exchange::new(self, stream, head, fault.map(|fault| fault.action()), seq).run().await;
        let mut record = lock(&self.record);
        if let Err(e) = &ended {
            record.note(seq, |entry| entry.problem = Some(e.to_string()));
        }
        if let Err(e) = record.close(seq) {
            record.note(seq, |entry| entry.problem = Some(format!("the record's file: {e}")));
        }
        ended.is_ok_and(|flow| flow.is_continue())
    }

    /// What the shop is told and asked about itself.
    async fn administer(&self, stream: &mut TcpStream, head: &Head) -> io::Result<()> {
        let body = http::read(stream, head).await?;
        let answer = match (head.method.as_str(), head.path.as_str()) {
            ("GET", "/healthz") => Answer::new(200, json!({ "ok": true })),
            ("GET", "/_record") => {
                let operations = lock(&self.store).operations().to_vec();
                let record = lock(&self.record);
                let verdict = Verdict::of(record.entries());
                Answer::new(200, json!({ "requests": record.entries(), "operations": operations, "verdict": verdict }))
            }
            ("GET", "/_faults") => Answer::new(200, json!({ "faults": lock(&self.faults).texts() })),
            ("POST", "/_faults") => self.add_faults(&body),
            ("DELETE", "/_faults") => {
                lock(&self.faults).clear();
                Answer::new(200, json!({ "faults": [] }))
            }
            _ => Answer::refusal(404, "there is no such thing here"),
        };
        stream.write_all(&answer.encode(head.close)).await
    }

    /// All of them or, when one cannot be read, none.
    fn add_faults(&self, body: &[u8]) -> Answer {
        #[derive(Deserialize)]
        struct Body {
            faults: Vec<String>,
        }
        let parsed = serde_json::from_slice::<Body>(body)
            .map_err(|e| e.to_string())
            .and_then(|body| body.faults.iter().map(|text| text.parse()).collect::<Result<Vec<Fault>, _>>());
        match parsed {
            Ok(added) => {
                let mut faults = lock(&self.faults);
                faults.add(added);
                Answer::new(200, json!({ "faults": faults.texts() }))
            }
            Err(why) => Answer::refusal(400, why),
        }
    }
}
