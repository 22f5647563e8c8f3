//! Secrets: where they come from, which destinations may have them, and how they get into a header.
//!
//! A secret is put in at the last moment and taken out of what comes back (`strike`). It has no way into an error or a log:
//! `Debug` shows names only.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use http::HeaderValue;
use stepwell_core::error::{Code, Error};
use stepwell_core::limits;

use super::destination::{Pattern, PatternError, Scheme, Target};

/// A shorter value could not be told apart from ordinary text when it is struck from answers.
const MIN_SECRET_BYTES: usize = 8;
const OPENING: &str = "${secret:";

/// Why a secret cannot be had. No variant holds a value.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// Not `NAME=SOURCE@DESTINATIONS`. The text is not repeated, since it may be the secret itself.
    #[error(
        "a secret is given as NAME=env:VARIABLE@HOST or NAME=file:PATH@HOST, e.g. stripe=env:STRIPE_KEY@api.stripe.com: {0}"
    )]
    Form(&'static str),
    /// A name with other characters than letters, digits, `_`, `-` and `.`, or none, or too long.
    #[error("a secret's name has 1 to 200 letters, digits, `_`, `-` or `.`")]
    Name,
    /// Neither `env:` nor `file:`. Values on the command line would stand in the process list and the shell's history.
    #[error("secret `{0}`: its source is neither env: nor file:")]
    Source(String),
    /// What it is bound to is no destination.
    #[error("secret `{name}`: {error}")]
    Destination {
        /// The secret.
        name: String,
        /// What is wrong.
        error: PatternError,
    },
    /// The variable is not set, or is no text.
    #[error("secret `{name}`: the environment variable {variable} is not set")]
    Variable {
        /// The secret.
        name: String,
        /// The variable.
        variable: String,
    },
    /// The file cannot be read.
    #[error("secret `{name}`: {}: {error}", path.display())]
    File {
        /// The secret.
        name: String,
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The value cannot stand in a header: a line break, a control character.
    #[error("secret `{0}`: its value cannot stand in a header (one line of text without control characters)")]
    Value(String),
    /// The value is too short to be struck from answers.
    #[error("secret `{0}`: its value is shorter than {MIN_SECRET_BYTES} bytes, too short to be recognised in answers")]
    TooShort(String),
    /// Two secrets of one name.
    #[error("secret `{0}` is given twice")]
    Twice(String),
}

/// A secret as the operator gives it: `stripe=env:STRIPE_KEY@api.stripe.com`, `pay=file:/run/secrets/pay@*.pay.example,pay.example`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretFlag {
    /// What modules call it.
    pub name: String,
    /// Where its value is.
    pub source: SecretSource,
    /// Who may have it.
    pub bound_to: Vec<Pattern>,
}

/// Where a secret's value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// An environment variable.
    Env(String),
    /// A file; a final line break is not part of the value.
    File(PathBuf),
}

impl FromStr for SecretFlag {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        let (name, rest) = text.split_once('=').ok_or(SecretError::Form("there is no `=`"))?;
        let name = valid_name(name)?.to_owned();
        let (source, hosts) = rest.rsplit_once('@').ok_or(SecretError::Form("there is no `@` and destination"))?;
        let source = match source.split_once(':') {
            Some((_, "")) => return Err(SecretError::Form("the source is empty")),
            Some(("env", variable)) => SecretSource::Env(variable.to_owned()),
            Some(("file", path)) => SecretSource::File(path.into()),
            _ => return Err(SecretError::Source(name)),
        };
        let parse = |host: &str| host.parse().map_err(|error| SecretError::Destination { name: name.clone(), error });
        let bound_to = hosts.split(',').map(parse).collect::<Result<_, _>>()?;
        Ok(Self { name, source, bound_to })
    }
}

impl SecretFlag {
    fn value(&self) -> Result<String, SecretError> {
        let name = self.name.clone();
        match &self.source {
            SecretSource::Env(variable) => {
                std::env::var(variable).map_err(|_| SecretError::Variable { name, variable: variable.clone() })
            }
            SecretSource::File(path) => {
                let text = std::fs::read_to_string(path).map_err(|error| SecretError::File {
                    name,
                    path: path.clone(),
                    error,
                })?;
                let text = text.strip_suffix('\n').unwrap_or(&text);
                Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
            }
        }
    }
}

fn valid_name(name: &str) -> Result<&str, SecretError> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let valid = !name.is_empty() && name.len() <= limits::MAX_NAME_BYTES && name.chars().all(legal);
    if valid { Ok(name) } else { Err(SecretError::Name) }
}

/// The operator's secrets. Cheap to clone.
#[derive(Clone, Default)]
pub struct Secrets(Arc<BTreeMap<String, Secret>>);

struct Secret {
    value: String,
    bound_to: Vec<Pattern>,
}

impl Secrets {
    /// Reads the values, once.
    ///
    /// # Errors
    /// The first secret that cannot be had, by name.
    pub fn load(flags: &[SecretFlag]) -> Result<Self, SecretError> {
        let mut secrets = BTreeMap::new();
        for flag in flags {
            let value = flag.value()?;
            if HeaderValue::from_str(&value).is_err() || value.trim() != value {
                return Err(SecretError::Value(flag.name.clone()));
            }
            if value.len() < MIN_SECRET_BYTES {
                return Err(SecretError::TooShort(flag.name.clone()));
            }
            let secret = Secret { value, bound_to: flag.bound_to.clone() };
            if secrets.insert(flag.name.clone(), secret).is_some() {
                return Err(SecretError::Twice(flag.name.clone()));
            }
        }
        Ok(Self(Arc::new(secrets)))
    }

    /// Name and value of each, for `strike`.
    pub(super) fn values(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, secret)| (name.as_str(), secret.value.as_str()))
    }

    /// A header's value with its secrets put in.
    ///
    /// `declared` are the names that the run's module declares; `None` lets it use all of the operator's.
    pub(super) fn put_in(&self, text: &str, target: &Target, declared: Option<&[String]>) -> Result<String, Error> {
        let mut whole = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(OPENING) {
            whole.push_str(before);
            let (name, after) = after.split_once('}').ok_or_else(|| refused("a `${secret:` has no `}`"))?;
            whole.push_str(self.one(name, target, declared)?);
            rest = after;
        }
        whole.push_str(rest);
        Ok(whole)
    }

    fn one(&self, name: &str, target: &Target, declared: Option<&[String]>) -> Result<&str, Error> {
        let name = valid_name(name).map_err(|error| refused(&error.to_string()))?;
        if declared.is_some_and(|names| !names.iter().any(|n| n == name)) {
            return Err(refused(&format!(
                "the workflow does not declare the secret `{name}`; add it to its `secrets`"
            )));
        }
        let Some(secret) = self.0.get(name) else {
            return Err(refused(&format!(
                "there is no secret `{name}`; the operator gives it with --secret {name}=env:VARIABLE@HOST"
            )));
        };
        let mut bound = secret.bound_to.iter().filter(|p| p.matches(target)).peekable();
        if bound.peek().is_none() {
            return Err(refused(&format!("the secret `{name}` is not bound to {target}")));
        }
        if target.scheme == Scheme::Http && !target.is_loopback() && !bound.any(Pattern::names_plain_http) {
            return Err(refused(&format!(
                "the secret `{name}` would go to {target} unencrypted; bind it to {target} with its scheme if that is meant"
            )));
        }
        Ok(&secret.value)
    }
}

/// Whether a text asks for a secret.
pub(super) fn asks(text: &str) -> bool {
    text.contains(OPENING)
}

fn refused(why: &str) -> Error {
    Error::new(Code::SecretRefused, why).never_retried()
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
