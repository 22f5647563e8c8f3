//! A data directory: the engine as a local run has it, and the reading half alone.

use std::net::Ipv6Addr;
use std::path::Path;
use std::process::ExitCode;

use stepwell_engine::http::{
    AddressPolicy, AllowNet, Destinations, HttpClient, HttpSettings, Pattern, SecretFlag, Secrets,
};
use stepwell_engine::store::{self, Durability, Reads, StoreError};
use stepwell_engine::{Engine, Reach, Settings};

use super::DurabilityArg;
use super::exit::Exit;

/// This machine, which a local run may always reach.
const LOOPBACK: [&str; 3] = ["127.0.0.1:*", "[::1]:*", "localhost:*"];

/// What the command line says of the outside.
pub(super) struct Outside<'a> {
    pub(super) secrets: &'a [String],
    pub(super) allow_net: &'a [String],
}

/// An address as a pattern of destinations.
fn on_any_port(address: &str) -> String {
    if address.parse::<Ipv6Addr>().is_ok() { format!("[{address}]:*") } else { format!("{address}:*") }
}

/// Opens the data directory for running.
pub(super) fn engine(
    data_dir: &Path,
    durability: DurabilityArg,
    outside: &Outside<'_>,
    adjust: impl FnOnce(&mut Settings),
) -> Result<Engine, ExitCode> {
    let usage = |error: String| Exit::Usage.with(error);
    let mut flags = Vec::new();
    for text in outside.secrets {
        flags.push(text.parse::<SecretFlag>().map_err(|error| usage(format!("--secret: {error}")))?);
    }
    let secrets = Secrets::load(&flags).map_err(|error| usage(format!("--secret: {error}")))?;
    let mut addresses = AddressPolicy { allow_loopback: true, ..AddressPolicy::default() };
    // Constants of ours: they are patterns, as a test shows.
    let mut also: Vec<Pattern> = LOOPBACK.iter().filter_map(|text| text.parse().ok()).collect();
    for text in outside.allow_net {
        let net: AllowNet = text.parse().map_err(|error| usage(format!("--allow-net: {error}")))?;
        // What is opened by name is also a destination; a network of addresses only opens what is declared.
        if let AllowNet::Host(pattern) = &net {
            also.push(pattern.clone());
        } else if let Ok(pattern) = on_any_port(text).parse() {
            also.push(pattern);
        }
        addresses.allow_net.push(net);
    }
    let client =
        HttpClient::new(HttpSettings { allow: Destinations::Any, addresses, secrets, ..HttpSettings::default() });
    let mut settings = Settings::new(data_dir);
    settings.durability = match durability {
        DurabilityArg::Disk => Durability::Disk,
        DurabilityArg::Process => Durability::Process,
    };
    adjust(&mut settings);
    Engine::open(settings, client, Reach { also }).map_err(|error| Exit::Failed.with(format!("{error:#}")))
}

/// The reading half of a data directory, also while another process drives its runs.
pub(super) fn to_read(directory: &Path) -> Result<impl Reads + use<>, ExitCode> {
    store::read_only(directory).map_err(|error| match error {
        StoreError::Missing(_) => Exit::Usage.with(error),
        error => Exit::Failed.with(error),
    })
}
