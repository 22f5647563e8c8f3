//! The host that source sees while it is being built: a WASI with nothing in it, and commands that refuse.
//!
//! All of it is deterministic, since whatever top-level code reads is baked into the component. Only `log` works: what it is
//! given is kept, so that nothing that top-level code prints is lost.

use std::sync::Arc;

use wasmtime::component::types::{ComponentFunc, ComponentItem};
use wasmtime::component::{Component, Linker, LinkerInstance, Resource, ResourceType, Val};
use wasmtime::{Result, StoreContextMut, bail};

use crate::snapshot::Evaluation;

/// Every resource of WASI is one of these. Which one does not matter: whatever is written goes to the same place.
struct Handle;

/// Defines every import of `component` but the module loader.
pub(crate) fn define(linker: &mut Linker<Evaluation>, component: &Component) -> Result<()> {
    let engine = linker.engine().clone();
    for (name, import) in component.component_type().imports(&engine) {
        let ComponentItem::ComponentInstance(instance) = import.ty else {
            bail!("the runtime's import `{name}` is not an interface");
        };
        if name == "local:init/module-loader" {
            continue;
        }
        let mut interface = linker.instance(name)?;
        for (item, export) in instance.exports(&engine) {
            match export.ty {
                ComponentItem::ComponentFunc(function) => define_function(&mut interface, name, item, &function)?,
                ComponentItem::Resource(_) => {
                    interface.resource(item, ResourceType::host::<Handle>(), |_, _| Ok(()))?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn define_function(
    interface: &mut LinkerInstance<'_, Evaluation>,
    of: &str,
    name: &str,
    function: &ComponentFunc,
) -> Result<()> {
    let full = format!("{of}#{name}");
    if function.async_() {
        return interface.func_new_concurrent(name, move |_, _, _, _| {
            let error = refusal(&full);
            Box::pin(async move { Err(error) })
        });
    }
    let full: Arc<str> = full.into();
    interface.func_new_async(name, move |mut store, _, arguments, results| {
        let full = full.clone();
        Box::new(async move {
            if let Some(value) = answer(&mut store, &full, arguments)? {
                results[0] = value;
            }
            // A borrowed stream has to be given back before the call returns.
            for argument in arguments {
                if let Val::Resource(resource) = argument {
                    resource.resource_drop_async(&mut store).await?;
                }
            }
            Ok(())
        })
    })
}

/// A function was called that has no meaning while source is evaluated.
#[derive(Debug, thiserror::Error)]
#[error("the host's `{0}` was called while the module was being evaluated")]
pub(crate) struct Refused(String);

fn refusal(function: &str) -> wasmtime::Error {
    wasmtime::Error::new(Refused(function.rsplit('#').next().unwrap_or(function).to_owned()))
}

/// What a function answers while source is evaluated; `None` is for functions without a result.
fn answer(store: &mut StoreContextMut<'_, Evaluation>, full: &str, arguments: &[Val]) -> Result<Option<Val>> {
    let stream = |store: &mut StoreContextMut<'_, Evaluation>| -> Result<Option<Val>> {
        let resource = Resource::<Handle>::new_own(0);
        Ok(Some(Val::Resource(resource.try_into_resource_any(store)?)))
    };
    let ok = |value: Option<Val>| Ok(Some(Val::Result(Ok(value.map(Box::new)))));
    let (interface, function) = full.split_once('#').unwrap_or((full, ""));
    let interface = interface.split_once('@').map_or(interface, |(name, _)| name);
    match (interface, function) {
        ("stepwell:workflow/commands", "log") => {
            store.data_mut().log(arguments);
            Ok(None)
        }
        ("wasi:cli/environment", "get-environment" | "get-arguments") => Ok(Some(Val::List(Vec::new()))),
        ("wasi:cli/environment", "initial-cwd") => Ok(Some(Val::Option(None))),
        ("wasi:filesystem/preopens", "get-directories") => Ok(Some(Val::List(Vec::new()))),
        ("wasi:cli/terminal-stdin" | "wasi:cli/terminal-stdout" | "wasi:cli/terminal-stderr", _) => {
            Ok(Some(Val::Option(None)))
        }
        ("wasi:random/insecure-seed", _) => Ok(Some(Val::Tuple(vec![Val::U64(0), Val::U64(0)]))),
        ("wasi:clocks/monotonic-clock", "now") => Ok(Some(Val::U64(0))),
        ("wasi:clocks/wall-clock", "now") => {
            Ok(Some(Val::Record(vec![("seconds".into(), Val::U64(0)), ("nanoseconds".into(), Val::U32(0))])))
        }
        ("wasi:cli/stdin", _) => stream(store),
        ("wasi:cli/stdout", _) => stream(store),
        ("wasi:cli/stderr", _) => stream(store),
        ("wasi:io/streams", "[method]output-stream.check-write") => ok(Some(Val::U64(1 << 20))),
        ("wasi:io/streams", "[method]output-stream.write" | "[method]output-stream.blocking-write-and-flush") => {
            let [Val::Resource(_), Val::List(bytes)] = arguments else { bail!("a write without a stream") };
            let bytes = bytes.iter().filter_map(|byte| if let Val::U8(byte) = byte { Some(*byte) } else { None });
            store.data_mut().write(bytes);
            ok(None)
        }
        ("wasi:io/streams", "[method]output-stream.flush" | "[method]output-stream.blocking-flush") => ok(None),
        _ => Err(refusal(full)),
    }
}
