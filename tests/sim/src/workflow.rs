//! The workflow's own code, statement by statement.

use std::rc::Rc;

use stepwell_core::contract::Level;
use stepwell_core::error::Cause;
use stepwell_core::error::{Code, Error};
use stepwell_core::json::Json;

use crate::executor::{Boxed, all, first};
use crate::guest::Heap;
use crate::program::{Operation as Begin, OperationKind, Stmt};

/// Runs the workflow's function to its end.
pub async fn run(heap: Rc<Heap>) {
    let program = heap.program.clone();
    let mut result = code(heap.clone(), program.main.clone()).await;
    if result.is_err() && heap.cancelled.get() {
        heap.see("cleanup");
        // What the cleaning up throws does not matter: the run is cancelled.
        let _ = code(heap.clone(), program.cleanup.clone()).await;
    }
    if result.is_err() && !heap.cancelled.get() {
        heap.see("rescue");
        let _ = code(heap.clone(), program.rescue.clone()).await;
    }
    if let Err(error) = &mut result {
        // What it was, for whoever asks what the run failed by.
        error.causes.insert(0, Cause { name: error.name.clone(), message: error.message.clone() });
        error.message = format!("{} after {}", error.message, heap.seen.borrow().len());
    }
    let seen = text_of(&heap.seen.borrow());
    *heap.returned.borrow_mut() = Some(result.map(|()| seen));
}

/// Everything that workflow code saw, so that a replay which saw anything else has another result.
fn text_of(seen: &[String]) -> Json {
    let mut text = String::from("\"");
    for c in seen.join("|").chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            c if c.is_control() => text.push(' '),
            c => text.push(c),
        }
    }
    text.push('"');
    Json::parse(&text).unwrap_or_else(|_| Json::null())
}

fn code(heap: Rc<Heap>, stmts: Vec<Stmt>) -> Boxed<Result<(), Error>> {
    Box::pin(async move {
        for stmt in stmts {
            statement(&heap, stmt).await?;
        }
        Ok(())
    })
}

async fn statement(heap: &Rc<Heap>, stmt: Stmt) -> Result<(), Error> {
    match stmt {
        Stmt::Do(begin) => {
            let op = heap.begin(&begin)?;
            heap.join(op, begin.caught).await
        }
        Stmt::Start(begin) => {
            let op = heap.begin(&begin)?;
            heap.started.borrow_mut().push((op, begin.caught));
            Ok(())
        }
        Stmt::Join(n) => {
            let started = heap.started.borrow().clone();
            let Some(&(op, caught)) = started.get(n % started.len().max(1)) else { return Ok(()) };
            heap.join(op, caught).await
        }
        Stmt::All { branches, fail_fast } => {
            let parts = branches.into_iter().map(|branch| code(heap.clone(), branch)).collect();
            all(parts, fail_fast).await
        }
        Stmt::Race { contestants, close_all } => race(heap, &contestants, close_all).await,
        Stmt::Abandon { operations, after_ms } => {
            let mut ops = Vec::new();
            for begin in &operations {
                ops.push(heap.begin(begin)?);
            }
            if let Some(ms) = after_ms {
                let sleep = heap.begin(&Begin { kind: OperationKind::Sleep(ms), caught: true })?;
                heap.join(sleep, true).await?;
            }
            ops.into_iter().try_for_each(|op| heap.close(op))
        }
        Stmt::Chance { even, odd } => {
            let random = heap.chance();
            heap.see(format!("{random}@{}", heap.now()));
            code(heap.clone(), if random.is_multiple_of(2) { even } else { odd }).await
        }
        Stmt::Measure(ms) => {
            let before = heap.now();
            let sleep = heap.begin(&Begin { kind: OperationKind::Sleep(ms), caught: false })?;
            heap.join(sleep, false).await?;
            let slept = heap.now() - before;
            if slept < ms {
                heap.violated(format!("a sleep of {ms} ms took {slept} ms of the workflow's time"));
            }
            heap.see(format!("slept {slept}"));
            Ok(())
        }
        Stmt::Log => {
            heap.untrapped()?;
            let text = format!("line after {}", heap.seen.borrow().len());
            let mut host = heap.host.borrow_mut();
            let now_ms = host.now_ms;
            host.machine.log(Level::Info, text, None, now_ms);
            Ok(())
        }
        Stmt::Continue => {
            heap.untrapped()?;
            let input = Json::parse("{\"again\": true}").unwrap_or_else(|_| Json::null());
            {
                let mut host = heap.host.borrow_mut();
                let now_ms = host.now_ms;
                host.machine.continue_as_new(input, now_ms)?;
            }
            *heap.returned.borrow_mut() = Some(Ok(Json::null()));
            std::future::pending().await
        }
        Stmt::Forever => std::future::pending().await,
        Stmt::Trap(percent) => {
            let hit = {
                let mut host = heap.host.borrow_mut();
                host.traps && host.random() % 100 < u64::from(percent)
            };
            if hit {
                heap.trap(Error::new(Code::Trap, "the workflow's code trapped")).await;
            }
            Ok(())
        }
        Stmt::Throw => {
            let mut error = Error::new(Code::StepFailed, "thrown by the workflow");
            error.code = "mine".to_owned();
            Err(error)
        }
    }
}

async fn race(heap: &Rc<Heap>, contestants: &[Begin], close_all: bool) -> Result<(), Error> {
    let mut ops = Vec::new();
    for begin in contestants {
        ops.push(heap.begin(begin)?);
    }
    let parts = ops.iter().map(|&op| {
        let heap = heap.clone();
        Box::pin(async move { heap.outcome(op).await }) as Boxed<_>
    });
    let (won, outcome) = first(parts.collect()).await;
    heap.see(format!("won {won}"));
    for (at, &op) in ops.iter().enumerate() {
        if close_all || at % 2 == 0 {
            heap.close(op)?;
        }
    }
    heap.take(ops[won], outcome, contestants[won].caught)
}
