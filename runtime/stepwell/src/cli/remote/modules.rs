//! `stepwell modules`: the modules of a server.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use stepwell_core::journal::print::printable;

use super::client::{Common, Sent, segment};

/// Arguments of `stepwell modules`.
#[derive(Debug, Args)]
pub(crate) struct ModulesArgs {
    #[command(subcommand)]
    command: ModulesCommand,
}

#[derive(Debug, Subcommand)]
enum ModulesCommand {
    /// List modules with their workflows; those that are active are marked with a star.
    List(Common),
    /// Show a module: its workflows, and what it may do.
    Show {
        /// The module.
        digest: String,
        #[command(flatten)]
        common: Common,
    },
    /// Let new runs of a workflow start on a module.
    Activate {
        /// The workflow.
        workflow: String,
        /// The module.
        digest: String,
        /// Change nothing; say how the open runs would replay on it.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Take a module away that nobody needs.
    Delete {
        /// The module.
        digest: String,
        #[command(flatten)]
        common: Common,
    },
}

pub(crate) async fn modules(args: ModulesArgs) -> Result<(), ExitCode> {
    match args.command {
        ModulesCommand::List(common) => {
            let show = |module: &Value| {
                if common.json {
                    show!("{module}");
                } else {
                    show!("{}  {}", module["digest"].as_str().unwrap_or_default(), names(module));
                }
            };
            common.client()?.list("/v1/modules", "modules", show).await?;
        }
        ModulesCommand::Show { digest, common } => {
            let module = common.client()?.get(&format!("/v1/modules/{}", segment(&digest))).await?;
            if common.json {
                show!("{module}");
            } else {
                describe(&module);
            }
        }
        ModulesCommand::Activate { workflow, digest, dry_run, common } => {
            let body = json!({ "digest": digest, "dryRun": dry_run });
            let path = format!("/v1/workflows/{}/activate", segment(&workflow));
            let answer = common.client()?.post(&path, Sent::json(&body, None)).await?;
            if common.json {
                show!("{answer}");
            } else if dry_run {
                report(&answer["report"]);
            }
        }
        ModulesCommand::Delete { digest, common } => {
            common.client()?.delete(&format!("/v1/modules/{}", segment(&digest))).await?;
        }
    }
    Ok(())
}

/// A module for people: what it has, what it needs and all that it may reach.
fn describe(module: &Value) {
    let of = &module["capabilities"];
    let texts = |list: &Value| {
        let texts: Vec<&str> = list.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if texts.is_empty() { "none".to_owned() } else { printable(&texts.join(", ")) }
    };
    let line = |name: &str, value: String| show!("{name:<14}{value}");
    line("module", module["digest"].as_str().unwrap_or_default().to_owned());
    line("size", format!("{} bytes", module["sizeBytes"]));
    for workflow in module["workflows"].as_array().into_iter().flatten() {
        let name = workflow["name"].as_str().unwrap_or_default();
        let active = module["active"].as_array().is_some_and(|active| active.contains(&json!(name)));
        line("workflow", printable(&format!("{name}{}", if active { " (active)" } else { "" })));
        line("  may reach", texts(&workflow["destinations"]));
        line("  secrets", texts(&workflow["secrets"]));
    }
    line("imports", texts(&of["imports"]));
    line("  of these", format!("nothing behind: {}", texts(&of["closedImports"])));
    line("memory", format!("{} bytes, at most {}", of["memoryBytes"], of["instanceMemoryBytes"]));
}

fn names(module: &Value) -> String {
    let active = module["active"].as_array().cloned().unwrap_or_default();
    let names = module["workflows"].as_array().into_iter().flatten().filter_map(|workflow| {
        let name = workflow["name"].as_str()?;
        Some(if active.contains(&json!(name)) { format!("{name}*") } else { name.to_owned() })
    });
    names.collect::<Vec<_>>().join(" ")
}

fn report(report: &Value) {
    show!("{} open runs replayed, {} of them clean", report["checked"], report["clean"]);
    if let Some(n @ 1..) = report["leftOut"].as_u64() {
        show!("{n} more open runs were not looked at: there are too many for one report");
    }
    for one in report["differing"].as_array().into_iter().flatten() {
        let (run, difference) =
            (one["run"].as_str().unwrap_or_default(), one["difference"].as_str().unwrap_or_default());
        show!("{run}  {difference}");
    }
    for one in report["failing"].as_array().into_iter().flatten() {
        show!("{}  cannot be replayed: {}", one["run"].as_str().unwrap_or_default(), one["error"]);
    }
}
