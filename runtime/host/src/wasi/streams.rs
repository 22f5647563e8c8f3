//! `wasi:io/streams` and `wasi:io/error`: an input that is at its end, and outputs that become log lines.

use wasmtime::component::{ComponentType, Lift, Linker, Lower, Resource};

use super::poll::Pollable;
use super::{Kind, Store, versioned};
use crate::guest::Guest;

/// An input: always at its end.
pub(super) struct Input;

/// An output.
#[derive(Clone, Copy)]
pub(super) enum Output {
    Stdout,
    Stderr,
}

/// Why a stream failed. None ever does, so there are none of these.
pub(super) struct IoError;

impl Kind for Input {
    const NAME: &'static str = "input-stream";
}
impl Kind for Output {
    const NAME: &'static str = "output-stream";
}
impl Kind for IoError {
    const NAME: &'static str = "error";
}

#[derive(ComponentType, Lift, Lower)]
#[component(variant)]
enum StreamError {
    #[component(name = "last-operation-failed")]
    Failed(Resource<IoError>),
    #[component(name = "closed")]
    Closed,
}

/// Bytes that a guest may write in one call.
const MAX_WRITE_BYTES: u64 = 64 << 10;

pub(super) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    let mut error = linker.instance(&versioned("wasi:io/error"))?;
    error.resource(IoError::NAME, IoError::ty(), IoError::drop)?;
    error
        .func_wrap("[method]error.to-debug-string", |_: Store<'_>, (_,): (Resource<IoError>,)| Ok((String::new(),)))?;

    let mut streams = linker.instance(&versioned("wasi:io/streams"))?;
    streams.resource(Input::NAME, Input::ty(), Input::drop)?;
    streams.resource(Output::NAME, Output::ty(), Output::drop)?;

    for name in ["read", "blocking-read"] {
        streams
            .func_wrap(&format!("[method]input-stream.{name}"), |_: Store<'_>, (_, _): (Resource<Input>, u64)| {
                Ok((Err::<Vec<u8>, _>(StreamError::Closed),))
            })?;
    }
    for name in ["skip", "blocking-skip"] {
        streams
            .func_wrap(&format!("[method]input-stream.{name}"), |_: Store<'_>, (_, _): (Resource<Input>, u64)| {
                Ok((Err::<u64, _>(StreamError::Closed),))
            })?;
    }
    streams.func_wrap("[method]input-stream.subscribe", |mut store: Store<'_>, (_,): (Resource<Input>,)| {
        Ok((Pollable::Ready.push(&mut store)?,))
    })?;

    streams.func_wrap("[method]output-stream.check-write", |_: Store<'_>, (_,): (Resource<Output>,)| {
        Ok((Ok::<_, StreamError>(MAX_WRITE_BYTES),))
    })?;
    for name in ["write", "blocking-write-and-flush"] {
        streams.func_wrap(
            &format!("[method]output-stream.{name}"),
            |mut store: Store<'_>, (output, bytes): (Resource<Output>, Vec<u8>)| {
                write(&mut store, &output, &bytes)?;
                Ok((Ok::<_, StreamError>(()),))
            },
        )?;
    }
    for name in ["write-zeroes", "blocking-write-zeroes-and-flush"] {
        streams.func_wrap(
            &format!("[method]output-stream.{name}"),
            |mut store: Store<'_>, (output, length): (Resource<Output>, u64)| {
                let zeroes = vec![0; usize::try_from(length.min(MAX_WRITE_BYTES))?];
                write(&mut store, &output, &zeroes)?;
                Ok((Ok::<_, StreamError>(()),))
            },
        )?;
    }
    for name in ["flush", "blocking-flush"] {
        streams.func_wrap(&format!("[method]output-stream.{name}"), |_: Store<'_>, (_,): (Resource<Output>,)| {
            Ok((Ok::<_, StreamError>(()),))
        })?;
    }
    for name in ["splice", "blocking-splice"] {
        streams.func_wrap(
            &format!("[method]output-stream.{name}"),
            |_: Store<'_>, (_, _, _): (Resource<Output>, Resource<Input>, u64)| {
                Ok((Err::<u64, _>(StreamError::Closed),))
            },
        )?;
    }
    streams.func_wrap("[method]output-stream.subscribe", |mut store: Store<'_>, (_,): (Resource<Output>,)| {
        Ok((Pollable::Ready.push(&mut store)?,))
    })
}

fn write(store: &mut Store<'_>, output: &Resource<Output>, bytes: &[u8]) -> wasmtime::Result<()> {
    let guest = store.data_mut();
    let lines = match guest.wasi.table.get(output)? {
        Output::Stdout => &mut guest.wasi.stdout,
        Output::Stderr => &mut guest.wasi.stderr,
    };
    lines.write(bytes, &mut *guest.commands);
    Ok(())
}
