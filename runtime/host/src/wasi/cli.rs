//! `wasi:cli`: the standard streams, and a way out that is a trap.

use wasmtime::component::Linker;

use super::streams::{Input, Output};
use super::{Store, versioned};
use crate::guest::Guest;
use crate::trap::Stop;

pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker
        .instance(&versioned("wasi:cli/stdin"))?
        .func_wrap("get-stdin", |mut store: Store<'_>, (): ()| Ok((store.data_mut().wasi.table.push(Input)?,)))?;
    linker.instance(&versioned("wasi:cli/stdout"))?.func_wrap("get-stdout", |mut store: Store<'_>, (): ()| {
        Ok((store.data_mut().wasi.table.push(Output::Stdout)?,))
    })?;
    linker.instance(&versioned("wasi:cli/stderr"))?.func_wrap("get-stderr", |mut store: Store<'_>, (): ()| {
        Ok((store.data_mut().wasi.table.push(Output::Stderr)?,))
    })?;

    // A guest has no process of its own to end: it returns, or it fails.
    let mut exit = linker.instance(&versioned("wasi:cli/exit"))?;
    exit.func_wrap("exit", |_: Store<'_>, (status,): (Result<(), ()>,)| -> wasmtime::Result<()> {
        Err(Stop::Exit { status: u8::from(status.is_err()) }.into())
    })?;
    exit.func_wrap("exit-with-code", |_: Store<'_>, (status,): (u8,)| -> wasmtime::Result<()> {
        Err(Stop::Exit { status }.into())
    })
}
