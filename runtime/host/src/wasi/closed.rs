//! Interfaces that toolchains link in and a workflow has no use for: files, sockets, environment, terminals. They are there, so that
//! the module starts, and they hold nothing.
//!
//! Every function answers by the type of its result: no value, an empty list, or "access denied". What can answer none of these
//! (a method of a thing that was never given out) ends the invocation.

use wasmtime::Engine;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Linker, LinkerInstance, ResourceType, Type, Val, types};

use super::poll::Pollable;
use super::streams::{Input, IoError, Output};
use super::{Kind, Store};
use crate::guest::Guest;
use crate::trap::Stop;

const CLOSED: &[&str] = &[
    "wasi:cli/environment",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stderr",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:filesystem/preopens",
    "wasi:filesystem/types",
    "wasi:sockets/instance-network",
    "wasi:sockets/ip-name-lookup",
    "wasi:sockets/network",
    "wasi:sockets/tcp",
    "wasi:sockets/tcp-create-socket",
    "wasi:sockets/udp",
    "wasi:sockets/udp-create-socket",
];

/// A thing that no guest is ever given: a file, a socket, a terminal.
enum Absent {}

impl Kind for Absent {
    const NAME: &'static str = "";

    fn drop(_: Store<'_>, _: u32) -> wasmtime::Result<()> {
        Ok(())
    }
}

/// Whether the interface, named without its version, is one of these.
pub(crate) fn is_closed(interface: &str) -> bool {
    CLOSED.contains(&interface)
}

/// Adds the interface as the module imports it, if it is one of these. Answers whether it is.
pub(crate) fn close(
    linker: &mut Linker<Guest>,
    engine: &Engine,
    interface: &str,
    import: &str,
    instance: &types::ComponentInstance,
) -> wasmtime::Result<bool> {
    if !is_closed(interface) {
        return Ok(false);
    }
    let mut closed = linker.instance(import)?;
    for (name, item) in instance.exports(engine) {
        match item.ty {
            ComponentItem::ComponentFunc(_) => add_function(&mut closed, name)?,
            ComponentItem::Resource(_) => add_resource(&mut closed, name)?,
            _ => {}
        }
    }
    Ok(true)
}

fn add_function(closed: &mut LinkerInstance<'_, Guest>, name: &str) -> wasmtime::Result<()> {
    closed.func_new(name, |_, ty, _, results| {
        for (result, ty) in results.iter_mut().zip(ty.results()) {
            *result = nothing(&ty).ok_or(Stop::NotOffered("files and sockets"))?;
        }
        Ok(())
    })
}

/// Nothing, in that type.
fn nothing(ty: &Type) -> Option<Val> {
    match ty {
        Type::Option(_) => Some(Val::Option(None)),
        Type::List(_) => Some(Val::List(Vec::new())),
        Type::Result(result) => match result.err()? {
            Type::Enum(codes) => {
                let refusal = codes.names().find(|name| matches!(*name, "access" | "access-denied"))?;
                Some(Val::Result(Err(Some(Box::new(Val::Enum(refusal.to_owned()))))))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Types of other interfaces that this one mentions must be theirs.
fn add_resource(closed: &mut LinkerInstance<'_, Guest>, name: &str) -> wasmtime::Result<()> {
    fn add<K: Kind>(closed: &mut LinkerInstance<'_, Guest>, name: &str) -> wasmtime::Result<()> {
        closed.resource(name, ResourceType::host::<K>(), K::drop)
    }
    match name {
        Input::NAME => add::<Input>(closed, name),
        Output::NAME => add::<Output>(closed, name),
        Pollable::NAME => add::<Pollable>(closed, name),
        IoError::NAME => add::<IoError>(closed, name),
        _ => add::<Absent>(closed, name),
    }
}
