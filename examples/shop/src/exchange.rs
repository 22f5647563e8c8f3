//! One exchange: a request from its arrival to its end, past the points at which a fault may strike.

use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::faults::{Action, Point};
use crate::http::{self, Answer, Head};
use crate::record::{self, Entry};
use crate::server::{Shop, lock};
use crate::store::{self, Claim, Decision};
use crate::victim;

/// One request under way. When it is over, a key that it claimed and did not use is free again.
pub(crate) struct Exchange<'a> {
    shop: &'a Shop,
    stream: &'a mut TcpStream,
    head: &'a Head,
    action: Option<Action>,
    seq: u64,
    claim: Option<Claim>,
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            lock(&self.shop.store).abandon(&claim);
        }
    }
}

impl<'a> Exchange<'a> {
    /// Of the request that `head` is of and that the record knows as `seq`.
    pub(crate) fn new(
        shop: &'a Shop,
        stream: &'a mut TcpStream,
        head: &'a Head,
        action: Option<Action>,
        seq: u64,
    ) -> Self {
        Self { shop, stream, head, action, seq, claim: None }
    }

    /// From the request's arrival to the exchange's end. `Break` when the connection is to be closed.
    ///
    /// # Errors
    /// When the connection breaks on its own.
    pub(crate) async fn run(mut self) -> io::Result<ControlFlow<()>> {
        if self.at(Point::BeforeRead).await.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let body = http::read(self.stream, self.head).await?;
        self.note(|entry| {
            entry.body_digest = Some(record::digest(&body));
            entry.order_id = store::order_id(&body);
        });
        if let Some(Action::Status { status, retry_after }) = self.action {
            self.note(|entry| entry.reached = Some(Point::AfterRead));
            let answer = Answer { retry_after, ..Answer::refusal(status, "told to") };
            return self.answer(&answer).await;
        }
        let decided = self.decide(&body);
        if self.at(Point::AfterRead).await.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if let Some(Action::Takes(ms)) = self.action {
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
        let mut answer = self.store(decided);
        if self.at(Point::AfterStore).await.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if let Some(Action::StoreThen { status, retry_after }) = self.action {
            answer = Answer { retry_after, ..Answer::refusal(status, "told to") };
        }
        self.answer(&answer).await
    }

    /// Claims the key, or answers what is known already.
    fn decide(&mut self, body: &[u8]) -> Option<Answer> {
        let mut store = lock(&self.shop.store);
        match (self.head.method.as_str(), self.head.path.strip_prefix("/orders/")) {
            ("GET", Some(id)) => Some(store.order(id)),
            ("POST", None) => match store.begin(&self.head.path, self.head.key.as_deref(), body) {
                Decision::Begin(claim) => {
                    self.claim = Some(claim);
                    None
                }
                Decision::Replay(answer) | Decision::Refuse(answer) => Some(answer),
            },
            _ => Some(Answer::refusal(404, "there is no such thing here")),
        }
    }

    /// Does the claimed operation. Without a claim the answer was decided before.
    fn store(&mut self, decided: Option<Answer>) -> Answer {
        let Some(claim) = self.claim.take() else {
            return decided.unwrap_or_else(|| Answer::refusal(500, "nothing was decided"));
        };
        // Both at once, so that nobody sees an operation without the request that did it.
        let mut record = lock(&self.shop.record);
        let answer = lock(&self.shop.store).finish(claim);
        record.note(self.seq, |entry| entry.stored = true);
        answer
    }

    async fn answer(&mut self, answer: &Answer) -> io::Result<ControlFlow<()>> {
        let bytes = answer.encode(self.head.close);
        if self.action == Some(Action::SlowAnswer) {
            for byte in &bytes {
                self.stream.write_all(&[*byte]).await?;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            self.note_answered(answer);
        } else {
            let (first, rest) = bytes.split_at(bytes.len() / 2);
            self.stream.write_all(first).await?;
            if self.at(Point::MidAnswer).await.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            // Noted first: who has the answer may look into the record at once.
            self.note_answered(answer);
            if let Err(e) = self.stream.write_all(rest).await {
                self.note(|entry| entry.answered = None);
                return Err(e);
            }
        }
        Ok(self.at(Point::AfterAnswer).await)
    }

    fn note_answered(&self, answer: &Answer) {
        self.note(|entry| {
            entry.answered = Some(answer.status);
            entry.replayed = answer.replayed;
        });
    }

    /// The exchange has come to `point`. If a fault strikes here, it does; `Break` when the exchange ends with it.
    async fn at(&mut self, point: Point) -> ControlFlow<()> {
        let strikes = self.action.filter(|action| match *action {
            Action::Drop(at) | Action::Hang(at) | Action::Kill { point: at, .. } => at == point,
            _ => false,
        });
        let ends = strikes.is_some_and(|action| !matches!(action, Action::Kill { go_on: true, .. }));
        // Noted first: who sees the fault strike may look into the record at once.
        self.note(|entry| {
            entry.reached = Some(point);
            entry.ended_at = ends.then_some(point);
        });
        match strikes {
            Some(Action::Kill { .. }) => self.kill_victim().await,
            Some(Action::Hang(_)) => self.client_closed().await,
            _ => {}
        }
        if ends { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// The record names the victim before it dies: who sees it dead may look there at once.
    async fn kill_victim(&self) {
        let file = self.shop.victim_pid_file.as_deref();
        let killed = match victim::read_pid(file) {
            Ok(pid) => {
                self.note(|entry| entry.killed = Some(pid));
                let done = tokio::task::spawn_blocking(move || victim::kill(pid)).await;
                done.unwrap_or_else(|e| Err(e.to_string()))
            }
            Err(why) => Err(why),
        };
        if let Err(why) = killed {
            self.note(|entry| {
                entry.killed = None;
                entry.problem = Some(why);
            });
        }
    }

    /// Swallows whatever comes until nothing can.
    async fn client_closed(&mut self) {
        let mut scratch = [0; 1024];
        while matches!(self.stream.read(&mut scratch).await, Ok(1..)) {}
    }

    fn note(&self, change: impl FnOnce(&mut Entry)) {
        lock(&self.shop.record).note(self.seq, change);
    }
}
