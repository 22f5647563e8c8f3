//! `stepwell deploy`: a file to a module on a server.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::client::{Client, Sent, ServerArgs, segment};
use crate::cli::exit::Exit;
use crate::cli::source;

/// Arguments of `stepwell deploy`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stepwell deploy checkout.ts
  stepwell deploy checkout.ts --activate
  stepwell deploy checkout.wasm --url https://flows.example --token \"$TOKEN\"")]
pub(crate) struct DeployArgs {
    /// Source (.ts, .js), which is built here, or a module (.wasm).
    file: PathBuf,
    /// Let new runs of all its workflows start on it. Without this, only of those that start on no module yet.
    #[arg(long)]
    activate: bool,
    /// Print the module as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) async fn deploy(args: DeployArgs) -> Result<(), ExitCode> {
    let client = Client::new(&args.server)?;
    let built = source::component(&args.file, None).await?;
    let key = uuid::Uuid::new_v4().to_string();
    let sent = Sent { kind: "application/wasm", body: built.component, key: Some(key) };
    let mut module = client.post("/v1/modules", sent).await?;
    let digest = module["digest"].as_str().unwrap_or_default().to_owned();
    let workflows = module["workflows"].as_array().cloned().unwrap_or_default();
    let names: Vec<&str> = workflows.iter().filter_map(|workflow| workflow["name"].as_str()).collect();
    if args.activate {
        for name in &names {
            let body = json!({ "digest": digest });
            let path = format!("/v1/workflows/{}/activate", segment(name));
            client.post(&path, Sent::json(&body, None)).await?;
        }
        module["active"] = json!(names);
    }
    if args.json {
        show!("{module}");
        return Ok(());
    }
    let active = module["active"].as_array().cloned().unwrap_or_default();
    for name in &names {
        let note = if active.contains(&json!(name)) { "" } else { "  (not active: deploy with --activate)" };
        show!("{name}{note}");
    }
    say!("module {digest}");
    if names.is_empty() {
        return Err(Exit::Build.with("the module has no workflow"));
    }
    Ok(())
}
