//! `stepwell token`: who may use a server. The first one can be made in a data directory that no server has open.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use stepwell_engine::store::{self, Action, SqliteOptions, SqliteStore, Store as _, StoreError, Submission};

use super::client::{Client, Common, Sent, ServerArgs, segment};
use crate::api::{ROTATION_OVERLAP_MS, Scope, made_token};
use crate::cli::exit::Exit;

/// Arguments of `stepwell token`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stepwell token create ops --scope admin --data-dir /var/lib/stepwell --init
  stepwell token create shop --scope run --scope read
  stepwell token rotate 0a1b2c3d4e5f")]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Make a token. Its text is printed once and kept nowhere.
    Create {
        /// Whose it is.
        principal: String,
        /// What it is good for. Can be given more than once.
        #[arg(long = "scope", value_enum, required = true)]
        scopes: Vec<Scope>,
        /// Make it in this data directory, which no server has open.
        #[arg(long, value_name = "DIR")]
        data_dir: Option<PathBuf>,
        /// Make the directory's database too, where no server has been started in it yet.
        #[arg(long, requires = "data_dir")]
        init: bool,
        #[command(flatten)]
        common: Common,
    },
    /// List tokens, without their texts.
    List(Common),
    /// Make a token in the place of another.
    Rotate {
        /// The token's name.
        id: String,
        /// How long the old one holds beside the new one, in ms. 0 where it is in wrong hands; otherwise leave it time: where the
        /// answer is lost, the old one is all that you have.
        #[arg(long, value_name = "MS", default_value_t = ROTATION_OVERLAP_MS)]
        overlap_ms: u64,
        #[command(flatten)]
        common: Common,
    },
    /// Let a token end at once.
    Revoke {
        /// The token's name.
        id: String,
        #[command(flatten)]
        common: Common,
    },
}

pub(crate) async fn token(args: TokenArgs) -> Result<(), ExitCode> {
    match args.command {
        TokenCommand::Create { principal, scopes, data_dir: Some(directory), init, common } => {
            show(&offline(&directory, init, &principal, &scopes)?, common.json);
        }
        TokenCommand::Create { principal, scopes, data_dir: None, common, .. } => {
            let body = json!({ "principal": principal, "scopes": scopes });
            show(&secret(&common.server, "/v1/tokens", &body).await?, common.json);
        }
        TokenCommand::List(common) => {
            let show = |token: &Value| {
                if common.json {
                    show!("{token}");
                } else {
                    let text = |name: &str| token[name].as_str().unwrap_or_default().to_owned();
                    show!("{}  {}  {}", text("id"), text("principal"), token["scopes"]);
                }
            };
            common.client()?.list("/v1/tokens", "tokens", show).await?;
        }
        TokenCommand::Rotate { id, overlap_ms, common } => {
            let path = format!("/v1/tokens/{}/rotate", segment(&id));
            show(&secret(&common.server, &path, &json!({ "overlapMs": overlap_ms })).await?, common.json);
        }
        TokenCommand::Revoke { id, common } => {
            common.client()?.delete(&format!("/v1/tokens/{}", segment(&id))).await?;
        }
    }
    Ok(())
}

/// Asks for a secret, which is shown once: without a key, since a repetition would not show it.
async fn secret(server: &ServerArgs, path: &str, body: &Value) -> Result<Value, ExitCode> {
    let sent = Sent { key: None, ..Sent::json(body, None) };
    Client::new(server)?.post(path, sent).await
}

fn offline(directory: &std::path::Path, init: bool, principal: &str, scopes: &[Scope]) -> Result<Value, ExitCode> {
    let failed = |error: StoreError| match error {
        StoreError::LastToken(_) => {
            Exit::Usage.with("the first token closes the server to everybody without one: it needs --scope admin")
        }
        error => Exit::Failed.with(error),
    };
    // In a directory that was misspelt, the token would be good for nothing.
    if !init && let Err(error @ StoreError::Missing(_)) = store::read_only(directory) {
        return Err(Exit::Usage.with(format!("{error}. To make one there, for a new server, add --init")));
    }
    let store = SqliteStore::open(directory, SqliteOptions::default()).map_err(failed)?;
    let made = made_token(principal, scopes, None);
    let (token, text) =
        made.map_err(|problem| Exit::Usage.with(problem.to_json()["detail"].as_str().unwrap_or_default()))?;
    let id = token.id.clone();
    let actions = vec![Action::SpareScope(Scope::Admin.as_str().to_owned()), Action::AddToken(token)];
    store.submit(Submission { actions, answer: None }).wait().map_err(failed)?;
    Ok(json!({ "id": id, "principal": principal, "scopes": scopes, "token": text }))
}

fn show(made: &Value, json: bool) {
    if json {
        show!("{made}");
    } else {
        say!("token {} of {}:", made["id"].as_str().unwrap_or_default(), made["principal"]);
        show!("{}", made["token"].as_str().unwrap_or_default());
    }
}
