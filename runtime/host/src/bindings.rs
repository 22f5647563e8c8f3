//! The contract as wasmtime's types, generated from the WIT.

#![allow(missing_docs, unreachable_pub, reason = "generated; the WIT has the documentation")]

wasmtime::component::bindgen!({
    path: "../../guest-sdk/wit",
    world: "workflow",
    imports: {
        "stepwell:workflow/turns.next": async | store | trappable,
        "stepwell:workflow/blocking-turns.next": async | trappable,
    },
    exports: {
        default: async,
        "stepwell:workflow/workflows.run": async | store,
    },
});

pub(crate) use exports::stepwell::workflow::workflows::Definition;
pub(crate) use stepwell::workflow::{blocking_turns, commands, turns, types};
