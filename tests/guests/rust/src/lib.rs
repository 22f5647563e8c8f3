//! Workflows in Rust for the tests: every feature of the contract as a guest without an event loop uses it.
//!
//! ```text
//!   contract   the WIT's types and functions
//!   run        the loop around `next`: no executor, no wakers; after each event everything is polled once
//!   step http  what a workflow and a body are given
//!   workflows  the tests' own
//! ```

mod contract;
mod error;
mod http;
mod run;
mod step;
mod workflows;

use contract::{Definition, Error, Guest, RetryPolicy, commands};

struct Module;

impl Guest for Module {
    fn describe() -> Vec<Definition> {
        let definition = |&(name, _): &(&str, _)| Definition {
            name: name.to_owned(),
            retry: RetryPolicy {
                max_attempts: None,
                initial_ms: Some(0),
                max_ms: None,
                multiplier: None,
                jitter: None,
            },
            step_timeout_ms: None,
            run_timeout_ms: None,
            input_schema: None,
            destinations: vec!["127.0.0.1:*".to_owned()],
            secrets: Vec::new(),
        };
        workflows::ALL.iter().map(definition).collect()
    }

    fn run(workflow: String, input: String) -> Result<String, Error> {
        // Where a panic happened is lost in the trap that it becomes; the run's log has it.
        std::panic::set_hook(Box::new(|panic| commands::log(contract::Level::Error, &panic.to_string(), None)));
        let input = serde_json::from_str(&input).map_err(|error| error::new("guest.input", &error.to_string()))?;
        let Some((_, start)) = workflows::ALL.iter().find(|(name, _)| *name == workflow) else {
            return Err(error::new("guest.no_such_workflow", &workflow));
        };
        run::drive(|run| start(run, input)).map(|value| value.to_string())
    }
}

contract::export!(Module with_types_in contract);
