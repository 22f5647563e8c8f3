//! What is to go wrong, for which requests: the text form of a fault, and which fault strikes which request.
//!
//! Pure. What an action means on a connection is the server's.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A moment of an exchange, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Point {
    /// The request has arrived at the machine, and nobody has read it.
    BeforeRead,
    /// It is read and its key is claimed, and nothing is stored.
    AfterRead,
    /// Its operation is stored, or was before, and nothing is answered.
    AfterStore,
    /// Half of the answer is sent.
    MidAnswer,
    /// All of the answer is sent.
    AfterAnswer,
}

impl FromStr for Point {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "before-read" => Self::BeforeRead,
            "after-read" => Self::AfterRead,
            "after-store" => Self::AfterStore,
            "mid-answer" => Self::MidAnswer,
            "after-answer" => Self::AfterAnswer,
            _ => {
                return Err(format!(
                    "`{text}` is no point of an exchange (before-read, after-read, after-store, mid-answer, after-answer)"
                ));
            }
        })
    }
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Answer this status at once; nothing is stored, and the key is left as it was.
    Status {
        /// The status code.
        status: u16,
        /// `Retry-After`, in seconds.
        retry_after: Option<u64>,
    },
    /// Store the operation, then answer this status all the same.
    StoreThen {
        /// The status code.
        status: u16,
        /// `Retry-After`, in seconds.
        retry_after: Option<u64>,
    },
    /// Work on the operation for so many milliseconds, also when the client has gone, then store and answer as usual.
    Takes(u64),
    /// Say nothing more from this point on, until the client closes.
    Hang(Point),
    /// Close the connection.
    Drop(Point),
    /// Kill the victim with SIGKILL. Then close the connection, or go on as if nothing had happened.
    Kill {
        /// When.
        point: Point,
        /// Read, store and answer all the same, as a server does that does not notice.
        go_on: bool,
    },
    /// Send the answer at one byte a second.
    SlowAnswer,
}

impl FromStr for Action {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (action, option) = text.split_once(',').map_or((text, None), |(a, o)| (a, Some(o)));
        let (name, value) = action.split_once(':').map_or((action, None), |(n, v)| (n, Some(v)));
        let retry_after = option.and_then(|o| o.strip_prefix("retry-after:")).map(number).transpose()?;
        let go_on = option == Some("go-on");
        let parsed = match (name, value) {
            ("status", Some(code)) => Self::Status { status: status(code)?, retry_after },
            ("store-then", Some(code)) => Self::StoreThen { status: status(code)?, retry_after },
            ("takes", Some(ms)) => Self::Takes(number(ms)?),
            ("hang", point) => Self::Hang(point.map_or(Ok(Point::AfterRead), str::parse)?),
            ("drop", Some(point)) => Self::Drop(point.parse()?),
            ("kill", Some(point)) => Self::Kill { point: point.parse()?, go_on },
            ("slow-answer", None) => Self::SlowAnswer,
            (code, None) if code.parse::<u16>().is_ok() => Self::Status { status: status(code)?, retry_after },
            _ => return Err(format!("`{action}` is no action")),
        };
        let fits = match parsed {
            Self::Status { .. } | Self::StoreThen { .. } => retry_after.is_some(),
            Self::Kill { .. } => go_on,
            _ => false,
        };
        match option {
            Some(option) if !fits => Err(format!("`{option}` is no option of `{action}`")),
            _ => Ok(parsed),
        }
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is no whole number"))
}

fn status(text: &str) -> Result<u16, String> {
    text.parse()
        .ok()
        .filter(|code| (200..=599).contains(code))
        .ok_or_else(|| format!("`{text}` is no status from 200 to 599"))
}

/// An action and the requests that it strikes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    text: String,
    method: String,
    path: String,
    /// The first and the last request that it strikes, counted from 1 among those that match.
    which: Option<(u64, u64)>,
    action: Action,
    seen: u64,
}

impl Fault {
    /// The text form, for people.
    pub const GRAMMAR: &str = "\
Faults: 'METHOD PATH[#N|#N-M]=ACTION'. METHOD may be *, PATH may end in *; #N is the N-th such
request after the fault was given, without it every one is struck. The first fault that strikes
a request wins. ACTION is one of
  status:CODE[,retry-after:SECONDS]      answer CODE, store nothing (`CODE` alone is the same)
  store-then:CODE[,retry-after:SECONDS]  store, then answer CODE
  takes:MS                               work for MS milliseconds before storing
  hang[:POINT]                           fall silent (after reading, unless told)
  drop:POINT                             close the connection
  kill:POINT[,go-on]                     SIGKILL to the victim, then close the connection, or go on
  slow-answer                            one byte a second
and POINT is before-read, after-read, after-store, mid-answer or after-answer.
At run time: POST /_faults {\"faults\": [\"POST /charges#1=503\"]}, GET or DELETE /_faults,
GET /_record.";

    /// What it does.
    #[must_use]
    pub fn action(&self) -> Action {
        self.action
    }

    fn matches(&self, method: &str, path: &str) -> bool {
        let path_matches = match self.path.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => path == self.path,
        };
        path_matches && (self.method == "*" || self.method == method)
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (target, action) = text.split_once('=').ok_or_else(|| format!("`{text}` has no `=`"))?;
        let (method, rest) = target.split_once(' ').ok_or_else(|| format!("`{target}` is no `METHOD PATH`"))?;
        let (path, which) = match rest.split_once('#') {
            None => (rest, None),
            Some((path, which)) => {
                let (first, last) = which.split_once('-').unwrap_or((which, which));
                let (first, last) = (number(first)?, number(last)?);
                if first == 0 || last < first {
                    return Err(format!("`#{which}` counts from 1, upwards"));
                }
                (path, Some((first, last)))
            }
        };
        if !path.starts_with('/') {
            return Err(format!("`{path}` does not begin with a slash"));
        }
        let action = action.parse()?;
        Ok(Self { text: text.to_owned(), method: method.to_owned(), path: path.to_owned(), which, action, seen: 0 })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The faults in force.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<Fault>);

impl Faults {
    pub(crate) fn new(faults: Vec<Fault>) -> Self {
        Self(faults)
    }

    pub(crate) fn add(&mut self, faults: Vec<Fault>) {
        self.0.extend(faults);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        self.0.iter().map(ToString::to_string).collect()
    }

    /// The fault that strikes this request, if any. Counts it in every fault that it matches, so that `#2` means the second
    /// request and not the second that nothing else struck.
    pub(crate) fn strike(&mut self, method: &str, path: &str) -> Option<Fault> {
        let mut struck = None;
        for fault in self.0.iter_mut().filter(|fault| fault.matches(method, path)) {
            fault.seen += 1;
            let hits = fault.which.is_none_or(|(first, last)| (first..=last).contains(&fault.seen));
            if hits && struck.is_none() {
                struck = Some(fault.clone());
            }
        }
        struck
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(text: &str) -> Result<Action, String> {
        text.parse()
    }

    #[test]
    fn every_action_is_read() {
        assert_eq!(action("503"), Ok(Action::Status { status: 503, retry_after: None }));
        assert_eq!(action("status:429,retry-after:1"), Ok(Action::Status { status: 429, retry_after: Some(1) }));
        assert_eq!(action("store-then:504"), Ok(Action::StoreThen { status: 504, retry_after: None }));
        assert_eq!(action("takes:250"), Ok(Action::Takes(250)));
        assert_eq!(action("hang"), Ok(Action::Hang(Point::AfterRead)));
        assert_eq!(action("hang:mid-answer"), Ok(Action::Hang(Point::MidAnswer)));
        assert_eq!(action("drop:before-read"), Ok(Action::Drop(Point::BeforeRead)));
        assert_eq!(action("kill:after-store"), Ok(Action::Kill { point: Point::AfterStore, go_on: false }));
        assert_eq!(action("kill:after-answer,go-on"), Ok(Action::Kill { point: Point::AfterAnswer, go_on: true }));
        assert_eq!(action("slow-answer"), Ok(Action::SlowAnswer));
    }

    #[test]
    fn what_is_no_fault_is_refused_by_what_is_wrong_with_it() {
        for (text, says) in [
            ("POST /charges", "no `=`"),
            ("/charges=503", "METHOD PATH"),
            ("POST charges=503", "slash"),
            ("POST /charges#0=503", "from 1"),
            ("POST /charges#3-2=503", "from 1"),
            ("POST /charges#x=503", "whole number"),
            ("POST /charges=99", "200 to 599"),
            ("POST /charges=explode", "no action"),
            ("POST /charges=drop:later", "no point"),
            ("POST /charges=drop", "no action"),
            ("POST /charges=hang,go-on", "no option"),
            ("POST /charges=503,go-on", "no option"),
            ("POST /charges=kill:after-read,retry-after:1", "no option"),
        ] {
            let error = text.parse::<Fault>().expect_err(text);
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn the_nth_matching_request_is_struck() {
        let mut faults = Faults::new(vec!["POST /charges#2=503".parse().unwrap()]);
        let mut strikes = |method, path| faults.strike(method, path).is_some();
        assert!(!strikes("POST", "/charges"));
        assert!(!strikes("POST", "/labels"));
        assert!(!strikes("GET", "/charges"));
        assert!(strikes("POST", "/charges"));
        assert!(!strikes("POST", "/charges"));
    }

    #[test]
    fn ranges_wildcards_and_every_request() {
        let mut faults = Faults::new(vec!["* /o*#2-3=503".parse().unwrap(), "GET /orders/b=404".parse().unwrap()]);
        let mut strike = |path| faults.strike("GET", path).map(|fault| fault.to_string());
        assert_eq!(strike("/orders/a"), None);
        assert_eq!(strike("/orders/b").as_deref(), Some("* /o*#2-3=503"));
        assert_eq!(strike("/orders/a").as_deref(), Some("* /o*#2-3=503"));
        assert_eq!(strike("/orders/a"), None);
        assert_eq!(strike("/orders/b").as_deref(), Some("GET /orders/b=404"));
    }
}
